-- The auction site's database. lab/site/data.py fills it.
CREATE DATABASE auction CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
USE auction;

CREATE TABLE categories (
  id SMALLINT UNSIGNED PRIMARY KEY,
  name VARCHAR(40) NOT NULL,
  items SMALLINT UNSIGNED NOT NULL
);

CREATE TABLE users (
  id SMALLINT UNSIGNED PRIMARY KEY,
  nickname VARCHAR(40) NOT NULL,
  region VARCHAR(40) NOT NULL,
  since DATE NOT NULL
);

-- Prices are in cents.
CREATE TABLE items (
  id SMALLINT UNSIGNED PRIMARY KEY,
  category SMALLINT UNSIGNED NOT NULL,
  seller SMALLINT UNSIGNED NOT NULL,
  title VARCHAR(80) NOT NULL,
  description TEXT NOT NULL,
  start_price INT UNSIGNED NOT NULL,
  price INT UNSIGNED NOT NULL,
  bids SMALLINT UNSIGNED NOT NULL,
  closes DATETIME NOT NULL,
  -- What lists show, so that a list reads the index alone.
  KEY in_category (category, title, price, bids, closes, seller),
  KEY of_seller (seller)
);

CREATE TABLE bids (
  item SMALLINT UNSIGNED NOT NULL,
  placed DATETIME NOT NULL,
  bidder SMALLINT UNSIGNED NOT NULL,
  amount INT UNSIGNED NOT NULL,
  PRIMARY KEY (item, amount),
  KEY of_bidder (bidder, placed)
);

CREATE TABLE comments (
  about SMALLINT UNSIGNED NOT NULL,
  written DATETIME NOT NULL,
  author SMALLINT UNSIGNED NOT NULL,
  rating TINYINT NOT NULL, -- -1, 0 or 1
  text TEXT NOT NULL,
  PRIMARY KEY (about, written, author)
);

-- Each word of each title, for the search.
CREATE TABLE words (
  word VARCHAR(20) NOT NULL,
  item SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (word, item)
);

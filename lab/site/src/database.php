<?php

declare(strict_types=1);

namespace auction;

/**
 * The questions that pages ask. Throws PDOException if the database can't be reached, or stops answering.
 *
 * The database gives rows; what is derived from them is the web tier's work, as in the studies' site.
 */
final class Database
{
    private const SECONDS = 2; // to wait for an answer

    private readonly \PDO $connection;
    private ?array $categories = null; // each page lists them

    public function __construct()
    {
        $this->connection = new \PDO(
            'mysql:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=auction;charset=utf8mb4',
            'site',
            getenv('DB_PASSWORD'),
            [
                \PDO::ATTR_PERSISTENT => true, // for the next request that this process answers
                \PDO::ATTR_TIMEOUT => self::SECONDS,
                \PDO::ATTR_DEFAULT_FETCH_MODE => \PDO::FETCH_ASSOC,
            ],
        );
    }

    public function check(): void
    {
        $this->rows('SELECT 1');
    }

    public function categories(): array
    {
        return $this->categories ??= $this->rows('SELECT id, name, items FROM categories ORDER BY id');
    }

    /** Null if there is none. */
    public function category(int $id): ?array
    {
        return $this->rows('SELECT id, name, items FROM categories WHERE id = ?', $id)[0] ?? null;
    }

    /** All that a list shows of each item of a category. */
    public function items_in(int $category): array
    {
        return $this->rows(
            'SELECT items.id, title, price, bids, closes, seller FROM items WHERE category = ?',
            $category,
        );
    }

    public function items_by_id(array $ids): array
    {
        $marks = implode(', ', array_fill(0, count($ids), '?'));
        return $ids === [] ? [] : $this->rows("SELECT * FROM items WHERE id IN ($marks)", ...$ids);
    }

    public function item(int $id): ?array
    {
        return $this->items_by_id([$id])[0] ?? null;
    }

    public function items_of(int $seller): array
    {
        return $this->rows('SELECT * FROM items WHERE seller = ?', $seller);
    }

    /** Ids of the items whose titles hold a word, at most this many. */
    public function items_with(string $word, int $most): array
    {
        return array_column($this->rows('SELECT item FROM words WHERE word = ? LIMIT ?', $word, $most), 'item');
    }

    /** Items that share a word of their titles with an item, this one too. */
    public function items_called(string $word, int $category): array
    {
        return $this->rows(
            'SELECT items.* FROM words JOIN items ON items.id = item WHERE word = ? AND category = ?',
            $word,
            $category,
        );
    }

    /** The latest bids of a user, at most this many. */
    public function bids_by(int $bidder, int $most): array
    {
        return $this->rows(
            'SELECT placed, amount, items.id, title, price FROM bids JOIN items ON items.id = item
            WHERE bidder = ? ORDER BY placed DESC LIMIT ?',
            $bidder,
            $most,
        );
    }

    /** In the order in which they were placed. */
    public function bids(int $item): array
    {
        return $this->rows(
            'SELECT placed, amount, users.id AS bidder, nickname FROM bids JOIN users ON users.id = bidder
            WHERE item = ? ORDER BY amount',
            $item,
        );
    }

    public function user(int $id): ?array
    {
        return $this->rows('SELECT * FROM users WHERE id = ?', $id)[0] ?? null;
    }

    public function comments(int $about): array
    {
        return $this->rows(
            'SELECT written, rating, text, users.id AS author, nickname FROM comments JOIN users ON users.id = author
            WHERE about = ? ORDER BY written DESC',
            $about,
        );
    }

    private function rows(string $query, int|string ...$values): array
    {
        $statement = $this->connection->prepare($query);
        foreach ($values as $position => $value) {
            $statement->bindValue($position + 1, $value, is_int($value) ? \PDO::PARAM_INT : \PDO::PARAM_STR);
        }
        $statement->execute();
        return $statement->fetchAll();
    }
}

<?php

declare(strict_types=1);

namespace auction;

/** Text for use in HTML, attributes included. */
function text(int|string $text): string
{
    return htmlspecialchars((string) $text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5);
}

/** A whole page; the content is HTML, the title text. */
function layout(string $title, string $content, array $categories): string
{
    $links = '';
    foreach ($categories as $category) {
        $links .= '<li>' . a("/category?id={$category['id']}", $category['name']) . " ({$category['items']})</li>\n";
    }
    $heading = text($title);
    return <<<HTML
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>$heading - Auction</title>
        <style>
        body { display: grid; gap: 1em; grid-template-columns: 11em 1fr; margin: 1em auto; max-width: 70em;
          font-family: sans-serif; line-height: 1.4; }
        header { grid-column: 1 / 3; border-bottom: thin solid; }
        nav ul { list-style: none; margin: 0; padding: 0; }
        table { border-collapse: collapse; }
        td, th { border-bottom: thin solid #aaa; padding: .2em 1em .2em 0; text-align: left; vertical-align: top; }
        .number { text-align: right; }
        </style>
        </head>
        <body>
        <header>
        <form action="/search"><a href="/">Auction</a> <input name="q" aria-label="Search for"> <button>Search</button></form>
        </header>
        <nav><ul>
        $links</ul></nav>
        <main>
        <h1>$heading</h1>
        $content
        </main>
        </body>
        </html>

        HTML;
}

function a(string $address, string $text): string
{
    return '<a href="' . text($address) . '">' . text($text) . '</a>';
}

/** The columns' names and, for each row, its cells, all HTML. */
function table(array $columns, array $rows): string
{
    $html = '<tr><th>' . implode('</th><th>', $columns) . "</th></tr>\n";
    foreach ($rows as $row) {
        $html .= '<tr><td>' . implode('</td><td>', $row) . "</td></tr>\n";
    }
    return "<table>\n$html</table>\n";
}

/** A point in time of the database, for people. */
function moment(string $time): string
{
    return (new \DateTimeImmutable($time))->format('j F, H:i');
}

/** A list of items, each with the beginning of its description; $words are highlighted. */
function item_table(array $items, array $words = []): string
{
    $rows = [];
    foreach ($items as $item) {
        $rows[] = [
            a("/item?id={$item['id']}", $item['title']) . '<br>' . excerpt($item['description'], $words),
            a("/bids?item={$item['id']}", (string) $item['bids']),
            money((int) $item['price']),
            moment($item['closes']),
        ];
    }
    return table(['Item', 'Bids', 'Price', 'Closes'], $rows);
}

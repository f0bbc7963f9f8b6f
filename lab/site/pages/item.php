<?php

declare(strict_types=1);

namespace auction;

const SIMILAR = 5; // items

/** @return array{string, string} */
function item_page(Database $database): array
{
    $item = $database->item(number_asked('id')) ?? throw new NotFound('there is no such item');
    $seller = $database->user((int) $item['seller']);
    $words = explode(' ', strtolower($item['title']));
    $others = array_filter(
        $database->items_called(end($words), (int) $item['category']),
        fn(array $other): bool => $other['id'] !== $item['id'],
    );
    $similar = most_like($item['title'] . ' ' . $item['description'], $others, SIMILAR);
    $facts = [
        ['Price', money((int) $item['price']) . ', from ' . money((int) $item['start_price'])],
        ['Bids', a("/bids?item={$item['id']}", (string) $item['bids'])],
        ['Closes', moment($item['closes'])],
        ['Seller', a("/user?id={$seller['id']}", $seller['nickname']) . ' in ' . text($seller['region'])],
    ];
    return [
        $item['title'],
        marked_up($item['description']) . table(['', ''], $facts) . "<h2>Like this one</h2>\n"
        . item_table($similar),
    ];
}

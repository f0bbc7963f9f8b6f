<?php

declare(strict_types=1);

namespace auction;

const OFFERED = 10; // items

/** @return array{string, string} */
function home_page(Database $database): array
{
    // Something else each day, the same for everybody.
    $day = (int) date('z');
    $ids = array_map(fn(int $number): int => ($day * 131 + $number * 211) % 2400 + 1, range(1, OFFERED));
    return ['Welcome', '<p>' . a('/categories', 'All categories') . ", or some of today's items:</p>\n"
        . item_table($database->items_by_id($ids))];
}

<?php

declare(strict_types=1);

namespace auction;

const OFFERED = 10; // items

/** @return array{string, string} */
function home_page(Database $database): array
{
    // Ids begin at 1 and go through the categories.
    $items = array_sum(array_column($database->categories(), 'items'));
    $ids = range(1, $items, intdiv($items, OFFERED));
    return ['Welcome', '<p>' . a('/categories', 'All categories') . ", or some of the items:</p>\n"
        . item_table($database->items_by_id($ids))];
}

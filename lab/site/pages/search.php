<?php

declare(strict_types=1);

namespace auction;

const FOUND = 60; // items that are ranked
const BEST = 20; // of them, shown

/** @return array{string, string} */
function search_page(Database $database): array
{
    $asked = is_string($_GET['q'] ?? null) ? substr($_GET['q'], 0, 100) : '';
    $words = array_slice(array_keys(word_counts($asked)), 0, 4);
    $ids = [];
    foreach ($words as $word) {
        $ids = [...$ids, ...$database->items_with($word, intdiv(FOUND, count($words)))];
    }
    $best = most_like($asked, $database->items_by_id(array_values(array_unique($ids))), BEST);
    $found = $best === [] ? '<p>Nothing was found.</p>' : item_table($best, $words);
    return [$asked === '' ? 'Search' : "Search for $asked", $found];
}

<?php

declare(strict_types=1);

namespace auction;

/** @return array{string, string} */
function categories_page(Database $database): array
{
    $rows = [];
    foreach ($database->categories() as $category) {
        $rows[] = [a("/category?id={$category['id']}", $category['name']), text($category['items'])];
    }
    return ['Categories', table(['Category', 'Items'], $rows)];
}

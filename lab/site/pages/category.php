<?php

declare(strict_types=1);

namespace auction;

const ON_A_PAGE = 20; // items

/** @return array{string, string} */
function category_page(Database $database): array
{
    $category = $database->category(number_asked('id')) ?? throw new NotFound('there is no such category');
    $items = $database->items_in((int) $category['id']);
    usort($items, fn(array $a, array $b): int => [$a['closes'], $a['title']] <=> [$b['closes'], $b['title']]);
    $pages = (int) ceil(count($items) / ON_A_PAGE);
    $page = min(number_asked('page', 1), $pages);
    $shown = array_slice($items, ($page - 1) * ON_A_PAGE, ON_A_PAGE);
    $whole = array_column($database->items_by_id(array_column($shown, 'id')), null, 'id');

    $prices = array_column($items, 'price');
    $content = '<p>Half of the items cost less than ' . money(median($prices)) . ".</p>\n";
    $bands = price_bands($prices);
    $content .= table(array_keys($bands), [array_map(text(...), array_values($bands))]);
    $content .= item_table(array_map(fn(array $item): array => $whole[$item['id']], $shown));
    $links = array_map(
        fn(int $number): string => $number === $page ? "<b>$number</b>"
            : a("/category?id={$category['id']}&page=$number", (string) $number),
        range(1, $pages),
    );
    return [$category['name'], $content . '<p>Page ' . implode(' ', $links) . "</p>\n"];
}

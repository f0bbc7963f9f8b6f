<?php
// Which items are like another one, or like what somebody looks for, by the words that they share.

declare(strict_types=1);

namespace auction;

/** How often each word, in lower case, is in a text. */
function word_counts(string $text): array
{
    preg_match_all('/[a-z][a-z-]+/', strtolower($text), $found);
    return array_count_values($found[0]);
}

/** Cosine of the angle between two word counts: 0 for nothing in common, 1 for the same words. */
function likeness(array $one, array $other): float
{
    $common = 0;
    foreach (array_intersect_key($one, $other) as $word => $count) {
        $common += $count * $other[$word];
    }
    $length = fn(array $counts): float => sqrt(array_sum(array_map(fn(int $count): int => $count * $count, $counts)));
    return $common === 0 ? 0.0 : $common / ($length($one) * $length($other));
}

/** The items that are most like a text, best first, and among equals those that close first. */
function most_like(string $text, array $items, int $most): array
{
    $wanted = word_counts($text);
    $ranked = [];
    foreach ($items as $item) {
        $counts = word_counts($item['title'] . ' ' . ($item['description'] ?? ''));
        $ranked[] = [likeness($wanted, $counts), $item];
    }
    usort($ranked, fn(array $a, array $b): int => [$b[0], $a[1]['closes']] <=> [$a[0], $b[1]['closes']]);
    return array_column(array_slice($ranked, 0, $most), 1);
}

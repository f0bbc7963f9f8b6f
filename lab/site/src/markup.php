<?php
// What sellers and visitors write: paragraphs, lists of lines that begin with "- ", *emphasis*, #item-number.

declare(strict_types=1);

namespace auction;

/** Words are broken at a line's end no nearer to their ends than this. */
const UNBROKEN = 3;

/** Text in this markup as HTML; the words are marked wherever they are. */
function marked_up(string $source, array $words = []): string
{
    $html = '';
    foreach (preg_split('/\n{2,}/', trim($source)) as $block) {
        if (str_starts_with($block, '- ')) {
            $points = array_map(
                fn(string $line): string => '<li>' . inline(tokens(substr($line, 2)), $words) . '</li>',
                explode("\n", $block),
            );
            $html .= "<ul>\n" . implode("\n", $points) . "\n</ul>\n";
        } else {
            $html .= '<p>' . inline(tokens($block), $words) . "</p>\n";
        }
    }
    return $html;
}

/** The beginning of a text as HTML, without emphasis, links and lists, cut after a whole word. */
function excerpt(string $source, array $words = [], int $most = 30): string
{
    $plain = array_map(
        fn(array $token): array => match ($token[0]) {
            'emphasis' => ['mark', ''],
            'item' => ['mark', $token[1]],
            default => $token,
        },
        tokens($source),
    );
    $beginning = array_slice($plain, 0, 2 * $most); // a space follows each word
    return inline($beginning, $words) . (count($beginning) < count($plain) ? ' …' : '');
}

/** The text in pieces, each as what it is and how it is written. */
function tokens(string $source): array
{
    $kinds = '/(?<word>[a-z]+(?:\'[a-z]+)?)|(?<number>\d+)|(?<item>\#\d+)|(?<emphasis>\*)|(?<space>\s+)|(?<mark>--|.)/isu';
    preg_match_all($kinds, $source, $found, PREG_SET_ORDER | PREG_UNMATCHED_AS_NULL);
    $tokens = [];
    foreach ($found as $match) {
        foreach (['word', 'number', 'item', 'emphasis', 'space', 'mark'] as $kind) {
            if (isset($match[$kind])) {
                $tokens[] = [$kind, $match[0]];
                break;
            }
        }
    }
    return $tokens;
}

/** Pieces as HTML, with the typography that people don't type. */
function inline(array $tokens, array $words): string
{
    $html = $before = '';
    $emphasised = false;
    foreach ($tokens as $position => [$kind, $token]) {
        switch ($kind) {
            case 'word':
                $word = str_replace("'", '’', hyphenated($token));
                $html .= in_array(strtolower($token), $words, true) ? "<mark>$word</mark>" : $word;
                break;
            case 'item':
                $html .= a('/item?id=' . substr($token, 1), $token);
                break;
            case 'emphasis':
                $html .= $emphasised ? '</em>' : '<em>';
                $emphasised = !$emphasised;
                break;
            case 'space':
                // A number stays with its unit.
                $unit = $before === 'number' && in_array($tokens[$position + 1][1] ?? '', ['kg', 'days'], true);
                $html .= $unit ? "\u{a0}" : ' ';
                break;
            default:
                $html .= $token === '--' ? '–' : text($token);
        }
        $before = $kind;
    }
    return $html . ($emphasised ? '</em>' : '');
}

/** A word with soft hyphens, before each consonant that a vowel follows. */
function hyphenated(string $word): string
{
    $length = strlen($word);
    $parted = substr($word, 0, UNBROKEN);
    for ($at = UNBROKEN; $at < $length; $at++) {
        if ($at <= $length - UNBROKEN && is_consonant($word[$at]) && !is_consonant($word[$at + 1])) {
            $parted .= "\u{ad}";
        }
        $parted .= $word[$at];
    }
    return $parted;
}

function is_consonant(string $letter): bool
{
    return !in_array(strtolower($letter), ['a', 'e', 'i', 'o', 'u', 'y'], true);
}

<?php
// What sellers and visitors write: paragraphs, lists of lines that begin with "- ", *emphasis*, #item-number.

declare(strict_types=1);

namespace auction;

/** Text in this markup as HTML. */
function marked_up(string $source): string
{
    $html = '';
    foreach (preg_split('/\n{2,}/', trim($source)) as $block) {
        if (str_starts_with($block, '- ')) {
            $points = array_map(fn(string $line): string => inline(substr($line, 2)), explode("\n", $block));
            $html .= "<ul>\n<li>" . implode("</li>\n<li>", $points) . "</li>\n</ul>\n";
        } else {
            $html .= '<p>' . inline($block) . "</p>\n";
        }
    }
    return $html;
}

function inline(string $source): string
{
    return preg_replace(
        ['/\*([^*\n]+)\*/', '/#(\d+)/', '/ -- /', '/&apos;/', '/(\d+) (kg|days|centimetres)/'],
        ['<em>$1</em>', '<a href="/item?id=$1">#$1</a>', ' – ', '’', "\$1\u{a0}\$2"],
        text($source),
    );
}

/** The beginning of a text, without its markup, cut after a whole word. */
function excerpt(string $source, int $characters = 160): string
{
    $plain = trim(preg_replace('/\s+/', ' ', html_entity_decode(strip_tags(marked_up($source)), ENT_QUOTES | ENT_HTML5)));
    if (strlen($plain) <= $characters) {
        return $plain;
    }
    return preg_replace('/\s+\S*$/', '', substr($plain, 0, $characters)) . ' …';
}

/** Text as HTML in which the words are marked. */
function highlighted(string $plain, array $words): string
{
    $html = text($plain);
    if ($words !== []) {
        $any = implode('|', array_map(fn(string $word): string => preg_quote(text($word), '/'), $words));
        $html = preg_replace("/\\b($any)\\b/iu", '<mark>$1</mark>', $html);
    }
    return $html;
}

<?php

declare(strict_types=1);

namespace auction;

/** Cents as an amount of money. */
function money(int $cents): string
{
    return number_format($cents / 100, 2, '.', "\u{202f}") . "\u{a0}€";
}

/** How many of the prices are in each of the bands: 0 to 25, 25 to 50, 50 to 100 € and so on, by the band's name. */
function price_bands(array $prices): array
{
    $bands = [];
    sort($prices);
    foreach ($prices as $price) {
        $upper = 2500;
        while ($price >= $upper) {
            $upper *= 2;
        }
        $name = 'below ' . money($upper);
        $bands[$name] = ($bands[$name] ?? 0) + 1;
    }
    return $bands;
}

function median(array $numbers): int
{
    sort($numbers);
    return (int) ($numbers[intdiv(count($numbers), 2)] ?? 0);
}

/** How the price went up, as a drawing; $bids in the order in which they were placed. */
function price_chart(array $bids): string
{
    if (count($bids) < 2) {
        return '';
    }
    [$width, $height] = [600, 150];
    $times = array_map(strtotime(...), array_column($bids, 'placed'));
    $amounts = array_column($bids, 'amount');
    [$first, $span, $highest] = [$times[0], max(end($times) - $times[0], 1), max($amounts)];
    $steps = $labels = '';
    foreach ($times as $number => $time) {
        $x = round(($time - $first) / $span * $width, 1);
        $y = round($height - $amounts[$number] / $highest * $height, 1);
        $steps .= $number === 0 ? "M$x $y" : "H{$x}V$y";
        $labels .= sprintf(
            '<circle cx="%s" cy="%s" r="3"><title>%s, %s: %s</title></circle>' . "\n",
            $x,
            $y,
            text($bids[$number]['nickname']),
            moment($bids[$number]['placed']),
            money((int) $amounts[$number]),
        );
    }
    return "<svg viewBox=\"-5 -5 610 160\" width=\"610\" role=\"img\" aria-label=\"Price over time\">\n"
        . "<path d=\"$steps\" fill=\"none\" stroke=\"black\"/>\n$labels</svg>\n";
}

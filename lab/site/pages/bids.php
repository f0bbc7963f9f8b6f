<?php

declare(strict_types=1);

namespace auction;

/** @return array{string, string} */
function bids_page(Database $database): array
{
    $item = $database->item(number_asked('item')) ?? throw new NotFound('there is no such item');
    $bids = $database->bids((int) $item['id']);
    $rows = $highest = [];
    $before = (int) $item['start_price'];
    foreach ($bids as $bid) {
        $amount = (int) $bid['amount'];
        $rows[] = [
            a("/user?id={$bid['bidder']}", $bid['nickname']),
            moment($bid['placed']),
            money($amount),
            sprintf('+%.1f %%', ($amount / $before - 1) * 100),
        ];
        $highest[$bid['nickname']] = $amount;
        $before = $amount;
    }
    arsort($highest);
    $content = '<p>' . a("/item?id={$item['id']}", $item['title']) . ', ' . text(count($bids)) . ' bids by '
        . text(count($highest)) . " bidders.</p>\n" . price_chart($bids)
        . table(['Bidder', 'Placed', 'Amount', 'Rise'], array_reverse($rows));
    return ['Bids for ' . lcfirst($item['title']), $content . marked_up($item['description'])];
}

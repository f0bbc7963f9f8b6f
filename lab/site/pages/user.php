<?php

declare(strict_types=1);

namespace auction;

const LATEST = 20; // bids

/** @return array{string, string} */
function user_page(Database $database): array
{
    $user = $database->user(number_asked('id')) ?? throw new NotFound('there is no such user');
    $comments = $database->comments((int) $user['id']);
    $bids = array_map(
        fn(array $bid): array => [
            a("/item?id={$bid['id']}", $bid['title']),
            moment($bid['placed']),
            money((int) $bid['amount']),
            money((int) $bid['price']),
        ],
        $database->bids_by((int) $user['id'], LATEST),
    );
    $ratings = array_count_values(array_column($comments, 'rating')) + [1 => 0, 0 => 0, -1 => 0];
    $content = '<p>In ' . text($user['region']) . ', a member since ' . text($user['since'])
        . ". Rated {$ratings[1]} times well, {$ratings[0]} times neither, {$ratings[-1]} times badly.</p>\n"
        . "<h2>For sale</h2>\n" . item_table($database->items_of((int) $user['id']))
        . "<h2>Bids</h2>\n" . table(['Item', 'Placed', 'Bid', 'Price now'], $bids) . "<h2>What others say</h2>\n";
    foreach ($comments as $comment) {
        $author = a("/user?id={$comment['author']}", $comment['nickname']);
        $content .= "<h3>$author, " . moment($comment['written']) . "</h3>\n" . marked_up($comment['text']);
    }
    return [$user['nickname'], $content];
}

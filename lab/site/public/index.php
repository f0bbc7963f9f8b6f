<?php
// Every request comes here. A page is a function that returns the title and the content.

declare(strict_types=1);

namespace auction;

const ROOT = __DIR__ . '/..';

foreach (['database', 'layout', 'markup', 'prices', 'similar'] as $part) {
    require ROOT . "/src/$part.php";
}

/** There is no such thing: the answer is 404. */
final class NotFound extends \Exception
{
}

/** A whole number of the query string, at least 1; the default if it is absent. */
function number_asked(string $name, ?int $default = null): int
{
    $number = filter_var($_GET[$name] ?? $default, FILTER_VALIDATE_INT, ['options' => ['min_range' => 1]]);
    return $number === false ? throw new NotFound("$name must be a number from 1 up") : $number;
}

const PAGES = ['/' => 'home', '/categories' => 'categories', '/category' => 'category', '/item' => 'item',
    '/bids' => 'bids', '/search' => 'search', '/user' => 'user'];

function answer(string $path): never
{
    $status = 200;
    try {
        $database = new Database();
        if ($path === '/health') {
            $database->check();
            exit("ok\n");
        }
        $page = PAGES[$path] ?? throw new NotFound("there is no page $path");
        require ROOT . "/pages/$page.php";
        [$title, $content] = ("auction\\{$page}_page")($database);
        $html = layout($title, $content, $database->categories());
    } catch (NotFound $reason) {
        $status = 404;
        $html = layout('Not found', '<p>' . text($reason->getMessage()) . '</p>', []);
    } catch (\PDOException $reason) {
        error_log("database: {$reason->getMessage()}");
        $status = 503;
        $html = layout('Out of order', '<p>The database does not answer. Please come back later.</p>', []);
    }
    http_response_code($status);
    header('Content-Type: text/html; charset=utf-8');
    exit($html);
}

answer(strtok($_SERVER['REQUEST_URI'], '?'));

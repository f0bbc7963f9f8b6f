"""Access log lines, from plain to unusual, with their expected counts."""

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

Labels: TypeAlias = tuple[str, str]
"""Method and status class: ("GET", "2xx")."""


class Line(NamedTuple):
    """One line without its end; `labels` and `microseconds` are None if it isn't a request with a time."""

    text: bytes
    labels: Labels | None
    microseconds: int | None = None


# Quotes, backslashes and control characters are escaped according to Apache's and nginx's manuals.
APACHE_AWKWARD = [
    *(rb"-", rb"", rb"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101", rb"a \"quoted\" agent", rb"ends in \\"),
    *(rb"\\\" 200 5 \"x", rb"\xc3\xa4\xf0\x9f", rb"\t\n\r", rb"[21/Nov/2026:08:15:53 +0000]", rb"1234 5678"),
]
NGINX_AWKWARD = [
    *(rb"-", rb"", rb"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101", rb"a \x22quoted\x22 agent", rb"ends in \x5C"),
    *(rb"\x5C\x22 200 5 \x22x", "ä\u2603".encode(), rb"\x09\x0A", rb"[21/Nov/2026:08:15:53 +0000]", rb"0.123 5678"),
]
HOSTS = [b"192.0.2.7", b"2001:db8::1", b"::ffff:192.0.2.1", b"client.example.org", b"fe80::1%eth0"]
APACHE_USERS = [b"-", b'""', b"alice", b"Alice van Blanks", rb"o\"brien", b"a [b] c", b"\\\\"]
NGINX_USERS = [b"-", b"alice", b"Alice van Blanks", rb"o\x22brien", b"a [b] c"]
# Request line, and class of its method.
REQUESTS = [
    *((b"GET / HTTP/1.1", "GET"), (b"GET /item?id=1&x=%22 HTTP/2.0", "GET"), (b"POST /bid HTTP/1.0", "POST")),
    *((b"HEAD / HTTP/1.1", "other"), (b"DELETE /x HTTP/3.0", "other"), (b"-", "other"), (b"", "other")),
    *((rb"\x16\x03\x01\x02", "other"), (b"GETTING /x HTTP/1.1", "other"), (b"get / HTTP/1.1", "other")),
    *((b"GET  /two blanks  HTTP/1.1", "GET"), (b"OPTIONS * HTTP/1.0", "other"), (b"GET", "other")),
]
STATUSES = [
    *((200, "2xx"), (204, "2xx"), (301, "3xx"), (404, "4xx"), (499, "4xx"), (500, "5xx"), (503, "5xx")),
    *((101, "1xx"), (0, "other"), (999, "other")),
]
_TO = b'192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] "GET / '
_CUT = _TO + b'HTTP/1.1" 200 12'
_COMBINED = _CUT + b' "-" "-"'
GARBAGE = [
    *(b"", b" ", b"garbage", b"\x00\x01\xff\xfe" * 20, b"-" * 70_000, b'"' * 200, b"\\" * 201, b"1 2 3 4 5 6 7 8 9 10"),
    _CUT,  # no time
    _CUT + b" -5",  # the clock was set back
    *(_CUT + time for time in (b" 1.5", b" 1e3", b" " + b"9" * 40, b" 86400.001")),  # the last is more than a day
    *(_CUT + time for time in (b" 1795248953.123", b" 1795248953", b" 1795248953123456")),  # $msec, %{sec}t, %{usec}t
    _COMBINED + b" rt=1795248953.123",
    *(_TO + rest for rest in (b"HTTP/1.1 200 12 123", b'HTTP/1.1" two 12 123', b'HTTP/1.1" 200 12 "-" 123')),
    _TO + b'"x" HTTP/1.1" 200 12 "-" "-" 123',  # not escaped
    _CUT + b' "-" "0.123"',  # a header sent by the visitor
    *(_COMBINED + time for time in (b' "0.123"', b' "rt=0.123"')),
    *(_COMBINED + times for times in (b" 0.123 0.120", b" 0.123 -", b' 0.123 "-"')),  # ambiguous
    *(_COMBINED + times for times in (b" xff=a rt=9.000 rt=0.123", b" rt=0.123 request_time=0.123")),
    *(_COMBINED + time for time in (b" rt=0.12", b' rt="0.123', b" urt=0.123", b" start=0.123")),
    "192.0.2.7 - - [21/Nov/2026:08:15:53 +0000] \u201cGET / HTTP/1.1\u201d 200 12 123".encode(),
]
# The time and order in which lines say they were written must not matter.
TIMES = [b"[21/Nov/2026:08:15:53 +0000]", b"[01/Jan/1970:00:00:00 +0000]", b"[31/Dec/2099:23:59:59 -1130]"]

FORMATS = [
    *("apache common", "apache combined", "apache vhost_combined"),
    *("nginx common", "nginx combined", "nginx main", "nginx vhost_main", "nginx named", "nginx named_common"),
]
# Upstream times in nginx logs: none, one, several, several after a redirect.
UPSTREAMS = [b"-", b"0.004", b"0.000, 0.012", b"0.000, 0.012 : 0.001"]


def some_lines(form: str, count: int, seed: int, *, garbage: float = 0.02) -> list[Line]:
    """`count` random lines in one of `FORMATS`, a share of which isn't a request in any format."""
    chosen = random.Random(f"{form} {seed}")
    return [_garbage(chosen) if chosen.random() < garbage else _request(form, chosen) for _ in range(count)]


def _garbage(chosen: random.Random) -> Line:
    if chosen.random() < 0.5:
        return Line(chosen.choice(GARBAGE), None)
    return Line(chosen.randbytes(chosen.randrange(300)).replace(b"\n", b"?"), None)


def _request(form: str, chosen: random.Random) -> Line:
    apache = form.startswith("apache")
    request, method = chosen.choice(REQUESTS)
    status, status_class = chosen.choice(STATUSES)
    # Around every bucket edge and beyond the last, and some exactly on one.
    microseconds = chosen.choice(
        [int(chosen.lognormvariate(11, 2)), 5_000, 100_000, 300_000, 10_000_000, 0, 10_000_001]
    )
    if not apache:
        microseconds -= microseconds % 1000  # nginx counts milliseconds
    users, texts = (APACHE_USERS, APACHE_AWKWARD) if apache else (NGINX_USERS, NGINX_AWKWARD)
    size = chosen.choice([b"-", b"0", b"5123"]) if apache else chosen.choice([b"0", b"5123"])
    words = [chosen.choice(HOSTS), b"-", chosen.choice(users), chosen.choice(TIMES), b'"%s"' % request]
    words += [b"%03d" % status, size]
    if form.endswith(("combined", "main", "named")):
        words += [b'"%s"' % chosen.choice(texts), b'"%s"' % chosen.choice(texts)]
    if "vhost" in form:
        words.insert(0, b"www.example.org:443")
    if form.endswith(("main", "named")):
        words.append(b'"%s"' % chosen.choice(texts))  # X-Forwarded-For, which visitors may send as well
    time = b"%d" % microseconds if apache else b"%.3f" % (microseconds / 1e6)
    if "named" in form:
        upstream = chosen.choice(UPSTREAMS)
        named = [b"rt=" + time, b'rt="%s"' % time, b"request_time=" + time]
        others = [b'uct="%s"' % upstream, b"urt=" + upstream, b"cs=HIT", b'ua="%s"' % chosen.choice(texts), b"empty="]
        fields = [chosen.choice(named), *chosen.sample(others, chosen.randrange(len(others)))]
        words += chosen.sample(fields, len(fields))
    else:
        words.append(time)
    return Line(b" ".join(words), (method, status_class), microseconds)


def text(lines: Iterable[Line]) -> bytes:
    return b"".join(line.text + b"\n" for line in lines)


def durations(lines: Iterable[Line]) -> dict[Labels, list[int]]:
    """The requests' times in microseconds by their labels."""
    found: dict[Labels, list[int]] = defaultdict(list)
    for line in lines:
        if line.labels is not None and line.microseconds is not None:
            found[line.labels].append(line.microseconds)
    return dict(found)

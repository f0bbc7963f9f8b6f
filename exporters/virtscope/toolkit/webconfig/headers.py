"""Section `http_server_config`: headers of every response."""

from __future__ import annotations

from virtscope.toolkit.webconfig.document import Section

# The only headers that the format lets be set, with their values where the header is an enumeration.
HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}


def read_headers(document: Section) -> dict[str, str]:
    """Return the headers by name, without those that have no value."""
    http = document.section("http_server_config", ("http2", "headers"))
    http.flag("http2", default=True)  # checked, then ignored: clients settle for HTTP/1.1 by ALPN
    section = http.section("headers", HEADERS)
    headers = {name: section.text(name) for name in section.values}
    for name, value in headers.items():
        if HEADERS[name] and value not in HEADERS[name]:
            raise section.error(name, f"expected {' or '.join(HEADERS[name])}")
        if not (value.isascii() and value.isprintable()):
            raise section.error(name, "must be one line of plain ASCII")
    return {name: value for name, value in headers.items() if value}

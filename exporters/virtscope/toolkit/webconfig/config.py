"""The active web configuration, and the rules for reloading it."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from virtscope.toolkit.document import DocumentError, Section, WatchedFiles, read_document
from virtscope.toolkit.webconfig.auth import Passwords, basic_credentials, read_passwords
from virtscope.toolkit.webconfig.tls import Tls, read_tls

log = logging.getLogger(__name__)


SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
# The only headers of the format, with the values of enumerations.
HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}


def read_headers(document: Section) -> dict[str, str]:
    """Return the headers by name, without empty ones."""
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


class WebConfig:
    """The active web configuration; thread-safe.

    Each query checks the configuration file and the files it names by stat() and reloads changed ones, so the next
    connection gets a certificate renewed by certbot. If the new content is invalid, the last valid configuration stays
    active; the error and the recovery are logged once each.

    Switching off TLS, client certificates or passwords needs a restart: an editor that truncates the file before
    writing must not open the exporter to everyone.
    """

    def __init__(self, path: str) -> None:
        """Read the configuration file at `path`; raises DocumentError if it can't be used."""
        self._path = Path(path)
        self._loaded = _load(self._path)
        self._problem = ""  # error of the current files
        self._lock = threading.Lock()

    def check(self) -> None:
        """Check the files now, to log errors of a change at once."""
        self._current()

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the context to wrap the next connection with, or None if TLS is not configured."""
        tls = self._current().tls
        return tls.context if tls else None

    def certificate_not_after(self) -> float | None:
        """Return when the certificate expires, as a Unix time; None without TLS."""
        tls = self._current().tls
        return tls.not_after if tls else None

    def peer_allowed(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether a client with this certificate (of `getpeercert()`) is allowed."""
        tls = self._current().tls
        return tls is None or tls.peer_allowed(certificate or {})

    @property
    def headers(self) -> dict[str, str]:
        """Headers to add to every response."""
        return dict(self._current().headers)

    def allows(self, authorization: str | None, client: str = "") -> bool:
        """Whether a request with this Authorization header is allowed (if not: 401).

        Its duration doesn't reveal whether a user exists. Raises TooManyGuesses (answer 429).
        """
        passwords = self._current().passwords
        if passwords is None:
            return True
        given = basic_credentials(authorization)
        return given is not None and passwords.match(*given, client)

    def _current(self) -> _Loaded:
        with self._lock:
            # Invalid files are read every time: stat may not show the fix.
            if not self._problem and self._loaded.files.unchanged():
                return self._loaded
            try:
                new = _load(self._path)
                for key in self._loaded.barriers():
                    if key not in new.barriers():
                        problem = "would be switched off; restart the exporter if that is wanted"
                        raise DocumentError(self._path, key, problem)
            except DocumentError as error:
                if str(error) != self._problem:
                    fields = {"err": str(error)}
                    log.error("web configuration unusable; keeping the last good one", extra={"fields": fields})
                self._problem = str(error)
            else:
                self._loaded, self._problem = new, ""
                log.info("web configuration reloaded", extra={"fields": {"file": str(self._path)}})
            return self._loaded


class _Loaded(NamedTuple):
    """The content of the files."""

    files: WatchedFiles
    tls: Tls | None
    headers: dict[str, str]
    passwords: Passwords | None

    def barriers(self) -> list[str]:
        """Return the configured keys that restrict access."""
        standing = {
            "tls_server_config": self.tls,
            "tls_server_config.client_auth_type": self.tls and self.tls.context.verify_mode is ssl.CERT_REQUIRED,
            "tls_server_config.client_allowed_sans": self.tls and self.tls.allowed_sans,
            "basic_auth_users": self.passwords,
        }
        return [key for key, barrier in standing.items() if barrier]


def _load(path: Path) -> _Loaded:
    files = WatchedFiles()
    document = read_document(path, files, "--web.config.file", SECTIONS)
    if document.values.get("rate_limit"):
        problem = "not offered, as any client could use it up for all; requests are limited for each client: remove it"
        raise document.error("rate_limit", problem)
    return _Loaded(files, read_tls(document), read_headers(document), read_passwords(document))

"""Who may scrape, and over what: the file of `--web.config.file`, in the format of Prometheus's exporter-toolkit.

The format (https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md) has four sections, all
optional, so that an empty file is valid and switches nothing on:

    tls_server_config:   certificate and key, client certificates, TLS versions, cipher suites
    http_server_config:  response headers; http2 is accepted and means nothing, as we speak HTTP/1.1 only
    basic_auth_users:    name: bcrypt hash
    rate_limit:          interval and burst of a token bucket over all requests

A file that Prometheus's own exporters take is taken here, save for what would be unsafe or can't be kept, each refused
with its own line: TLS 1.0 and 1.1; a client certificate that is asked for and not verified; client certificates without
a CA; cipher suites without forward secrecy; more than one curve, as Python's ssl holds a context to one; TLS settings
without a certificate; a certificate, key or CA given both inline and by file; a rate limit that would refuse or admit
every request. Passwords over 72 bytes, of which bcrypt sees only the first 72, never match.

The file, and the certificates it names, are looked at again for every connection and request; see `WebConfig`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import hmac
import ipaddress
import logging
import os
import re
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

# The only headers the toolkit lets be set, with their values where the header is an enumeration.
HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}

KEYS: dict[str, Collection[str]] = {
    "": ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"),
    "tls_server_config": (
        "cert_file",
        "key_file",
        "client_auth_type",
        "client_ca_file",
        "client_allowed_sans",
        "min_version",
        "max_version",
        "cipher_suites",
        "prefer_server_cipher_suites",
        "curve_preferences",
        "cert",
        "key",
        "client_ca",
    ),
    "http_server_config": ("http2", "headers"),
    "http_server_config.headers": HEADERS,
    "rate_limit": ("interval", "burst"),
}

TLS_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

# What Go's tls.CipherSuites() lists for TLS 1.2, by its IANA names, and OpenSSL's names for the same.
CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
DEFAULT_CIPHER_SUITES = [name for name in CIPHER_SUITES if not name.endswith("_CBC_SHA")]
# Part of the format's list, but always on: like Go, OpenSSL gives TLS 1.3 its suites whatever the list says.
TLS13_CIPHER_SUITES = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

# Go's five policies. Python's ssl verifies every client certificate that it asks for.
CLIENT_AUTH_TYPES = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
UNVERIFIED_CLIENT_AUTH_TYPES = {"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"}

# $2b$COST$, then 16 bytes of salt and 23 of hash in bcrypt's base64; the salt's last letter holds two bits only.
BCRYPT_HASH = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
BCRYPT_MOST_BYTES = 72
MOST_REFUSALS = 100  # remembered wrong passwords; as many entries as the toolkit's cache has

# Go's time.ParseDuration: "1.5h", "2h45m", "300ms".
DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION_PART = r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)"


class WebConfigError(Exception):
    """The configuration can't be used. The message is one line: the file, the key, what is wrong, what to do.

    It never holds a password, a hash, or any part of a key.
    """

    def __init__(self, path: object, key: str, problem: str) -> None:
        super().__init__(" ".join(": ".join(part for part in (str(path), key, problem) if part).split()))


class WebConfig:
    """The web configuration in force, safe to use from every thread of a server.

    The configuration file and the files it names are looked at (stat) whenever something is asked, and read again when
    they changed, so a certificate that certbot renewed serves the next connection. If what they hold now is bad, the
    last good configuration stays in force and one line is logged, and another one when all is well again.

    A change that switches off TLS, client certificates or passwords needs a restart: an editor that empties the file
    before it writes it anew must not open the exporter to everyone for that moment.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded = _load(path)
        self._problem = ""  # why the files as they are now can't be used
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: str) -> WebConfig:
        """Read the configuration file at `path`; raises WebConfigError if it can't be used."""
        return cls(Path(path))

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the context to wrap the next connection with, or None if TLS is not configured."""
        return self._current().context

    def peer_allowed(self, certificate: Mapping[str, Any] | None) -> bool:
        """Say whether a client may go on after the handshake, by `client_allowed_sans`.

        `certificate` is what `SSLSocket.getpeercert()` returns. Without `client_allowed_sans` everyone may.
        """
        allowed = self._current().allowed_sans
        return not allowed or not allowed.isdisjoint(_subject_alternative_names(certificate or {}))

    @property
    def headers(self) -> dict[str, str]:
        """Headers to add to every response."""
        return dict(self._current().headers)

    @property
    def users(self) -> frozenset[str]:
        """Names of those who may log in; if there are none, nobody needs to."""
        passwords = self._current().passwords
        return passwords.users if passwords else frozenset()

    def allows(self, authorization: str | None) -> bool:
        """Say whether a request with this Authorization header may be answered (if not: 401).

        How long it takes doesn't tell whether a user exists. What bcrypt said of a password is remembered until the
        next change of configuration, so that not every scrape costs what bcrypt is meant to cost.
        """
        passwords = self._current().passwords
        if passwords is None:
            return True
        given = _basic_credentials(authorization)
        return given is not None and passwords.match(*given)

    def admits(self) -> bool:
        """Take a token from the bucket of `rate_limit`; False if it is empty (answer 429)."""
        bucket = self._current().bucket
        return bucket is None or bucket.take()

    def _current(self) -> _Loaded:
        with self._lock:
            # While the files are bad they are read every time: what ails them may be something that stat can't see.
            if not self._problem and self._loaded.files.unchanged():
                return self._loaded
            try:
                new = _load(self._path)
                self._refuse_to_open_up(new)
            except WebConfigError as error:
                if str(error) != self._problem:
                    fields = {"err": str(error)}
                    log.error("web configuration unusable; the last good one stays in force", extra={"fields": fields})
                self._problem = str(error)
            else:
                self._loaded, self._problem = new, ""
                log.info("web configuration reloaded", extra={"fields": {"file": str(self._path)}})
            return self._loaded

    def _refuse_to_open_up(self, new: _Loaded) -> None:
        for key, now, then in (
            ("tls_server_config", self._loaded.context, new.context),
            ("tls_server_config.client_auth_type", self._loaded.verifies_clients, new.verifies_clients),
            ("tls_server_config.client_allowed_sans", self._loaded.allowed_sans, new.allowed_sans),
            ("basic_auth_users", self._loaded.passwords, new.passwords),
        ):
            if now and not then:
                raise WebConfigError(self._path, key, "would be switched off; restart the exporter if that is wanted")


@dataclass(frozen=True)
class _Loaded:
    """What one reading of the files gave."""

    files: _Files
    context: ssl.SSLContext | None
    allowed_sans: frozenset[str]
    headers: dict[str, str]
    passwords: _Passwords | None
    bucket: _TokenBucket | None

    @property
    def verifies_clients(self) -> bool:
        return self.context is not None and self.context.verify_mode is ssl.CERT_REQUIRED


def _load(path: Path) -> _Loaded:
    files = _Files()
    try:
        content = files.read(path)
    except OSError as error:
        raise WebConfigError(path, "", f"{error.strerror}; give --web.config.file a file this user may read") from None
    sections = _Section(path, "", _parse_yaml(path, content))
    tls = sections.section("tls_server_config")
    http = sections.section("http_server_config")
    users = sections.section("basic_auth_users")
    limit = sections.section("rate_limit")
    http.flag("http2", default=True)  # checked, then ignored: clients settle for HTTP/1.1 by ALPN
    context = _ssl_context(tls, files)
    return _Loaded(
        files=files,
        context=context,
        allowed_sans=_allowed_sans(tls, context),
        headers=_headers(http.section("headers")),
        passwords=_passwords(users),
        bucket=_token_bucket(limit),
    )


# --- Files -----------------------------------------------------------------------------------------------------------


class _Files:
    """The files a configuration was read from, each as it was just before it was read."""

    def __init__(self) -> None:
        self._stamps: dict[Path, tuple[int, ...] | None] = {}

    def read(self, path: Path) -> bytes:
        """Return the content; raises OSError."""
        if "\0" in str(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # Python would raise a ValueError
        self._stamps[path] = self._stamp(path)  # first: a change while it is read then shows at the next look
        return path.read_bytes()

    def unchanged(self) -> bool:
        return all(self._stamp(path) == stamp for path, stamp in self._stamps.items())

    @staticmethod
    def _stamp(path: Path) -> tuple[int, ...] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        # The change time tells of repaired permissions, and of a writer that sets the modification time back.
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _parse_yaml(path: Path, content: bytes) -> Any:
    """Return the document as None, str, bool, list and dict.

    Numbers stay text, as the format's own decoder turns `007` into a user's name and `0` into a header's value.
    """
    # Imported here, so that an exporter without a web configuration needs no YAML on its host.
    try:
        import yaml  # noqa: PLC0415
    except ImportError:
        raise WebConfigError(path, "", "reading it needs PyYAML; install it (Debian: python3-yaml)") from None

    def plain(node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise WebConfigError(path, "", f"line {line}: a key must be plain text")
                if key.value in mapping:
                    raise WebConfigError(path, "", f"line {line}: {key.value} is given twice; keep one")
                mapping[key.value] = plain(value)
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [plain(item) for item in node.value]
        kind = node.tag.rpartition(":")[2]
        if kind == "bool":
            return node.value.lower() in {"true", "yes", "on"}
        return None if kind == "null" else str(node.value)

    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        return None if node is None else plain(node)
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        # The place alone: the parser's own message can quote a secret.
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = f"{place}not valid YAML; check indentation, colons and quotes"
        raise WebConfigError(path, "", problem) from None


class _Section:
    """One mapping of the file, with no key that the format doesn't know: hands out its values by key and type.

    `name` is its place in the file, such as "http_server_config.headers", and "" for the whole file. As in the toolkit,
    a key without a value, or with an empty one, counts as absent.
    """

    def __init__(self, path: Path, name: str, value: Any) -> None:
        self.path = path
        self.name = name
        if value is not None and not isinstance(value, dict):
            raise WebConfigError(path, name, f"expected keys with values, not {_kind(value)}")
        self.values: dict[str, Any] = value or {}
        known = KEYS.get(name)  # None for users: any name will do
        for key in self.values:
            if known and key not in known:
                raise self.error(key, f"unknown key; remove it, or use one of {', '.join(known)}")

    def error(self, key: str, problem: str) -> WebConfigError:
        return WebConfigError(self.path, f"{self.name}.{key}" if self.name else key, problem)

    def section(self, key: str) -> _Section:
        return _Section(self.path, f"{self.name}.{key}" if self.name else key, self.values.get(key))

    def text(self, key: str) -> str:
        """Return the value, "" if there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, f"expected text, not {_kind(value)}; put it in quotes if it is meant as text")
        return value or ""

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "expected a list of texts; write one per line, each after a dash")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {_kind(value)}")
        return default if value is None else value

    def file(self, key: str) -> Path | None:
        """Return the path, relative to the configuration file's folder."""
        value = self.text(key)
        return self.path.parent / value if value else None


def _kind(value: Any) -> str:
    return {bool: "true or false", list: "a list", dict: "keys with values", str: "text"}[type(value)]


# --- TLS -------------------------------------------------------------------------------------------------------------


def _ssl_context(tls: _Section, files: _Files) -> ssl.SSLContext | None:
    certificate_key, certificate = _pem(tls, "cert", files)
    private_key_key, private_key = _pem(tls, "key", files)
    if not certificate or not private_key:
        if all(value in (None, "") for value in tls.values.values()):
            return None
        missing = "key_file" if certificate else "cert_file"
        raise tls.error(missing, "missing; TLS needs a certificate and its key, or remove tls_server_config")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_protocol(context, tls)
    _require_certificates(tls, certificate_key, certificate)
    _load_key_pair(context, tls, (certificate_key, certificate), (private_key_key, private_key))
    _set_client_auth(context, tls, files)
    return context


def _pem(tls: _Section, key: str, files: _Files) -> tuple[str, str]:
    """Return what is given inline under `key`, or in the file under `key`_file: the key it was under, and the PEM."""
    inline, path = tls.text(key), tls.file(f"{key}_file")
    if inline and path:
        raise tls.error(key, f"given besides {key}_file; keep one of them")
    if inline:
        content = inline.encode()
    elif path:
        key = f"{key}_file"
        try:
            content = files.read(path)
        except OSError as error:
            problem = f"cannot read {path}: {error.strerror}; check the path and that this user may read it"
            raise tls.error(key, problem) from None
    else:
        return key, ""
    # PEM is ASCII; what is not can only be a comment between the blocks. An empty file must not count as no file.
    return key, content.decode("ascii", "ignore") or "\n"


def _set_protocol(context: ssl.SSLContext, tls: _Section) -> None:
    lowest, highest = _tls_version(tls, "min_version", "TLS12"), _tls_version(tls, "max_version", "TLS13")
    if lowest > highest:
        raise tls.error("min_version", "is above max_version; no client could connect")
    suites = tls.texts("cipher_suites")
    for name in suites:
        if name not in CIPHER_SUITES and name not in TLS13_CIPHER_SUITES:
            raise tls.error("cipher_suites", f"unknown or insecure suite {name}; use names of Go's tls.CipherSuites()")
    tls12_suites = [CIPHER_SUITES[name] for name in suites or DEFAULT_CIPHER_SUITES if name in CIPHER_SUITES]
    if not tls12_suites:
        if highest < ssl.TLSVersion.TLSv1_3:
            raise tls.error("cipher_suites", "has none for TLS 1.2, and max_version is TLS12; add an ECDHE suite")
        lowest = ssl.TLSVersion.TLSv1_3
    context.minimum_version, context.maximum_version = lowest, highest
    if tls12_suites:
        context.set_ciphers(":".join(tls12_suites))
    if not tls.flag("prefer_server_cipher_suites", default=True):
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1 would let a client ask for costly handshakes without end
    context.set_alpn_protocols(["http/1.1"])
    _set_curve(context, tls)


def _tls_version(tls: _Section, key: str, default: str) -> ssl.TLSVersion:
    name = tls.text(key) or default
    if name in {"TLS10", "TLS11"}:
        raise tls.error(key, f"{name} is insecure and not offered; use TLS12 or TLS13")
    if name not in TLS_VERSIONS:
        raise tls.error(key, f"unknown TLS version {name}; use TLS12 or TLS13")
    return TLS_VERSIONS[name]


def _set_curve(context: ssl.SSLContext, tls: _Section) -> None:
    curves = tls.texts("curve_preferences")
    for name in curves:
        if name not in CURVES:
            raise tls.error("curve_preferences", f"unknown curve {name}; use one of {', '.join(CURVES)}")
    if len(curves) > 1:
        raise tls.error("curve_preferences", "Python's ssl can be held to one curve only; keep one, or remove the key")
    if curves:
        try:
            context.set_ecdh_curve(CURVES[curves[0]])
        except (ssl.SSLError, ValueError):  # Python 3.9 with OpenSSL 1.1 knows only the NIST curves
            raise tls.error("curve_preferences", f"this host's OpenSSL can't set {curves[0]}; use CurveP256") from None


def _require_certificates(tls: _Section, key: str, pem: str) -> None:
    """Raise WebConfigError if `pem` holds no certificate; load_cert_chain wouldn't say which of its files is bad."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=pem)
    except ssl.SSLError:
        raise tls.error(key, "holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)") from None


def _load_key_pair(
    context: ssl.SSLContext, tls: _Section, certificate: tuple[str, str], private_key: tuple[str, str]
) -> None:
    certificate_key, private_key_key = certificate[0], private_key[0]

    def refuse_password() -> str:  # else OpenSSL would ask on the terminal
        raise tls.error(private_key_key, "is encrypted; give the key without a passphrase (openssl pkey)")

    try:
        with _as_file(certificate[1]) as certificate_file, _as_file(private_key[1]) as private_key_file:
            context.load_cert_chain(certificate_file, private_key_file, refuse_password)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "MISMATCH" in reason or reason == "NO_CERTIFICATE_ASSIGNED":  # the latter: not even of the same kind
            problem = f"is not the key of the certificate in {certificate_key}; give the pair that belongs together"
            raise tls.error(private_key_key, problem) from None
        if reason.endswith(("TOO_SMALL", "TOO_WEAK")):
            problem = f"too weak for this host's OpenSSL ({reason}); issue a stronger certificate"
            raise tls.error(certificate_key, problem) from None
        raise tls.error(private_key_key, "holds no valid private key; it must be in PEM") from None
    except OSError as error:
        problem = f"cannot be handed to OpenSSL: {error.strerror}; /proc must be mounted, with descriptors to spare"
        raise tls.error(certificate_key, problem) from None


@contextlib.contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Give text a path, without a file: `ssl` takes a key only by path, and a key has no business on a disk."""
    descriptor = os.memfd_create("pem")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


def _set_client_auth(context: ssl.SSLContext, tls: _Section, files: _Files) -> None:
    ca_key, ca = _pem(tls, "client_ca", files)
    policy = tls.text("client_auth_type") or "NoClientCert"
    if policy in UNVERIFIED_CLIENT_AUTH_TYPES:
        problem = f"{policy} would accept a certificate of anyone's making; use RequireAndVerifyClientCert"
        raise tls.error("client_auth_type", problem)
    if policy not in CLIENT_AUTH_TYPES:
        raise tls.error("client_auth_type", f"unknown policy {policy}; use one of {', '.join(CLIENT_AUTH_TYPES)}")
    context.verify_mode = CLIENT_AUTH_TYPES[policy]
    if context.verify_mode is ssl.CERT_NONE:
        if ca:
            raise tls.error(ca_key, "has no effect; set client_auth_type to RequireAndVerifyClientCert")
        return
    if not ca:  # Go would trust every public CA
        raise tls.error("client_ca_file", f"missing; {policy} needs the CA that signs the clients' certificates")
    _require_certificates(tls, ca_key, ca)
    context.load_verify_locations(cadata=ca)
    # X509_V_FLAG_PARTIAL_CHAIN, which ssl names only from Python 3.10: as in Go, an intermediate CA can be trusted
    # without the root above it.
    context.verify_flags |= ssl.VerifyFlags(0x80000)


def _allowed_sans(tls: _Section, context: ssl.SSLContext | None) -> frozenset[str]:
    names = frozenset(tls.texts("client_allowed_sans"))
    if names and (context is None or context.verify_mode is not ssl.CERT_REQUIRED):
        raise tls.error("client_allowed_sans", "needs client_auth_type RequireAndVerifyClientCert; set it")
    return names


def _subject_alternative_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            # Python spells out all of an IPv6 address; the format has it in short, as Go and `ipaddress` write it.
            with contextlib.suppress(ValueError):  # "<invalid>"
                yield str(ipaddress.ip_address(name.strip()))
        else:
            yield name


# --- HTTP ------------------------------------------------------------------------------------------------------------


def _headers(section: _Section) -> dict[str, str]:
    headers = {name: section.text(name) for name in section.values}
    for name, value in headers.items():
        if HEADERS[name] and value not in HEADERS[name]:
            raise section.error(name, f"expected {' or '.join(HEADERS[name])}")
        if not (value.isascii() and value.isprintable()):
            raise section.error(name, "must be one line of plain ASCII")
    return {name: value for name, value in headers.items() if value}


def _basic_credentials(authorization: str | None) -> tuple[str, bytes] | None:
    """Return user and password of an Authorization header (RFC 7617), None if it is missing or malformed."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    # A name that isn't UTF-8 becomes one that no user of the file can have.
    return (user.decode("utf-8", "surrogateescape"), password) if colon else None


def _passwords(users: _Section) -> _Passwords | None:
    for name, value in users.values.items():
        if not isinstance(value, str) or not BCRYPT_HASH.fullmatch(value):
            raise users.error(name, "not a bcrypt hash; make one with: htpasswd -nBC 10 '' | tr -d ':\\n'")
    if not users.values:
        return None
    # Imported here, so that an exporter without passwords needs no bcrypt on its host.
    try:
        import bcrypt  # noqa: PLC0415
    except ImportError:
        problem = "checking passwords needs the bcrypt module; install it (Debian: python3-bcrypt)"
        raise WebConfigError(users.path, users.name, problem) from None
    return _Passwords({name: value.encode() for name, value in users.values.items()}, bcrypt.checkpw)


class _Passwords:
    """The users' bcrypt hashes, and what bcrypt said of the passwords seen so far.

    Passwords are remembered by a keyed digest only. The right one is kept per user, so that no number of wrong guesses
    can make the next scrape pay for bcrypt again.
    """

    def __init__(self, hashes: Mapping[str, bytes], check: Callable[[bytes, bytes], bool]) -> None:
        self.users = frozenset(hashes)
        self._hashes = hashes
        self._check = check  # bcrypt.checkpw
        # What an unknown user's password is checked against. As costly as the users' own, else time would tell.
        cost = max(hash_[4:6] for hash_ in hashes.values())
        self._nobodys_hash = b"$2b$" + cost + b"$Q8oMliaNfqYUuKCF8EGbNuL7/w.ZZyjzzBG5JIQZkWYSvjlvIQmYy"
        self._digest_key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}
        self._wrong: set[bytes] = set()
        # bcrypt is slow by design: a flood of guesses may keep one CPU busy, not all.
        self._bcrypt_lock = threading.Lock()

    def match(self, user: str, password: bytes) -> bool:
        """Say whether `password` is the user's."""
        # bcrypt sees 72 bytes and stops at a NUL: what lies beyond would count for nothing.
        if len(password) > BCRYPT_MOST_BYTES or b"\0" in password:
            return False
        name = user.encode("utf-8", "surrogateescape")
        digest = hmac.digest(self._digest_key, b"%d:%b%b" % (len(name), name, password), "sha256")
        known = self._remembered(user, digest)
        if known is None:
            with self._bcrypt_lock:
                known = self._remembered(user, digest)  # another thread may have had the same question
                if known is None:
                    matches = self._check(password, self._hashes.get(user, self._nobodys_hash))
                    known = matches and user in self._hashes
                    self._remember(user, digest, known)
        return known

    def _remembered(self, user: str, digest: bytes) -> bool | None:
        if hmac.compare_digest(self._right.get(user, b""), digest):
            return True
        return False if digest in self._wrong else None

    def _remember(self, user: str, digest: bytes, right: bool) -> None:
        if right:
            self._right[user] = digest
            return
        if len(self._wrong) >= MOST_REFUSALS:
            self._wrong.clear()
        self._wrong.add(digest)


# --- Rate limit ------------------------------------------------------------------------------------------------------


def _token_bucket(limit: _Section) -> _TokenBucket | None:
    interval = _seconds(limit, "interval")
    burst = limit.text("burst") or "0"
    if not re.fullmatch(r"[0-9]{1,9}", burst):
        raise limit.error("burst", "expected a whole number of requests")
    if not interval:
        return None
    if int(burst) < 1:
        raise limit.error("burst", "must be 1 or more, else every request would be refused")
    return _TokenBucket(interval, int(burst))


def _seconds(section: _Section, key: str) -> float:
    text = section.text(key) or "0"
    if text == "0":
        return 0.0
    if not re.fullmatch(f"(?:{DURATION_PART})+", text):
        raise section.error(key, "expected a duration with its unit, such as 1s or 500ms")
    return sum(float(number) * DURATION_UNITS[unit] for number, unit in re.findall(DURATION_PART, text))


class _TokenBucket:
    """Lets `burst` requests through at once, and one more every `interval` seconds."""

    def __init__(self, interval: float, burst: int) -> None:
        self._interval = interval
        self._burst = burst
        self._tokens = float(burst)
        self._filled = time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token; False if there is none."""
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) / self._interval)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

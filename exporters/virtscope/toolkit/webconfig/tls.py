"""Section `tls_server_config`: TLS versions and ciphers, certificates, and allowed clients."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from virtscope.toolkit.bounded import file_in_memory
from virtscope.toolkit.document import DocumentError, Section

KEYS = (
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
)
VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

# The TLS 1.2 suites of Go's tls.CipherSuites(): IANA name to OpenSSL name.
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
# Valid in the list but always on: like Go, OpenSSL doesn't apply the list to TLS 1.3.
TLS13_CIPHER_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}

# Go's policies except those that accept certificates of anyone's making.
CLIENT_AUTH_TYPES = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
# X509_V_FLAG_PARTIAL_CHAIN, which ssl names only from Python 3.10.
PARTIAL_CHAIN = ssl.VerifyFlags(0x80000)


@dataclass(frozen=True)
class Tls:
    """TLS settings. Without `allowed_sans`, OpenSSL's verification of a client's certificate is enough."""

    context: ssl.SSLContext
    allowed_sans: frozenset[str]
    not_after: float | None  # Unix time of the first of its certificates to expire; None if no date can be read

    def peer_allowed(self, certificate: Mapping[str, Any]) -> bool:
        """Whether a name in the client's certificate (of `getpeercert()`) is allowed."""
        return not self.allowed_sans or not self.allowed_sans.isdisjoint(_subject_alternative_names(certificate))


def read_tls(document: Section) -> Tls | None:
    """Return the TLS settings, None if the section is empty."""
    section = document.section("tls_server_config", KEYS)
    certificate, private_key = Pem.read(section, "cert"), Pem.read(section, "key")
    if certificate is None or private_key is None:
        if all(value in (None, "") for value in section.values.values()):
            return None
        missing = "cert_file" if certificate is None else "key_file"
        raise section.error(missing, "missing; TLS needs a certificate and its key, or remove tls_server_config")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1 would allow endless renegotiation, which is costly
    context.set_alpn_protocols(["http/1.1"])
    _set_versions_and_suites(context, section)
    _set_curve(context, section)
    load_key_pair(context, certificate, private_key)
    _set_client_auth(context, section)
    return Tls(context, _allowed_sans(context, section), not_after(certificate.text))


def _set_versions_and_suites(context: ssl.SSLContext, section: Section) -> None:
    (lowest,), (highest,) = (
        section.choices(key, [section.text(key) or default], VERSIONS)
        for key, default in (("min_version", "TLS12"), ("max_version", "TLS13"))
    )
    if lowest > highest:
        raise section.error("min_version", "is above max_version; no client could connect")
    names = section.texts("cipher_suites") or DEFAULT_CIPHER_SUITES
    suites = {**CIPHER_SUITES, **dict.fromkeys(TLS13_CIPHER_SUITES, "")}
    tls12_suites = list(filter(None, section.choices("cipher_suites", names, suites)))
    if tls12_suites:
        context.set_ciphers(":".join(tls12_suites))
    elif highest is ssl.TLSVersion.TLSv1_2:
        raise section.error("cipher_suites", "has none for TLS 1.2, and max_version is TLS12; add an ECDHE suite")
    else:
        lowest = ssl.TLSVersion.TLSv1_3
    context.minimum_version, context.maximum_version = lowest, highest
    if not section.flag("prefer_server_cipher_suites", default=True):
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE


def _set_curve(context: ssl.SSLContext, section: Section) -> None:
    curves = section.choices("curve_preferences", section.texts("curve_preferences"), CURVES)
    if len(curves) > 1:
        problem = "Python's ssl can be held to one curve only; keep one, or remove the key"
        raise section.error("curve_preferences", problem)
    for curve in curves:
        try:
            context.set_ecdh_curve(curve)
        except (ssl.SSLError, ValueError):  # X25519: not with OpenSSL 1.1, nor with Python 3.11.2 (Debian 12)
            raise section.error("curve_preferences", "this host's Python can't set it; use CurveP256") from None


def _set_client_auth(context: ssl.SSLContext, section: Section) -> None:
    ca = Pem.read(section, "client_ca")
    policy = section.text("client_auth_type") or "NoClientCert"
    (context.verify_mode,) = section.choices("client_auth_type", [policy], CLIENT_AUTH_TYPES)
    if context.verify_mode is ssl.CERT_NONE:
        if ca:
            raise ca.error("has no effect; set client_auth_type to RequireAndVerifyClientCert")
        return
    if not ca:  # Go would trust every public CA
        raise section.error("client_ca_file", f"missing; {policy} needs the CA that signs the clients' certificates")
    trust(context, ca)
    context.verify_flags |= PARTIAL_CHAIN  # as in Go, an intermediate CA can be trusted without the root above it


def _allowed_sans(context: ssl.SSLContext, section: Section) -> frozenset[str]:
    names = frozenset(section.texts("client_allowed_sans"))
    if names and context.verify_mode is not ssl.CERT_REQUIRED:
        raise section.error("client_allowed_sans", "needs client_auth_type RequireAndVerifyClientCert; set it")
    return names


def _subject_alternative_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            # Python writes IPv6 addresses in full; the format uses the short form, like Go and `ipaddress`.
            with contextlib.suppress(ValueError):  # "<invalid>"
                yield str(ipaddress.ip_address(name.strip()))
        else:
            yield name


# --- Certificates and keys in PEM, handed to OpenSSL from memory ------------------------------------------------------


@dataclass(frozen=True)
class Pem:
    """PEM text, from `key` of a section or the file named there."""

    section: Section
    key: str
    text: str = field(repr=False)  # may be a private key

    @classmethod
    def read(cls, section: Section, key: str) -> Pem | None:
        """Return the PEM of `key`, or of the file in `key`_file; None if both are absent."""
        inline, content = section.text(key), section.content(f"{key}_file")
        if inline and content is not None:
            raise section.error(key, f"given besides {key}_file; keep one of them")
        if content is None:
            return cls(section, key, _ascii(inline.encode())) if inline else None
        return cls(section, f"{key}_file", _ascii(content))

    def error(self, problem: str) -> DocumentError:
        """Return an error about it."""
        return self.section.error(self.key, problem)


def _ascii(content: bytes) -> str:
    return content.decode("ascii", "ignore")  # non-ASCII text can only be a comment between blocks


def trust(context: ssl.SSLContext, ca: Pem) -> None:
    """Accept peers whose certificates `ca` signed."""
    try:
        context.load_verify_locations(cadata=ca.text)
    except (ssl.SSLError, ValueError):  # the latter: it is empty
        raise ca.error("holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)") from None


def load_key_pair(context: ssl.SSLContext, certificate: Pem, private_key: Pem) -> None:
    """Show `certificate` to peers."""
    # load_cert_chain doesn't say which of the two is invalid.
    trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate)

    def refuse_password() -> str:  # else OpenSSL would ask on the terminal
        raise private_key.error("is encrypted; give the key without a passphrase (openssl pkey)")

    try:
        with _as_file(certificate.text) as certificate_file, _as_file(private_key.text) as private_key_file:
            context.load_cert_chain(certificate_file, private_key_file, refuse_password)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "MISMATCH" in reason or reason == "NO_CERTIFICATE_ASSIGNED":  # the latter: not even of the same kind
            problem = f"is not the key of the certificate in {certificate.key}; give the pair that belongs together"
            raise private_key.error(problem) from None
        if reason.endswith(("TOO_SMALL", "TOO_WEAK")):
            problem = f"too weak for this host's OpenSSL ({reason}); issue a stronger certificate"
            raise certificate.error(problem) from None
        raise private_key.error("holds no valid private key; it must be in PEM") from None
    except OSError as error:
        problem = f"cannot be handed to OpenSSL: {error.strerror}; /proc must be mounted, with descriptors to spare"
        raise certificate.error(problem) from None


def not_after(pem: str) -> float | None:
    """Return when the first of these certificates expires, as a Unix time; None if that can't be read."""
    certificates = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    try:
        return min(map(_not_after, certificates))
    except (ValueError, IndexError):
        return None


_VERSION = 0xA0  # the tag of the only optional value before the dates


def _not_after(pem: str) -> float:
    ((_, certificate),) = _der_values(ssl.PEM_cert_to_DER_cert(pem))
    (_, signed), *_ = _der_values(certificate)
    _serial, _algorithm, _issuer, validity, *_ = [each for tag, each in _der_values(signed) if tag != _VERSION]
    _, (tag, time) = _der_values(validity)
    digits = time.decode("ascii")
    if tag == 0x17:  # UTCTime, of two digits for the year; from 2050 on it is GeneralizedTime
        digits = ("20" if digits < "50" else "19") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()


def _der_values(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each value."""
    while der:
        tag, length, start = der[0], der[1], 2
        if length > 0x7F:
            start += length - 0x80
            length = int.from_bytes(der[2:start], "big")
        yield tag, der[start : start + length]
        der = der[start + length :]


@contextlib.contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Give text a path in memory: `ssl` loads keys only by path, and a key must not be written to a disk."""
    descriptor = file_in_memory("pem")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"

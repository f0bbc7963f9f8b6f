"""Certificates and keys in PEM, handed to OpenSSL from memory; an error names the key that they were given under."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

from virtscope.toolkit.webconfig.document import Section, WebConfigError


@dataclass(frozen=True)
class Pem:
    """PEM as it was given: under `key` of a section, or in the file named there."""

    section: Section
    key: str
    text: str = field(repr=False)  # may be a private key

    @classmethod
    def read(cls, section: Section, key: str) -> Pem | None:
        """Return what is given inline under `key`, or in the file under `key`_file; None if neither is."""
        inline, content = section.text(key), section.content(f"{key}_file")
        if inline and content is not None:
            raise section.error(key, f"given besides {key}_file; keep one of them")
        if content is None:
            return cls(section, key, _ascii(inline.encode())) if inline else None
        return cls(section, f"{key}_file", _ascii(content))

    def error(self, problem: str) -> WebConfigError:
        """Return the error that says what is wrong with it."""
        return self.section.error(self.key, problem)


def _ascii(content: bytes) -> str:
    return content.decode("ascii", "ignore")  # what is not ASCII can only be a comment between the blocks


def trust(context: ssl.SSLContext, ca: Pem) -> None:
    """Accept peers whose certificates `ca` signed."""
    try:
        context.load_verify_locations(cadata=ca.text)
    except (ssl.SSLError, ValueError):  # the latter: it is empty
        raise ca.error("holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)") from None


def load_key_pair(context: ssl.SSLContext, certificate: Pem, private_key: Pem) -> None:
    """Show `certificate` to peers."""
    trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate)  # load_cert_chain wouldn't say which of the two is bad

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


@contextlib.contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Give text a path, without a file: `ssl` takes a key only by path, and a key has no business on a disk."""
    descriptor = os.memfd_create("pem")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"

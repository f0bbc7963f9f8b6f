"""The web configuration file: what is accepted and refused, who gets in, and what a change of the files does.

Handshakes are real ones, over a socket pair, with certificates of a CA made for the test run.
"""

from __future__ import annotations

import base64
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bcrypt
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tools import programs
from virtscope.toolkit.webconfig import TooManyGuesses, WebConfig, WebConfigError, passwords
from virtscope.toolkit.webconfig.tls import CIPHER_SUITES, CURVES

EXPORTERS = Path(__file__).resolve().parents[3] / "exporters"
ALICES_PASSWORD = "correct horse"
ALICES_HASH = bcrypt.hashpw(ALICES_PASSWORD.encode(), b"$2b$04$" + b"virtscope.tests.saltuO").decode()

TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key"
CLIENTS = f"{TLS}, client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert"


class Pki:
    """A folder as an administrator would have it: certificates, keys and the configuration, side by side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.intermediate = self.ca.create_child_ca()
        self.foreign_ca = trustme.CA()
        self.ca.cert_pem.write_to_path(folder / "ca.pem")
        self.intermediate.cert_pem.write_to_path(folder / "intermediate.pem")
        self.renew()
        other = self.ca.issue_cert("localhost")
        other.private_key_pem.write_to_path(folder / "other.key")
        encrypted = load_pem_private_key(other.private_key_pem.bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase")
        )
        (folder / "encrypted.key").write_bytes(encrypted)
        (folder / "rubbish.pem").write_text("not a certificate\n")
        (folder / "empty.pem").write_text("")

    def renew(self) -> None:
        """Replace the server's certificate and key by new ones, each at a stroke."""
        issued = self.ca.issue_cert("localhost")
        self.replace("server.key", issued.private_key_pem.bytes())
        self.replace("server.pem", issued.cert_chain_pems[0].bytes())

    def replace(self, name: str, content: bytes) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        new.replace(self.folder / name)

    def write(self, text: str) -> str:
        """Write the configuration and return its path."""
        self.replace("web.yml", text.encode())
        return str(self.folder / "web.yml")

    def load(self, text: str) -> WebConfig:
        return WebConfig.load(self.write(text))

    def inline(self, name: str) -> str:
        """Return a PEM file as the rest of a line of YAML."""
        return '"# für localhost\\n' + (self.folder / name).read_text().replace("\n", "\\n") + '"'

    def client(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Return a client's settings, trusting the CA and showing `certificate`."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if certificate:
            certificate.configure_cert(context)
        return context


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    folder = tmp_path / "etc"
    folder.mkdir()
    return Pki(folder)


@dataclass
class Answer:
    """What a client got: the server's word ("welcome" or "go away") and the terms of the connection."""

    word: str
    version: str
    cipher: str
    alpn: str | None
    serial: str


def connect(web: WebConfig, client: ssl.SSLContext) -> Answer:
    """Shake hands as the exporters' server does; raises OSError (ssl.SSLError is one) if either side refuses."""
    server_end, client_end = socket.socketpair()

    def serve() -> None:
        context = web.ssl_context()
        assert context
        try:
            with context.wrap_socket(server_end, server_side=True) as connection:
                connection.sendall(b"welcome" if web.peer_allowed(connection.getpeercert()) else b"go away")
        except OSError:
            server_end.close()

    for end in (server_end, client_end):
        end.settimeout(20)
    server = threading.Thread(target=serve)
    server.start()
    try:
        with client.wrap_socket(client_end, server_hostname="localhost") as connection:
            word = connection.recv(16).decode()
            if not word:
                raise ConnectionResetError("the server closed the connection")
            certificate, cipher, version = connection.getpeercert(), connection.cipher(), connection.version()
            assert certificate
            assert cipher
            assert version
            alpn = connection.selected_alpn_protocol()
            return Answer(word, version, cipher[0], alpn, str(certificate["serialNumber"]))
    finally:
        client_end.close()
        server.join(20)


def basic(user: str | bytes, password: str | bytes) -> str:
    """Return an Authorization header."""
    raw = b":".join(part.encode() if isinstance(part, str) else part for part in (user, password))
    return "Basic " + base64.b64encode(raw).decode()


# --- Good and bad files ----------------------------------------------------------------------------------------------

GOOD = {
    "empty": "",
    "comment only": "# nothing yet\n",
    "all sections empty": "tls_server_config:\nhttp_server_config: {}\nbasic_auth_users:\n",
    "keys without values": "tls_server_config: {cert_file: , key_file: '', client_ca_file: }\n",
    "tls": f"{TLS}}}",
    "tls with everything": f"{CLIENTS}, min_version: TLS12, max_version: TLS13, cipher_suites:"
    " [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], prefer_server_cipher_suites: false,"
    " curve_preferences: [CurveP256]}",
    "certificates if given": f"{TLS}, client_ca_file: ca.pem, client_auth_type: VerifyClientCertIfGiven}}",
    "NoClientCert": f"{TLS}, client_auth_type: NoClientCert}}",
    "allowed sans": f"{CLIENTS}, client_allowed_sans: [prometheus.example, 10.0.0.1]}}",
    "http": "http_server_config: {http2: false, headers: {X-Frame-Options: deny, X-Content-Type-Options: nosniff,"
    " X-XSS-Protection: 0, Content-Security-Policy: \"default-src 'self'\", Strict-Transport-Security: max-age=1}}",
    "users": f"basic_auth_users: {{alice: {ALICES_HASH}, 007: {ALICES_HASH}, yes: {ALICES_HASH}}}",
    "htpasswd's hashes": f"basic_auth_users: {{alice: $2y${ALICES_HASH[4:]}, bob: $2a${ALICES_HASH[4:]}}}",
    "rate limit": "rate_limit: {interval: 1m30s, burst: 5}",
    "rate limit off": "rate_limit: {interval: 0, burst: 0}",
    "rate limit empty": "rate_limit:",
}

# Configuration, and how the line it gives must begin after "FILE: ".
BAD = {
    "list": ("- a\n", "expected keys with values, not a list"),
    "word": ("hunter2\n", "expected keys with values, not text"),
    "not YAML": ("basic_auth_users:\n  alice: 'hunter2\n", "line 3, column 1: not valid YAML; check indentation,"),
    "unknown alias": ("basic_auth_users:\n  alice: *hunter2\n", "line 2, column 10: not valid YAML; check"),
    "not UTF-8": ("\x00", "not valid YAML; check"),
    "key twice": (
        f"{TLS}}}\nbasic_auth_users:\n  alice: {ALICES_HASH}\n  alice: {ALICES_HASH}\n",
        "line 4: alice is given twice; keep one",
    ),
    "aliases without end": (  # 9 to the 30th entries
        "basic_auth_users:\n  a: &a0 [x]\n"
        + "".join(f"  a{depth}: &a{depth} [{', '.join([f'*a{depth - 1}'] * 9)}]\n" for depth in range(1, 31)),
        "basic_auth_users.a: not a bcrypt hash",
    ),
    "an alias of itself": ("basic_auth_users: &a [*a]\n", "not valid YAML; check"),
    "unknown section": (
        "tls_config: {}",
        "tls_config: unknown key; remove it, or use one of tls_server_config, http_server_config, basic_auth_users",
    ),
    "unknown key": (f"{TLS}, cert_pem: x}}", "tls_server_config.cert_pem: unknown key; remove it, or use one of cert_"),
    "section of wrong type": ("tls_server_config: on", "tls_server_config: expected keys with values, not true or f"),
    "text of wrong type": (
        "tls_server_config: {cert_file: [server.pem], key_file: server.key}",
        "tls_server_config.cert_file: expected text, not a list; put it in quotes if it is meant as text",
    ),
    "texts of wrong type": (
        f"{TLS}, cipher_suites: TLS_AES_128_GCM_SHA256}}",
        "tls_server_config.cipher_suites: expected a list of texts; write one per line, each after a dash",
    ),
    "flag of wrong type": ("http_server_config: {http2: 1}", "http_server_config.http2: expected true or false, not t"),
    "no key": (
        "tls_server_config: {cert_file: server.pem}",
        "tls_server_config.key_file: missing; TLS needs a certificate and its key, or remove tls_server_config",
    ),
    "no certificate": ("tls_server_config: {key_file: server.key}", "tls_server_config.cert_file: missing; TLS needs"),
    "settings without a certificate": ("tls_server_config: {min_version: TLS13}", "tls_server_config.cert_file: missi"),
    "certificate not there": (
        "tls_server_config: {cert_file: none.pem, key_file: server.key}",
        "tls_server_config.cert_file: cannot read FOLDER/none.pem: No such file or directory; check the path and",
    ),
    "key is a folder": (
        "tls_server_config: {cert_file: server.pem, key_file: .}",
        "tls_server_config.key_file: cannot read FOLDER: Is a directory; check the path and that this user may read",
    ),
    "path with a NUL": (
        'tls_server_config: {cert_file: "a\\0b", key_file: server.key}',
        "tls_server_config.cert_file: cannot read FOLDER/a\0b: No such file or directory",
    ),
    "rubbish as certificate": (
        "tls_server_config: {cert_file: rubbish.pem, key_file: server.key}",
        "tls_server_config.cert_file: holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)",
    ),
    "empty certificate": (
        "tls_server_config: {cert_file: empty.pem, key_file: server.key}",
        "tls_server_config.cert_file: holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)",
    ),
    "rubbish as key": (
        "tls_server_config: {cert_file: server.pem, key_file: rubbish.pem}",
        "tls_server_config.key_file: holds no valid private key; it must be in PEM",
    ),
    "encrypted key": (
        "tls_server_config: {cert_file: server.pem, key_file: encrypted.key}",
        "tls_server_config.key_file: is encrypted; give the key without a passphrase (openssl pkey)",
    ),
    "another's key": (
        "tls_server_config: {cert_file: server.pem, key_file: other.key}",
        "tls_server_config.key_file: is not the key of the certificate in cert_file; give the pair that belongs toge",
    ),
    "inline and file": (f"{TLS}, cert: x}}", "tls_server_config.cert: given besides cert_file; keep one of them"),
    "rubbish inline": (
        "tls_server_config: {cert: hunter2, key: hunter2}",
        "tls_server_config.cert: holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)",
    ),
    "RequestClientCert": (
        f"{TLS}, client_auth_type: RequestClientCert}}",
        "tls_server_config.client_auth_type: RequestClientCert would accept a certificate of anyone's making; use",
    ),
    "RequireAnyClientCert": (
        f"{TLS}, client_auth_type: RequireAnyClientCert}}",
        "tls_server_config.client_auth_type: RequireAnyClientCert would accept a certificate of anyone's making; use",
    ),
    "unknown policy": (
        f"{TLS}, client_auth_type: Maybe}}",
        "tls_server_config.client_auth_type: unknown policy Maybe; use one of NoClientCert, VerifyClientCertIfGiven,",
    ),
    "CA without policy": (
        f"{TLS}, client_ca_file: ca.pem}}",
        "tls_server_config.client_ca_file: has no effect; set client_auth_type to RequireAndVerifyClientCert",
    ),
    "policy without CA": (
        f"{TLS}, client_auth_type: RequireAndVerifyClientCert}}",
        "tls_server_config.client_ca_file: missing; RequireAndVerifyClientCert needs the CA that signs the clients'",
    ),
    "CA not there": (
        f"{TLS}, client_ca_file: none.pem, client_auth_type: RequireAndVerifyClientCert}}",
        "tls_server_config.client_ca_file: cannot read FOLDER/none.pem: No such file or directory; check the path",
    ),
    "rubbish as CA": (
        f"{TLS}, client_ca_file: rubbish.pem, client_auth_type: RequireAndVerifyClientCert}}",
        "tls_server_config.client_ca_file: holds no valid certificate; it must be in PEM",
    ),
    "allowed sans without certificates": (
        f"{TLS}, client_allowed_sans: [prometheus.example]}}",
        "tls_server_config.client_allowed_sans: needs client_auth_type RequireAndVerifyClientCert; set it",
    ),
    "TLS 1.0": (
        f"{TLS}, min_version: TLS10}}",
        "tls_server_config.min_version: TLS10 is insecure and not offered; use TLS12 or TLS13",
    ),
    "unknown TLS version": (
        f"{TLS}, max_version: 1.3}}",
        "tls_server_config.max_version: unknown TLS version 1.3; use TLS12 or TLS13",
    ),
    "versions crossed": (
        f"{TLS}, min_version: TLS13, max_version: TLS12}}",
        "tls_server_config.min_version: is above max_version; no client could connect",
    ),
    "unknown suite": (
        f"{TLS}, cipher_suites: [TLS_ROT13]}}",
        "tls_server_config.cipher_suites: unknown or insecure suite TLS_ROT13; use names of Go's tls.CipherSuites()",
    ),
    "suite without forward secrecy": (
        f"{TLS}, cipher_suites: [TLS_RSA_WITH_AES_128_GCM_SHA256]}}",
        "tls_server_config.cipher_suites: unknown or insecure suite TLS_RSA_WITH_AES_128_GCM_SHA256; use names of Go's",
    ),
    "suites and versions apart": (
        f"{TLS}, cipher_suites: [TLS_AES_128_GCM_SHA256], max_version: TLS12}}",
        "tls_server_config.cipher_suites: has none for TLS 1.2, and max_version is TLS12; add an ECDHE suite",
    ),
    "unknown curve": (
        f"{TLS}, curve_preferences: [CurveBall]}}",
        "tls_server_config.curve_preferences: unknown curve CurveBall; use one of CurveP256, CurveP384, CurveP521, X2",
    ),
    "two curves": (
        f"{TLS}, curve_preferences: [X25519, CurveP256]}}",
        "tls_server_config.curve_preferences: Python's ssl can be held to one curve only; keep one, or remove the key",
    ),
    "foreign header": (
        "http_server_config: {headers: {Server: x}}",
        "http_server_config.headers.Server: unknown key; remove it, or use one of Content-Security-Policy, Strict-Tr",
    ),
    "header's value": (
        "http_server_config: {headers: {X-Frame-Options: allow}}",
        "http_server_config.headers.X-Frame-Options: expected deny or sameorigin",
    ),
    "header of two lines": (
        'http_server_config: {headers: {Content-Security-Policy: "a\\r\\nSet-Cookie: b"}}',
        "http_server_config.headers.Content-Security-Policy: must be one line of plain ASCII",
    ),
    "plain password": (
        "basic_auth_users: {alice: hunter2}",
        "basic_auth_users.alice: not a bcrypt hash; make one with: htpasswd -nBC 10 '' | tr -d ':\\n'",
    ),
    "no password": ("basic_auth_users: {alice: }", "basic_auth_users.alice: not a bcrypt hash; make one with: htpass"),
    "cost too high": (
        f"basic_auth_users: {{alice: $2b$32${ALICES_HASH[7:]}}}",
        "basic_auth_users.alice: not a bcrypt hash; make one with: htpasswd -nBC 10 '' | tr -d ':\\n'",
    ),
    "hash cut short": (f"basic_auth_users: {{alice: {ALICES_HASH[:-2]}}}", "basic_auth_users.alice: not a bcrypt hash"),
    "hash too long": (f"basic_auth_users: {{alice: {ALICES_HASH}x}}", "basic_auth_users.alice: not a bcrypt hash"),
    "interval without unit": (
        "rate_limit: {interval: 5, burst: 1}",
        "rate_limit.interval: expected a duration with its unit, such as 1s or 500ms",
    ),
    "burst of nothing": (
        "rate_limit: {interval: 1s}",
        "rate_limit.burst: must be 1 or more, else every request would be refused",
    ),
    "burst of wrong type": ("rate_limit: {burst: many}", "rate_limit.burst: expected a whole number of requests"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_file_is_accepted(pki: Pki, name: str) -> None:
    pki.load(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_refused_with_a_line_that_says_why(pki: Pki, name: str) -> None:
    text, expected = BAD[name]
    path = pki.write(text)
    with pytest.raises(WebConfigError) as caught:
        WebConfig.load(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: {expected.replace('FOLDER', str(pki.folder))}")
    assert "\n" not in line
    assert "hunter2" not in line  # what the files hold where a secret belongs
    assert ALICES_HASH[7:-2] not in line


def test_a_key_of_another_kind_is_refused(pki: Pki) -> None:
    issued = pki.ca.issue_cert("localhost", key_type=trustme.KeyType.RSA)
    issued.cert_chain_pems[0].write_to_path(pki.folder / "rsa.pem")
    with pytest.raises(
        WebConfigError, match=r"key_file: is not the key of the certificate in cert_file; give the pair"
    ):
        pki.load("tls_server_config: {cert_file: rsa.pem, key_file: server.key}")


def test_a_weak_certificate_is_refused(pki: Pki) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    ).sign(key, hashes.SHA256())
    pki.replace("server.pem", certificate.public_bytes(Encoding.PEM))
    pki.replace("server.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(WebConfigError, match=r"cert_file: too weak for this host's OpenSSL \(EE_KEY_TOO_SMALL\)"):
        pki.load(f"{TLS}}}")


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "web.yml"
    with pytest.raises(WebConfigError) as caught:
        WebConfig.load(str(path))
    assert str(caught.value) == f"{path}: No such file or directory; give --web.config.file a file this user may read"


# Where we deliberately refuse what the toolkit takes.
STRICTER_THAN_TOOLKIT = {
    "settings without a certificate": "the toolkit drops the settings and serves plain HTTP",
    "inline and file": "the toolkit drops the inline one",
    "RequestClientCert": "Python's ssl can't ask without verifying",
    "RequireAnyClientCert": "the same",
    "policy without CA": "Go would trust every public CA",
    "allowed sans without certificates": "releases of the toolkit before that check ignore the names",
    "rubbish as CA": "Go goes on with an empty list of CAs, and lets no client in",
    "TLS 1.0": "insecure",
    "versions crossed": "no client could connect; Go finds that out at the first handshake",
    "suite without forward secrecy": "Go 1.22 and newer refuse it too",
    "suites and versions apart": "no client could connect",
    "two curves": "Python's ssl sets one",
    "header of two lines": "a line break would end the header",
    "hash too long": "Go ignores what follows the hash",
    "interval without unit": "Go takes nanoseconds: no limit at all",
    "burst of nothing": "Go refuses every request",
}
# What uses keys that the format got after Debian's promtool (2.42), which refuses them as unknown.
NEWER_THAN_PROMTOOL = {
    "allowed sans",
    "allowed sans without certificates",
    "inline and file",
    "rubbish inline",
    "rate limit",
    "rate limit off",
    "rate limit empty",
    "interval without unit",
    "burst of nothing",
    "burst of wrong type",
}


@pytest.fixture(scope="session")
def promtool() -> Path:
    try:
        return programs.path("promtool")
    except programs.ProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no promtool to compare with: {error}")


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_verdict_is_promtools(pki: Pki, promtool: Path, name: str) -> None:
    path = pki.write(GOOD[name] if name in GOOD else BAD[name][0])
    checked = subprocess.run(
        [promtool, "check", "web-config", path], capture_output=True, text=True, timeout=60, check=False
    )
    accepted = (name in GOOD or name in STRICTER_THAN_TOOLKIT) and name not in NEWER_THAN_PROMTOOL
    assert (checked.returncode == 0) == accepted, checked.stderr


def test_every_deliberate_difference_is_tested() -> None:
    assert STRICTER_THAN_TOOLKIT.keys() <= BAD.keys()
    assert GOOD.keys() | BAD.keys() >= NEWER_THAN_PROMTOOL


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_without_tls_there_is_no_context(pki: Pki) -> None:
    assert pki.load("").ssl_context() is None


def test_tls_serves_http1_to_clients_that_would_speak_http2(pki: Pki) -> None:
    client = pki.client()
    client.set_alpn_protocols(["h2", "http/1.1"])
    answer = connect(pki.load(f"{TLS}}}"), client)
    assert (answer.word, answer.version, answer.alpn) == ("welcome", "TLSv1.3", "http/1.1")


def test_certificate_key_and_ca_can_be_inline(pki: Pki) -> None:
    web = pki.load(
        f"tls_server_config:\n  cert: {pki.inline('server.pem')}\n  key: {pki.inline('server.key')}\n"
        f"  client_ca: {pki.inline('ca.pem')}\n  client_auth_type: RequireAndVerifyClientCert\n"
    )
    assert connect(web, pki.client(pki.ca.issue_cert("prometheus.example"))).word == "welcome"
    with pytest.raises(OSError, match=r"(?i)certificate"):
        connect(web, pki.client())


def test_paths_are_relative_to_the_file_and_may_be_absolute(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    pki.write(f"tls_server_config: {{cert_file: {pki.folder}/server.pem, key_file: ../etc/server.key}}")
    monkeypatch.chdir(pki.folder.parent)
    assert connect(WebConfig.load("etc/web.yml"), pki.client()).word == "welcome"


def test_client_certificate_is_required_and_verified(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}}}")
    assert connect(web, pki.client(pki.ca.issue_cert("prometheus.example"))).word == "welcome"
    with pytest.raises(OSError, match=r"(?i)certificate"):
        connect(web, pki.client())
    with pytest.raises(OSError, match=r"(?i)unknown.ca"):
        connect(web, pki.client(pki.foreign_ca.issue_cert("prometheus.example")))


def test_client_certificate_is_verified_if_given(pki: Pki) -> None:
    web = pki.load(GOOD["certificates if given"])
    assert connect(web, pki.client(pki.ca.issue_cert("prometheus.example"))).word == "welcome"
    assert connect(web, pki.client()).word == "welcome"
    with pytest.raises(OSError, match=r"(?i)unknown.ca"):
        connect(web, pki.client(pki.foreign_ca.issue_cert("prometheus.example")))


def test_an_intermediate_ca_can_be_trusted_alone(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}}}".replace("ca.pem", "intermediate.pem"))
    assert connect(web, pki.client(pki.intermediate.issue_cert("prometheus.example"))).word == "welcome"
    with pytest.raises(OSError, match=r"(?i)unknown.ca"):
        connect(web, pki.client(pki.ca.issue_cert("prometheus.example")))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("prometheus.example", "welcome"),
        ("10.0.0.1", "welcome"),
        ("2001:db8::1", "welcome"),
        ("ops@example.org", "welcome"),
        ("grafana.example", "go away"),
        ("sub.prometheus.example", "go away"),
        ("10.0.0.2", "go away"),
    ],
)
def test_client_must_have_an_allowed_name(pki: Pki, name: str, word: str) -> None:
    web = pki.load(f"{CLIENTS}, client_allowed_sans: [prometheus.example, 10.0.0.1, '2001:db8::1', ops@example.org]}}")
    assert connect(web, pki.client(pki.ca.issue_cert(name))).word == word
    assert not web.peer_allowed(None)
    assert not web.peer_allowed({})


def test_a_uri_is_a_name(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}, client_allowed_sans: ['spiffe://example.org/prometheus']}}")
    assert web.peer_allowed({"subjectAltName": (("URI", "spiffe://example.org/prometheus"),)})
    assert not web.peer_allowed({"subjectAltName": (("URI", "spiffe://example.org/grafana"),)})


def test_an_invalid_address_is_no_name(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}, client_allowed_sans: [10.0.0.1]}}")
    assert not web.peer_allowed({"subjectAltName": (("IP Address", "<invalid>"),)})
    assert web.peer_allowed({"subjectAltName": (("IP Address", "<invalid>"), ("IP Address", "10.0.0.1"))})


def test_without_allowed_names_everyone_may_go_on(pki: Pki) -> None:
    assert pki.load("").peer_allowed(None)
    assert pki.load(f"{CLIENTS}}}").peer_allowed({})


def up_to(client: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Return the client, held to `version` and below."""
    client.maximum_version = version
    return client


def test_lowest_version_is_tls12_unless_raised(pki: Pki) -> None:
    client = up_to(pki.client(), ssl.TLSVersion.TLSv1_2)
    assert connect(pki.load(f"{TLS}}}"), client).version == "TLSv1.2"
    with pytest.raises(OSError, match=r"(?i)version"):
        connect(pki.load(f"{TLS}, min_version: TLS13}}"), client)
    context = pki.load(f"{TLS}}}").ssl_context()
    assert context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_highest_version_can_be_lowered(pki: Pki) -> None:
    assert connect(pki.load(f"{TLS}, max_version: TLS12}}"), pki.client()).version == "TLSv1.2"


def tls12_client(pki: Pki, *ciphers: str) -> ssl.SSLContext:
    client = up_to(pki.client(), ssl.TLSVersion.TLSv1_2)
    client.set_ciphers(":".join(ciphers))
    return client


def test_cipher_suites_bind_tls12(pki: Pki) -> None:
    allowed, other = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"
    web = pki.load(f"{TLS}, cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]}}")
    assert connect(web, tls12_client(pki, other, allowed)).cipher == allowed
    with pytest.raises(OSError, match=r"(?i)handshake"):
        connect(web, tls12_client(pki, other))
    assert connect(web, pki.client()).version == "TLSv1.3"


def test_suites_of_tls13_alone_mean_tls13_alone(pki: Pki) -> None:
    web = pki.load(f"{TLS}, cipher_suites: [TLS_AES_128_GCM_SHA256]}}")
    assert connect(web, pki.client()).version == "TLSv1.3"
    with pytest.raises(OSError, match=r"(?i)version"):
        connect(web, up_to(pki.client(), ssl.TLSVersion.TLSv1_2))


@pytest.mark.parametrize(
    ("prefer_server", "chosen"), [("true", "ECDHE-ECDSA-AES256-GCM-SHA384"), ("false", "ECDHE-ECDSA-AES128-GCM-SHA256")]
)
def test_who_prefers_the_cipher_suite(pki: Pki, prefer_server: str, chosen: str) -> None:
    web = pki.load(
        f"{TLS}, prefer_server_cipher_suites: {prefer_server}, cipher_suites:"
        " [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]}"
    )
    client = tls12_client(pki, "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384")
    assert connect(web, client).cipher == chosen


@pytest.mark.parametrize("suite", CIPHER_SUITES)
def test_openssl_knows_every_cipher_suite(pki: Pki, suite: str) -> None:
    context = pki.load(f"{TLS}, cipher_suites: [{suite}]}}").ssl_context()
    assert context
    offered = [str(cipher["name"]) for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert offered == [CIPHER_SUITES[suite]]


@pytest.mark.parametrize("curve", CURVES)
def test_curve_binds(pki: Pki, curve: str) -> None:
    configuration = f"{TLS}, curve_preferences: [{curve}]}}"
    client = pki.client()
    try:
        client.set_ecdh_curve(CURVES[curve])
    except (ssl.SSLError, ValueError):  # as Debian 12's Python does with X25519
        with pytest.raises(WebConfigError, match=f"can't set {curve}; use CurveP256"):
            pki.load(configuration)
        return
    web = pki.load(configuration)
    assert connect(web, client).word == "welcome"
    client.set_ecdh_curve("prime256v1" if curve != "CurveP256" else "secp384r1")
    with pytest.raises(OSError, match=r"(?i)handshake"):
        connect(web, client)


# --- Changes while running -------------------------------------------------------------------------------------------


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the `err` field of the error lines so far."""
    return [record.__dict__["fields"]["err"] for record in caplog.records if record.levelno == logging.ERROR]


def test_a_renewed_certificate_serves_the_next_connection(pki: Pki) -> None:
    web = pki.load(f"{TLS}}}")
    before = connect(web, pki.client()).serial
    assert connect(web, pki.client()).serial == before
    pki.renew()
    assert connect(web, pki.client()).serial != before


def test_a_renewed_certificate_behind_a_symlink_serves_the_next_connection(pki: Pki) -> None:
    """As certbot has it: live/NAME/fullchain.pem leads to archive/NAME/fullchainN.pem."""
    for name in ("server.pem", "server.key"):
        (pki.folder / name).rename(pki.folder / f"1-{name}")
        (pki.folder / name).symlink_to(f"1-{name}")
    web = pki.load(f"{TLS}}}")
    before = connect(web, pki.client()).serial
    pki.renew()
    assert connect(web, pki.client()).serial != before


def test_nothing_is_read_again_while_nothing_changes(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}}}")
    assert web.ssl_context() is web.ssl_context()


def test_a_bad_renewal_keeps_the_last_good_certificate_and_is_logged_once(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    web = pki.load(f"{TLS}}}")
    before = connect(web, pki.client()).serial
    good = (pki.folder / "server.pem").read_bytes()

    pki.replace("server.pem", b"half a certific")
    for _ in range(3):
        assert connect(web, pki.client()).serial == before
    assert len(errors(caplog)) == 1
    assert "tls_server_config.cert_file: holds no valid certificate" in errors(caplog)[0]

    (pki.folder / "server.pem").unlink()
    assert connect(web, pki.client()).serial == before
    assert len(errors(caplog)) == 2
    assert "No such file" in errors(caplog)[1]

    pki.replace("server.pem", good)
    assert connect(web, pki.client()).serial == before
    assert caplog.records[-1].getMessage() == "web configuration reloaded"
    lines = len(caplog.records)
    assert connect(web, pki.client()).serial == before
    assert len(caplog.records) == lines


def test_a_changed_file_is_in_force_at_once(pki: Pki) -> None:
    web = pki.load("")
    assert web.allows(None)
    assert web.headers == {}
    pki.write(f"basic_auth_users: {{alice: {ALICES_HASH}}}\nhttp_server_config: {{headers: {{X-Frame-Options: deny}}}}")
    assert not web.allows(None)
    assert web.allows(basic("alice", ALICES_PASSWORD))
    assert web.headers == {"X-Frame-Options": "deny"}


def test_a_removed_user_is_out_although_the_password_was_remembered(pki: Pki) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}, bob: {ALICES_HASH}}}")
    assert web.allows(basic("alice", ALICES_PASSWORD))
    pki.write(f"basic_auth_users: {{bob: {ALICES_HASH}}}")
    assert not web.allows(basic("alice", ALICES_PASSWORD))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"basic_auth_users: {{alice: {ALICES_HASH}}}", "tls_server_config"),
        (f"{CLIENTS}, client_allowed_sans: [a.example]}}", "basic_auth_users"),
        (f"{CLIENTS}}}\nbasic_auth_users: {{alice: {ALICES_HASH}}}", "tls_server_config.client_allowed_sans"),
        (f"{TLS}}}\nbasic_auth_users: {{alice: {ALICES_HASH}}}", "tls_server_config.client_auth_type"),
        ("", "tls_server_config"),
    ],
)
def test_a_change_cannot_open_the_exporter_to_everyone(
    pki: Pki, caplog: pytest.LogCaptureFixture, text: str, key: str
) -> None:
    web = pki.load(f"{CLIENTS}, client_allowed_sans: [a.example]}}\nbasic_auth_users: {{alice: {ALICES_HASH}}}")
    path = pki.write(text)
    for _ in range(2):
        assert web.ssl_context()
        assert not web.allows(None)
        assert not web.peer_allowed({})
    assert errors(caplog) == [f"{path}: {key}: would be switched off; restart the exporter if that is wanted"]


# --- Passwords -------------------------------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The hashes that bcrypt was asked to check a password against."""
    asked: list[bytes] = []
    checkpw = bcrypt.checkpw

    def counting(password: bytes, hashed_password: bytes) -> bool:
        asked.append(hashed_password)
        return checkpw(password, hashed_password)

    monkeypatch.setattr(bcrypt, "checkpw", counting)
    return asked


def test_without_users_everyone_may_ask(pki: Pki) -> None:
    web = pki.load("")
    assert web.users == frozenset()
    assert web.allows(None)
    assert web.allows("Basic rubbish")


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
def test_only_the_right_user_with_the_right_password_may_ask(pki: Pki, prefix: str) -> None:
    bobs_hash = bcrypt.hashpw(b"battery:staple", b"$2b$04$" + b"virtscope.tests.saltuO").decode()
    web = pki.load(f"basic_auth_users: {{alice: {prefix}{ALICES_HASH[4:]}, björn: {bobs_hash}}}")
    assert web.users == {"alice", "björn"}
    for _ in range(2):  # asked of bcrypt, then remembered
        assert web.allows(basic("alice", ALICES_PASSWORD))
        assert web.allows(basic("björn", "battery:staple"))
        assert not web.allows(basic("alice", "battery:staple"))
        assert not web.allows(basic("alice", ""))
        assert not web.allows(basic("alice", ALICES_PASSWORD + "!"))
        assert not web.allows(basic("Alice", ALICES_PASSWORD))
        assert not web.allows(basic("", ALICES_PASSWORD))
        assert not web.allows(basic("mallory", ALICES_PASSWORD))
        assert not web.allows(basic(b"\xff", ALICES_PASSWORD))


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic YWxpY2U=",  # "alice", without a colon
        "Basic YWxpY2U6Y29ycmVjdCBob3JzZQ",  # padding cut off
        "Basic \xff\xfe",
        "Basic YWxpY2U6\u20acY29y",
        "Bearer " + basic("alice", ALICES_PASSWORD).partition(" ")[2],
        basic("alice", ALICES_PASSWORD).partition(" ")[2],
    ],
)
def test_malformed_headers_are_refused(pki: Pki, header: str | None) -> None:
    assert not pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}").allows(header)


def test_the_scheme_may_be_in_any_case(pki: Pki) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    assert web.allows(basic("alice", ALICES_PASSWORD).replace("Basic", "bASIC"))


def test_72_bytes_are_the_longest_password(pki: Pki) -> None:
    longest = "x" * 72
    hash_ = bcrypt.hashpw(longest.encode(), b"$2b$04$" + b"virtscope.tests.saltuO").decode()
    web = pki.load(f"basic_auth_users: {{alice: {hash_}}}")
    assert web.allows(basic("alice", longest))
    assert not web.allows(basic("alice", longest + "y"))
    assert not web.allows(basic("alice", "x" * 71))
    assert not web.allows(basic("alice", longest[:10] + "\0" + longest[10:]))


def test_an_unknown_user_costs_as_much_as_a_known_one(pki: Pki, checks: list[bytes]) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {bcrypt.hashpw(b'x', bcrypt.gensalt(5)).decode()}}}")
    assert not web.allows(basic("alice", "guess"))
    assert not web.allows(basic("mallory", "guess"))
    assert [hash_[4:6] for hash_ in checks] == [b"05", b"05"]


def test_bcrypt_is_asked_once_per_password(pki: Pki, checks: list[bytes]) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    for _ in range(3):
        assert web.allows(basic("alice", ALICES_PASSWORD))
        assert not web.allows(basic("alice", "wrong"))
        assert not web.allows(basic("mallory", ALICES_PASSWORD))
    assert len(checks) == 3
    pki.write(f"basic_auth_users: {{alice: {ALICES_HASH}}}\n# changed")
    assert web.allows(basic("alice", ALICES_PASSWORD))
    assert len(checks) == 4


def test_concurrent_scrapes_ask_bcrypt_once(pki: Pki, checks: list[bytes]) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    answers: list[bool] = []
    scrapes = [
        threading.Thread(target=lambda: answers.append(web.allows(basic("alice", ALICES_PASSWORD)))) for _ in range(8)
    ]
    for scrape in scrapes:
        scrape.start()
    for scrape in scrapes:
        scrape.join(20)
    assert answers == [True] * 8
    assert len(checks) == 1


def test_a_flood_of_guesses_neither_grows_memory_nor_pushes_out_the_right_password(
    pki: Pki, checks: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "MOST_REFUSALS", 5)
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    assert web.allows(basic("alice", ALICES_PASSWORD))
    for guess in range(11):
        assert not web.allows(basic("alice", str(guess)))
    checks.clear()
    assert web.allows(basic("alice", ALICES_PASSWORD))
    assert not checks
    assert not web.allows(basic("alice", "0"))  # forgotten, so bcrypt was asked again
    assert len(checks) == 1


def test_guesses_of_one_client_hold_up_neither_others_nor_what_is_known(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}, bob: {ALICES_HASH}}}")
    assert web.allows(basic("alice", ALICES_PASSWORD), "192.0.2.1")
    let = threading.Event()
    guessing = threading.Semaphore(0)

    def slow_check(password: bytes, hash_: bytes) -> bool:
        guessing.release()
        let.wait(30)
        return bcrypt.checkpw(password, hash_)

    assert web._loaded.passwords
    monkeypatch.setattr(web._loaded.passwords, "_check", slow_check)
    outcomes: list[object] = []

    def guess(password: str, client: str) -> None:
        try:
            outcomes.append(web.allows(basic("bob", password), client))
        except TooManyGuesses:
            outcomes.append("too many")

    guesses = [threading.Thread(target=guess, args=(str(number), "192.0.2.1")) for number in range(20)]
    for thread in guesses:
        thread.start()
    assert guessing.acquire(timeout=30)
    for thread in guesses:
        thread.join(0.2)
    assert outcomes == ["too many"] * (20 - passwords.MOST_CHECKS_OF_A_CLIENT)
    assert web.allows(basic("alice", ALICES_PASSWORD), "192.0.2.1"), "a password that is known waits for no guess"
    bob = threading.Thread(target=guess, args=(ALICES_PASSWORD, "192.0.2.2"))
    bob.start()
    let.set()
    for thread in [bob, *guesses]:
        thread.join(30)
    assert outcomes.count(True) == 1
    assert outcomes.count(False) == passwords.MOST_CHECKS_OF_A_CLIENT


def test_a_wrong_guess_makes_the_next_one_wait(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    web = pki.load(f"basic_auth_users: {{alice: {bcrypt.hashpw(b'x', bcrypt.gensalt(6)).decode()}}}")
    assert web.allows(basic("alice", "x"))
    assert pauses == []
    assert not web.allows(basic("alice", "wrong"))
    assert not web.allows(basic("alice", "wrong"))  # known by now
    assert len(pauses) == 1
    assert 0 < pauses[0] <= passwords.MOST_PAUSE_SECONDS


def test_passwords_are_not_kept(pki: Pki) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    web.allows(basic("alice", ALICES_PASSWORD))
    web.allows(basic("alice", "wrong guess"))
    kept = repr([vars(web), vars(web._loaded), vars(web._loaded.passwords)])
    assert ALICES_PASSWORD not in kept
    assert "wrong guess" not in kept


# --- The rest --------------------------------------------------------------------------------------------------------


def test_headers(pki: Pki) -> None:
    assert pki.load(GOOD["http"]).headers == {
        "Content-Security-Policy": "default-src 'self'",
        "Strict-Transport-Security": "max-age=1",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "deny",
        "X-XSS-Protection": "0",
    }
    assert pki.load("http_server_config: {headers: {X-XSS-Protection: }}").headers == {}


def test_rate_limit(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("virtscope.toolkit.webconfig.rate_limit.time.monotonic", lambda: now)
    web = pki.load("rate_limit: {interval: 1.5s, burst: 2}")
    assert [web.admits() for _ in range(3)] == [True, True, False]
    now += 1.4
    assert not web.admits()
    now += 0.2
    assert [web.admits() for _ in range(2)] == [True, False]
    now += 3600
    assert [web.admits() for _ in range(3)] == [True, True, False]


def test_without_rate_limit_everything_is_admitted(pki: Pki) -> None:
    for text in ("", GOOD["rate limit off"]):
        web = pki.load(text)
        assert all(web.admits() for _ in range(100))


@pytest.mark.parametrize(
    ("blocked", "text", "printed"),
    [
        (["yaml", "bcrypt"], None, "imported"),
        (["bcrypt"], "http_server_config: {http2: true}", "loaded"),
        (["yaml"], "", "FILE: reading it needs PyYAML; install it (Debian: python3-yaml)"),
        (
            ["bcrypt"],
            f"basic_auth_users: {{alice: {ALICES_HASH}}}",
            "FILE: basic_auth_users: checking passwords needs the bcrypt module; install it (Debian: python3-bcrypt)",
        ),
    ],
)
def test_modules_are_needed_only_by_files_that_use_them(
    pki: Pki, blocked: list[str], text: str | None, printed: str
) -> None:
    path = pki.write(text or "")
    script = f"""
import sys
sys.modules.update(dict.fromkeys({blocked!r}))  # None: importing it raises ImportError
from virtscope.toolkit.webconfig import WebConfig, WebConfigError
print("imported")
if {text is not None}:
    try:
        WebConfig.load({path!r})
        print("loaded")
    except WebConfigError as error:
        print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(EXPORTERS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.splitlines()[-1] == printed.replace("FILE", path)

"""The web configuration file: what is accepted and refused, beside what Prometheus's own promtool says of it."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.support.program import program_path
from tests.support.refusing import refusal
from tests.unit.toolkit.webconfig.pki import ALICES_HASH, CLIENTS, TLS, Pki
from virtscope.toolkit.webconfig import WebConfig, WebConfigError

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
    "malformed as certificate": (
        "tls_server_config: {cert_file: malformed.pem, key_file: server.key}",
        "tls_server_config.cert_file: holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)",
    ),
    "empty certificate": (
        "tls_server_config: {cert_file: empty.pem, key_file: server.key}",
        "tls_server_config.cert_file: holds no valid certificate; it must be in PEM (-----BEGIN CERTIFICATE-----)",
    ),
    "malformed as key": (
        "tls_server_config: {cert_file: server.pem, key_file: malformed.pem}",
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
    "malformed inline": (
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
    "malformed as CA": (
        f"{TLS}, client_ca_file: malformed.pem, client_auth_type: RequireAndVerifyClientCert}}",
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
    "rate limit": (
        "rate_limit: {interval: 1m30s, burst: 5}",
        "rate_limit: not offered, as any client could use it up for all; requests are limited for each client: remove",
    ),
}


def test_good_files_are_accepted(pki: Pki) -> None:
    for name, text in GOOD.items():
        try:
            pki.load(text)
        except WebConfigError as error:
            pytest.fail(f"{name}: {error}")


def test_bad_files_are_refused_with_a_line_that_says_why(pki: Pki) -> None:
    for name, (text, expected) in BAD.items():
        path = pki.write(text)
        line = str(refusal(WebConfigError, WebConfig.load, path))
        assert line.startswith(f"{path}: {expected.replace('FOLDER', str(pki.folder))}"), name
        assert "\n" not in line, name
        assert "hunter2" not in line, name  # what the files hold where a secret belongs
        assert ALICES_HASH[7:-2] not in line, name


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
    "malformed as CA": "Go goes on with an empty list of CAs, and lets no client in",
    "TLS 1.0": "insecure",
    "versions crossed": "no client could connect; Go finds that out at the first handshake",
    "suite without forward secrecy": "Go 1.22 and newer refuse it too",
    "suites and versions apart": "no client could connect",
    "two curves": "Python's ssl sets one",
    "header of two lines": "a line break would end the header",
    "hash too long": "Go ignores what follows the hash",
    "rate limit": "one for all clients, strangers included",
}
# What uses keys that the format got after Debian's promtool (2.42), which refuses them as unknown.
NEWER_THAN_PROMTOOL = {
    "allowed sans",
    "allowed sans without certificates",
    "inline and file",
    "malformed inline",
    "rate limit",
    "rate limit empty",
}


def test_verdicts_are_promtools(pki: Pki) -> None:
    assert STRICTER_THAN_TOOLKIT.keys() <= BAD.keys()
    promtool = program_path("promtool")
    for name, text in {**GOOD, **{name: text for name, (text, _) in BAD.items()}}.items():
        checked = subprocess.run(
            [promtool, "check", "web-config", pki.write(text)], capture_output=True, text=True, timeout=60, check=False
        )
        accepted = (name in GOOD or name in STRICTER_THAN_TOOLKIT) and name not in NEWER_THAN_PROMTOOL
        assert (checked.returncode == 0) == accepted, f"{name}: {checked.stderr}"

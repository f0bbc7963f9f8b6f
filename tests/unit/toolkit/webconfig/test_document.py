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
from tests.support.refusals import refusal
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

# A file, and how the line it gives must begin after "FILE: ".
BAD = {
    "list": ("- a\n", "expected keys with values, not a list"),
    "word": ("hunter2\n", "expected keys with values, not text"),
    "not YAML": ("basic_auth_users:\n  alice: 'hunter2\n", "line 3, column 1: not valid YAML"),
    "unknown alias": ("basic_auth_users:\n  alice: *hunter2\n", "line 2, column 10: not valid YAML"),
    "not UTF-8": ("\x00", "not valid YAML"),
    "key twice": (
        f"{TLS}}}\nbasic_auth_users:\n  alice: {ALICES_HASH}\n  alice: {ALICES_HASH}\n",
        "line 4: alice is given twice",
    ),
    "aliases without end": (
        "basic_auth_users:\n  a: &a0 [x]\n"
        + "".join(f"  a{depth}: &a{depth} [{', '.join([f'*a{depth - 1}'] * 9)}]\n" for depth in range(1, 31)),
        "basic_auth_users.a: not a bcrypt hash",
    ),
    "an alias of itself": ("basic_auth_users: &a [*a]\n", "not valid YAML"),
    "unknown section": ("tls_config: {}", "tls_config: unknown key"),
    "section of wrong type": ("tls_server_config: on", "tls_server_config: expected keys with values, not true or f"),
    "flag of wrong type": ("http_server_config: {http2: 1}", "http_server_config.http2: expected true or false, not t"),
    "foreign header": ("http_server_config: {headers: {Server: x}}", "http_server_config.headers.Server: unknown key"),
    "header's value": (
        "http_server_config: {headers: {X-Frame-Options: allow}}",
        "http_server_config.headers.X-Frame-Options: expected deny or sameorigin",
    ),
    "header of two lines": (
        'http_server_config: {headers: {Content-Security-Policy: "a\\r\\nSet-Cookie: b"}}',
        "http_server_config.headers.Content-Security-Policy: must be one line of plain ASCII",
    ),
    "plain password": ("basic_auth_users: {alice: hunter2}", "basic_auth_users.alice: not a bcrypt hash"),
    "no password": ("basic_auth_users: {alice: }", "basic_auth_users.alice: not a bcrypt hash"),
    "cost too high": (
        f"basic_auth_users: {{alice: $2b$32${ALICES_HASH[7:]}}}",
        "basic_auth_users.alice: not a bcrypt hash",
    ),
    "hash cut short": (f"basic_auth_users: {{alice: {ALICES_HASH[:-2]}}}", "basic_auth_users.alice: not a bcrypt hash"),
    "hash too long": (f"basic_auth_users: {{alice: {ALICES_HASH}x}}", "basic_auth_users.alice: not a bcrypt hash"),
    "rate limit": (
        "rate_limit: {interval: 1m30s, burst: 5}",
        "rate_limit: not offered, as any client could use it up for all",
    ),
}
# What tls_server_config has alone, and how that line goes on.
ALONE = {
    "text of wrong type": ("cert_file: [server.pem], key_file: server.key", "cert_file: expected text, not a list"),
    "no key": ("cert_file: server.pem", "key_file: missing"),
    "no certificate": ("key_file: server.key", "cert_file: missing"),
    "settings without a certificate": ("min_version: TLS13", "cert_file: missing"),
    "certificate not there": (
        "cert_file: none.pem, key_file: server.key",
        "cert_file: cannot read FOLDER/none.pem: No such file or directory",
    ),
    "key is a folder": ("cert_file: server.pem, key_file: .", "key_file: cannot read FOLDER: Is a directory"),
    "path with a NUL": (
        'cert_file: "a\\0b", key_file: server.key',
        "cert_file: cannot read FOLDER/a\0b: No such file or directory",
    ),
    "malformed as certificate": (
        "cert_file: malformed.pem, key_file: server.key",
        "cert_file: holds no valid certificate",
    ),
    "empty certificate": ("cert_file: empty.pem, key_file: server.key", "cert_file: holds no valid certificate"),
    "malformed as key": ("cert_file: server.pem, key_file: malformed.pem", "key_file: holds no valid private key"),
    "encrypted key": ("cert_file: server.pem, key_file: encrypted.key", "key_file: is encrypted"),
    "another's key": (
        "cert_file: server.pem, key_file: other.key",
        "key_file: is not the key of the certificate in cert_file",
    ),
    "malformed inline": ("cert: hunter2, key: hunter2", "cert: holds no valid certificate"),
}
# What it has beside a certificate and its key.
BESIDE = {
    "unknown key": ("cert_pem: x", "cert_pem: unknown key"),
    "texts of wrong type": ("cipher_suites: TLS_AES_128_GCM_SHA256", "cipher_suites: expected a list of texts"),
    "inline and file": ("cert: x", "cert: given besides cert_file"),
    "RequestClientCert": (
        "client_auth_type: RequestClientCert",
        "client_auth_type: RequestClientCert would accept a certificate of anyone's making",
    ),
    "RequireAnyClientCert": (
        "client_auth_type: RequireAnyClientCert",
        "client_auth_type: RequireAnyClientCert would accept a certificate of anyone's making",
    ),
    "unknown policy": ("client_auth_type: Maybe", "client_auth_type: unknown policy Maybe"),
    "CA without policy": ("client_ca_file: ca.pem", "client_ca_file: has no effect"),
    "policy without CA": ("client_auth_type: RequireAndVerifyClientCert", "client_ca_file: missing"),
    "CA not there": (
        "client_ca_file: none.pem, client_auth_type: RequireAndVerifyClientCert",
        "client_ca_file: cannot read FOLDER/none.pem: No such file or directory",
    ),
    "malformed as CA": (
        "client_ca_file: malformed.pem, client_auth_type: RequireAndVerifyClientCert",
        "client_ca_file: holds no valid certificate",
    ),
    "allowed sans without certificates": (
        "client_allowed_sans: [prometheus.example]",
        "client_allowed_sans: needs client_auth_type RequireAndVerifyClientCert",
    ),
    "TLS 1.0": ("min_version: TLS10", "min_version: TLS10 is insecure and not offered"),
    "unknown TLS version": ("max_version: 1.3", "max_version: unknown TLS version 1.3"),
    "versions crossed": ("min_version: TLS13, max_version: TLS12", "min_version: is above max_version"),
    "unknown suite": ("cipher_suites: [TLS_ROT13]", "cipher_suites: unknown or insecure suite TLS_ROT13"),
    "suite without forward secrecy": (
        "cipher_suites: [TLS_RSA_WITH_AES_128_GCM_SHA256]",
        "cipher_suites: unknown or insecure suite TLS_RSA_WITH_AES_128_GCM_SHA256",
    ),
    "suites and versions apart": (
        "cipher_suites: [TLS_AES_128_GCM_SHA256], max_version: TLS12",
        "cipher_suites: has none for TLS 1.2, and max_version is TLS12",
    ),
    "unknown curve": ("curve_preferences: [CurveBall]", "curve_preferences: unknown curve CurveBall"),
    "two curves": (
        "curve_preferences: [X25519, CurveP256]",
        "curve_preferences: Python's ssl can be held to one curve only",
    ),
}
BAD |= {name: (f"tls_server_config: {{{keys}}}", f"tls_server_config.{said}") for name, (keys, said) in ALONE.items()}
BAD |= {name: (f"{TLS}, {keys}}}", f"tls_server_config.{said}") for name, (keys, said) in BESIDE.items()}


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

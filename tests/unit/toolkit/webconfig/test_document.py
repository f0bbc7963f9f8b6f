"""The web configuration file: accepted and refused ones, compared with Prometheus's promtool."""

import subprocess
from datetime import UTC, datetime, timedelta

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

from tests.support.program import program_path
from tests.support.refusals import refusal
from tests.unit.toolkit.webconfig.pki import ALICES_HASH, CLIENTS, TLS, Pki
from virtscope.toolkit.document import DocumentError
from virtscope.toolkit.webconfig import WebConfig

GOOD = [
    "# nothing yet\n",
    "tls_server_config:\nhttp_server_config: {}\nbasic_auth_users:\nrate_limit:\n",
    "tls_server_config: {cert_file: , key_file: '', client_ca_file: }\n",
    f"{CLIENTS}, min_version: TLS12, cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}}",
    f"{TLS}, max_version: TLS13, prefer_server_cipher_suites: false, curve_preferences: [CurveP256]}}",
    f"{TLS}, client_ca_file: ca.pem, client_auth_type: VerifyClientCertIfGiven}}",
    f"{TLS}, client_auth_type: NoClientCert}}",
    f"{CLIENTS}, client_allowed_sans: [prometheus.example, 10.0.0.1]}}",
    "http_server_config: {headers: {X-Frame-Options: deny, X-Content-Type-Options: nosniff, X-XSS-Protection: 0}}",
    "http_server_config: {http2: false, headers: {Content-Security-Policy: \"default-src 'self'\"}}",
    "http_server_config: {headers: {Strict-Transport-Security: max-age=1}}",
    f"basic_auth_users: {{alice: $2y${ALICES_HASH[4:]}, 007: $2a${ALICES_HASH[4:]}, yes: {ALICES_HASH}}}",
]
ENDLESS = "basic_auth_users:\n  a: &a0 [x]\n"  # of aliases
ENDLESS += "".join(f"  a{depth}: &a{depth} [{', '.join([f'*a{depth - 1}'] * 9)}]\n" for depth in range(1, 31))
# A file, and the beginning of its error line after "FILE: "; "line 3: " is that of the key.
BAD = {
    "- a\n": "expected keys with values, not a list",
    "basic_auth_users:\n  alice: 'hunter2\n": "line 3, column 1: not valid YAML",
    "basic_auth_users:\n  alice: *hunter2\n": "line 2, column 10: not valid YAML",
    "\x00": "not valid YAML",
    f"{TLS}}}\nbasic_auth_users:\n  alice: {ALICES_HASH}\n  alice: {ALICES_HASH}\n": "line 4: alice is given twice",
    ENDLESS: "line 2: basic_auth_users.a: not a bcrypt hash",
    "basic_auth_users: &a [*a]\n": "not valid YAML",
    "tls_config: {}": "line 1: tls_config: unknown key",
    "tls_server_config: on": "line 1: tls_server_config: expected keys with values, not true or",
    "http_server_config: {http2: 1}": "line 1: http_server_config.http2: expected true or false, not t",
    "http_server_config:\n  headers:\n    Server: x": "line 3: http_server_config.headers.Server: unknown key",
    "http_server_config: {headers: {X-Frame-Options: allow}}": "line 1: http_server_config.headers.X-Frame-Options: e",
    **{
        f"basic_auth_users: {{alice: {password}}}": "line 1: basic_auth_users.alice: not a bcrypt hash"
        for password in ("hunter2", "", f"$2b$32${ALICES_HASH[7:]}", ALICES_HASH[:-2])
    },
    # Only for tls_server_config:
    **{
        f"tls_server_config: {{{keys}}}": f"line 1: tls_server_config.{said}"
        for keys, said in {
            "cert_file: [server.pem], key_file: server.key": "cert_file: expected text, not a list",
            "cert_file: server.pem": "key_file: missing",
            "key_file: server.key": "cert_file: missing",
            "cert_file: none.pem, key_file: server.key": "cert_file: cannot read FOLDER/none.pem: No such",
            "cert_file: server.pem, key_file: .": "key_file: cannot read FOLDER: Is a directory",
            'cert_file: "a\\0b", key_file: server.key': "cert_file: cannot read FOLDER/a\0b: No such",
            "cert_file: malformed.pem, key_file: server.key": "cert_file: holds no valid certificate",
            "cert_file: server.pem, key_file: malformed.pem": "key_file: holds no valid private key",
            "cert_file: server.pem, key_file: encrypted.key": "key_file: is encrypted",
            "cert_file: server.pem, key_file: rsa.key": "key_file: is not the key of the certificate in cert_file",
            "cert_file: server.pem, key_file: other.key": "key_file: is not the key of the certificate in cert_file",
        }.items()
    },
    # Besides a certificate and its key:
    **{
        f"{TLS}, {keys}}}": f"line 1: tls_server_config.{said}"
        for keys, said in {
            "cert_pem: x": "cert_pem: unknown key",
            "cipher_suites: TLS_AES_128_GCM_SHA256": "cipher_suites: expected a list of texts",
            "client_auth_type: Maybe": "client_auth_type: Maybe is unknown or insecure",
            "client_ca_file: ca.pem": "client_ca_file: has no effect",
            "client_ca_file: none.pem, client_auth_type: RequireAndVerifyClientCert": "client_ca_file: cannot",
            "max_version: 1.3": "max_version: 1.3 is unknown or insecure",
            "cipher_suites: [TLS_ROT13]": "cipher_suites: TLS_ROT13 is unknown or insecure",
            "curve_preferences: [CurveBall]": "curve_preferences: CurveBall is unknown or insecure",
        }.items()
    },
}
# Files of one line that we refuse and the exporter toolkit accepts, with the reason.
STRICTER = {
    "tls_server_config: {min_version: TLS13}": "cert_file: missing",  # it drops the settings and serves plain HTTP
    f"{TLS}, cert: x}}": "cert: given besides cert_file",  # it drops the inline one
    **{  # Python's ssl can't ask without verifying
        f"{TLS}, client_auth_type: {policy}}}": f"client_auth_type: {policy} is unknown or insecure"
        for policy in ("RequestClientCert", "RequireAnyClientCert")
    },
    f"{TLS}, client_auth_type: RequireAndVerifyClientCert}}": "client_ca_file: missing",  # Go trusts every public CA
    # Go continues with an empty list, and accepts no client.
    f"{TLS}, client_ca_file: malformed.pem, client_auth_type: RequireAndVerifyClientCert}}": "client_ca_file: holds no",
    f"{TLS}, client_allowed_sans: [a.example]}}": "client_allowed_sans: needs",  # earlier releases ignore the names
    f"{TLS}, min_version: TLS10}}": "min_version: TLS10 is unknown or insecure",
    f"{TLS}, min_version: TLS13, max_version: TLS12}}": "min_version: is above max_version",  # no client could connect
    f"{TLS}, cipher_suites: [TLS_RSA_WITH_AES_128_GCM_SHA256]}}": "cipher_suites: TLS_RSA_WITH_AES_128_GCM_SHA256 is",
    f"{TLS}, cipher_suites: [TLS_AES_128_GCM_SHA256], max_version: TLS12}}": "cipher_suites: has none for TLS 1.2, and",
    f"{TLS}, curve_preferences: [X25519, CurveP256]}}": "curve_preferences: Python's ssl can be held to one curve only",
    **{
        f'http_server_config: {{headers: {{Content-Security-Policy: "{value}"}}}}': "http_server_config.headers.Content"
        for value in ("a\\r\\nSet-Cookie: b", "default-src \\u00fc", "default-src\\u2028b")
    },
    f"basic_auth_users: {{alice: {ALICES_HASH}x}}": "basic_auth_users.alice: not a bcrypt hash",
    "rate_limit: {interval: 1m30s, burst: 5}": "rate_limit: not offered, as any client could use it up for all",
}
NEWER_THAN_PROMTOOL = ("rate_limit", "client_allowed_sans", "cert: ")  # keys unknown to Debian's release (2.42)


@pytest.fixture
def files(pki: Pki) -> Pki:
    """With files that aren't certificates, or with the wrong key."""
    (pki.folder / "malformed.pem").write_text("not a certificate\n")
    other, another = pki.ca.issue_cert("localhost"), pki.ca.issue_cert("localhost", key_type=trustme.KeyType.RSA)
    other.private_key_pem.write_to_path(pki.folder / "other.key")
    another.private_key_pem.write_to_path(pki.folder / "rsa.key")
    encrypted = load_pem_private_key(other.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase")
    )
    (pki.folder / "encrypted.key").write_bytes(encrypted)
    return pki


def test_good_files_are_accepted_and_bad_ones_refused_with_a_line_that_says_why(files: Pki) -> None:
    for text in GOOD:
        files.load(text)
    for text, expected in {**BAD, **{text: f"line 1: {said}" for text, said in STRICTER.items()}}.items():
        path = files.write(text)
        line = str(refusal(DocumentError, WebConfig, path))
        said = line.removeprefix(f"{path}: ").replace("tls_server_config.", "", 1)
        assert said.startswith(expected.replace("tls_server_config.", "").replace("FOLDER", str(files.folder))), text
        assert "\n" not in line, text
        assert "hunter2" not in line, text  # the files' content in place of a secret
        assert ALICES_HASH[7:-2] not in line, text

    missing = f"{files.folder}/none.yml"
    said = str(refusal(DocumentError, WebConfig, missing))
    assert said == f"{missing}: No such file or directory; give --web.config.file a file this user may read"


def test_verdicts_are_promtools(files: Pki) -> None:
    promtool = program_path("promtool")
    for text in (*GOOD, *BAD, *STRICTER):
        command = [str(promtool), "check", "web-config", files.write(text)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        accepted = text not in BAD and not any(key in text for key in NEWER_THAN_PROMTOOL)
        assert (checked.returncode == 0) == accepted, f"{text}: {checked.stderr}"


def test_a_weak_certificate_is_refused(pki: Pki) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    ).sign(key, hashes.SHA256())
    pki.replace("server.pem", certificate.public_bytes(Encoding.PEM))
    pki.replace("server.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(DocumentError, match=r"cert_file: too weak for this host's OpenSSL \(EE_KEY_TOO_SMALL\)"):
        pki.load(f"{TLS}}}")

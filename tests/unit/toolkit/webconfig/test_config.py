"""Changes of the files while an exporter runs, TLS parameters, and packages that a host needs."""

import logging
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.toolkit.webconfig.pki import ALICES_HASH, ALICES_PASSWORD, CLIENTS, TLS, Pki, basic, connect
from virtscope.toolkit.webconfig.tls import CIPHER_SUITES, not_after

EXPORTERS = Path(__file__).resolve().parents[4] / "exporters"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The `err` field of the error lines so far."""
    return [record.__dict__["fields"]["err"] for record in caplog.records if record.levelno == logging.ERROR]


def test_a_renewed_certificate_serves_the_next_connection(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}}}")
    assert web.ssl_context() is web.ssl_context(), "nothing is read again while nothing changes"
    for _ in range(2):
        web = pki.load(f"{TLS}}}")
        before = connect(web, pki.client()).serial
        assert connect(web, pki.client()).serial == before
        pki.renew()
        assert connect(web, pki.client()).serial != before
        # certbot's layout: live/NAME/fullchain.pem links to archive/NAME/fullchainN.pem.
        for name in ("server.pem", "server.key"):
            (pki.folder / name).rename(pki.folder / f"1-{name}")
            (pki.folder / name).symlink_to(f"1-{name}")


def test_when_the_first_certificate_of_the_chain_expires_is_known(pki: Pki) -> None:
    """Dates before 2050 and later ones have different encodings."""
    ends = [datetime(2049, 12, 31, 23, 59, 58, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)]
    leaf, later = (pki.ca.issue_cert("localhost", not_after=end) for end in ends)
    pki.replace("server.key", leaf.private_key_pem.bytes())
    pki.replace("server.pem", b"a comment\n" + b"".join(each.cert_chain_pems[0].bytes() for each in (leaf, later)))
    web = pki.load(f"{TLS}}}")
    assert web.certificate_not_after() == ends[0].timestamp()
    pki.replace("server.key", later.private_key_pem.bytes())
    pki.replace("server.pem", later.cert_chain_pems[0].bytes())
    assert web.certificate_not_after() == ends[1].timestamp()
    for der in (b"", b"\x30", b"\x30\x84", b"\x30\x03\x30\x01\x02", b"\x30\x82\xff\xff" + b"\x30\x00" * 9):
        assert not_after(ssl.DER_cert_to_PEM_cert(der)) is None, der


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
    (pki.folder / "server.pem").unlink()
    assert connect(web, pki.client()).serial == before
    malformed, gone = errors(caplog)
    assert ": line 1: tls_server_config.cert_file: holds no valid certificate" in malformed
    assert "No such file" in gone
    pki.replace("server.pem", good)
    for _ in range(2):
        assert connect(web, pki.client()).serial == before
    assert [record.getMessage() for record in caplog.records[2:]] == ["web configuration reloaded"]


def test_a_changed_file_is_in_force_at_once_also_for_a_user_whose_password_was_remembered(pki: Pki) -> None:
    web = pki.load("")
    assert web.allows(None)
    assert web.headers == {}
    users = f"basic_auth_users: {{alice: {ALICES_HASH}, bob: {ALICES_HASH}}}"
    pki.write(f"{users}\nhttp_server_config: {{headers: {{X-Frame-Options: deny}}}}")
    assert not web.allows(None)
    assert web.allows(basic("alice", ALICES_PASSWORD))
    assert web.headers == {"X-Frame-Options": "deny"}
    pki.write(f"basic_auth_users: {{bob: {ALICES_HASH}}}")
    assert not web.allows(basic("alice", ALICES_PASSWORD))
    pki.write(f"{users}\nhttp_server_config: {{headers: {{X-XSS-Protection: }}}}")
    assert web.headers == {}


def test_a_change_cannot_open_the_exporter_to_everyone(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    users = f"basic_auth_users: {{alice: {ALICES_HASH}}}"
    changes = [
        (users, "tls_server_config"),
        (f"{CLIENTS}, client_allowed_sans: [a.example]}}", "basic_auth_users"),
        (f"{CLIENTS}}}\n{users}", "tls_server_config.client_allowed_sans"),
        (f"{TLS}}}\n{users}", "tls_server_config.client_auth_type"),
        ("", "tls_server_config"),
    ]
    for text, key in changes:
        caplog.clear()
        web = pki.load(f"{CLIENTS}, client_allowed_sans: [a.example]}}\n{users}")
        path = pki.write(text)
        for _ in range(2):
            assert web.ssl_context()
            assert not web.allows(None)
            assert not web.peer_allowed({})
        assert errors(caplog) == [f"{path}: {key}: would be switched off; restart the exporter if that is wanted"]


def test_modules_are_needed_only_by_files_that_use_them(pki: Pki) -> None:
    script = """
import sys
blocked, *paths = sys.argv[1:]
sys.modules.update(dict.fromkeys(blocked.split(",")))  # None: importing it raises ImportError
from virtscope.toolkit.document import DocumentError
from virtscope.toolkit.webconfig import WebConfig
for path in paths:
    try:
        WebConfig(path)
        print("loaded")
    except DocumentError as error:
        print(str(error).rpartition(": ")[2])
"""
    (pki.folder / "http2.yml").write_text("http_server_config: {http2: true}")
    paths = [str(pki.folder / "http2.yml"), pki.write(f"basic_auth_users: {{alice: {ALICES_HASH}}}")]
    for blocked, said in (("bcrypt", ["loaded", "python3-bcrypt)"]), ("yaml,bcrypt", ["python3-yaml)"] * 2)):
        command = [sys.executable, "-c", script, blocked, *paths]
        environment = {**os.environ, "PYTHONPATH": str(EXPORTERS)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert run.stdout.splitlines() == said


def test_client_certificates_are_required_or_verified_if_given(pki: Pki) -> None:
    """Of an intermediate CA too, which may be trusted alone."""
    ours, foreign, below = (ca.issue_cert("prometheus.example") for ca in (pki.ca, pki.foreign_ca, pki.intermediate))
    intermediate = f"{CLIENTS}}}".replace("ca.pem", "intermediate.pem")
    if_given = f"{TLS}, client_ca_file: ca.pem, client_auth_type: VerifyClientCertIfGiven}}"
    keys = {"cert": "server.pem", "key": "server.key", "client_ca": "ca.pem"}
    inline = "".join(f"  {key}: {pki.inline(name)}\n" for key, name in keys.items())
    inline = f"tls_server_config:\n{inline}  client_auth_type: RequireAndVerifyClientCert\n"
    for text, good, bad in (
        (f"{CLIENTS}}}", [ours], [foreign, None]),
        (inline, [ours], [foreign, None]),
        (if_given, [ours, None], [foreign]),
        (intermediate, [below], [ours, None]),
    ):
        web = pki.load(text)
        assert {connect(web, pki.client(each)).word for each in good} == {"welcome"}
        for each in bad:
            with pytest.raises(OSError, match=r"(?i)unknown.ca" if each else r"(?i)certificate"):
                connect(web, pki.client(each))


def test_client_must_have_an_allowed_name(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}, client_allowed_sans: [prometheus.example, 10.0.0.1, '2001:db8::1', ops@example.org]}}")
    for allowed in ("prometheus.example", "10.0.0.1", "2001:db8::1", "ops@example.org"):
        assert connect(web, pki.client(pki.ca.issue_cert(allowed))).word == "welcome", allowed
    for other in ("grafana.example", "sub.prometheus.example", "10.0.0.2"):
        assert connect(web, pki.client(pki.ca.issue_cert(other))).word == "go away", other
    invalid = ("IP Address", "<invalid>")
    for certificate in (None, {}, {"subjectAltName": (invalid,)}):
        assert not web.peer_allowed(certificate)
    assert web.peer_allowed({"subjectAltName": (invalid, ("IP Address", "10.0.0.1"))})
    uris = pki.load(f"{CLIENTS}, client_allowed_sans: ['spiffe://example.org/prometheus']}}")
    assert uris.peer_allowed({"subjectAltName": (("URI", "spiffe://example.org/prometheus"),)})
    assert not uris.peer_allowed({"subjectAltName": (("URI", "spiffe://example.org/grafana"),)})
    assert pki.load(f"{CLIENTS}}}").peer_allowed({}), "without allowed names everyone may go on"


def tls12_client(pki: Pki, *ciphers: str) -> ssl.SSLContext:
    """A client that offers no newer version, and only these suites."""
    client = pki.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    if ciphers:
        client.set_ciphers(":".join(ciphers))
    return client


def test_lowest_version_is_tls12_unless_raised_and_the_highest_can_be_lowered(pki: Pki) -> None:
    assert connect(pki.load(f"{TLS}}}"), tls12_client(pki)).version == "TLSv1.2"
    with pytest.raises(OSError, match=r"(?i)version"):
        connect(pki.load(f"{TLS}, min_version: TLS13}}"), tls12_client(pki))
    context = pki.load(f"{TLS}}}").ssl_context()
    assert context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert connect(pki.load(f"{TLS}, max_version: TLS12}}"), pki.client()).version == "TLSv1.2"


def test_cipher_suites_bind_tls12_in_the_order_of_the_side_that_is_preferred(pki: Pki) -> None:
    aes128, aes256 = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
    other = "ECDHE-ECDSA-CHACHA20-POLY1305"
    suites = "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]"
    for prefers_server, chosen in (("true", aes256), ("false", aes128)):
        web = pki.load(f"{TLS}, prefer_server_cipher_suites: {prefers_server}, {suites}}}")
        assert connect(web, tls12_client(pki, other, aes128, aes256)).cipher == chosen
    with pytest.raises(OSError, match=r"(?i)handshake"):
        connect(web, tls12_client(pki, other))
    assert connect(web, pki.client()).version == "TLSv1.3"
    tls13 = pki.load(f"{TLS}, cipher_suites: [TLS_AES_128_GCM_SHA256]}}")  # only TLS 1.3 suites imply TLS 1.3
    assert connect(tls13, pki.client()).version == "TLSv1.3"
    with pytest.raises(OSError, match=r"(?i)version"):
        connect(tls13, tls12_client(pki))
    for suite, name in CIPHER_SUITES.items():
        context = pki.load(f"{TLS}, cipher_suites: [{suite}]}}").ssl_context()
        assert context
        offered = [str(cipher["name"]) for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
        assert offered == [name], "OpenSSL knows it"


def test_curve_binds(pki: Pki) -> None:
    client = pki.client()
    for curve, name in {"CurveP384": "secp384r1", "CurveP521": "secp521r1"}.items():
        web = pki.load(f"{TLS}, curve_preferences: [{curve}]}}")
        client.set_ecdh_curve(name)
        assert connect(web, client).word == "welcome"
        client.set_ecdh_curve("prime256v1")
        with pytest.raises(OSError, match=r"(?i)handshake"):
            connect(web, client)

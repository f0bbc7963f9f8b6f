"""TLS: which clients are accepted, and on what terms."""

from __future__ import annotations

import os
import ssl

import pytest

from tests.unit.toolkit.webconfig.pki import CLIENTS, TLS, Pki, connect
from virtscope.toolkit import memory
from virtscope.toolkit.webconfig import WebConfig, WebConfigError
from virtscope.toolkit.webconfig.tls import CIPHER_SUITES


def test_tls_serves_http1_to_clients_that_would_speak_http2_and_paths_are_relative_to_the_file_or_absolute(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pki.client()
    client.set_alpn_protocols(["h2", "http/1.1"])
    pki.write(f"tls_server_config: {{cert_file: {pki.folder}/server.pem, key_file: ../etc/server.key}}")
    monkeypatch.chdir(pki.folder.parent)
    answer = connect(WebConfig.load("etc/web.yml"), client)
    assert (answer.word, answer.version, answer.alpn) == ("welcome", "TLSv1.3", "http/1.1")


def test_a_python_for_an_old_c_library_has_tls(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle's is built for glibc 2.17, which has no memfd_create."""
    monkeypatch.delattr(os, "memfd_create")
    assert connect(pki.load(f"{TLS}}}"), pki.client()).word == "welcome"
    monkeypatch.setattr(memory, "SHARED_MEMORY", str(pki.folder / "missing"))
    with pytest.raises(
        WebConfigError, match=r"cannot be handed to OpenSSL: there is neither memfd_create nor a .*/missing"
    ):
        pki.load(f"{TLS}}}")


def test_client_certificates_are_required_or_verified_if_given(pki: Pki) -> None:
    ours, foreign = (ca.issue_cert("prometheus.example") for ca in (pki.ca, pki.foreign_ca))
    if_given = f"{TLS}, client_ca_file: ca.pem, client_auth_type: VerifyClientCertIfGiven}}"
    keys = {"cert": "server.pem", "key": "server.key", "client_ca": "ca.pem"}
    inline = "".join(f"  {key}: {pki.inline(name)}\n" for key, name in keys.items())
    inline = f"tls_server_config:\n{inline}  client_auth_type: RequireAndVerifyClientCert\n"
    for text, required in ((f"{CLIENTS}}}", True), (inline, True), (if_given, False)):
        web = pki.load(text)
        assert connect(web, pki.client(ours)).word == "welcome"
        with pytest.raises(OSError, match=r"(?i)unknown.ca"):
            connect(web, pki.client(foreign))
        if required:
            with pytest.raises(OSError, match=r"(?i)certificate"):
                connect(web, pki.client())
        else:
            assert connect(web, pki.client()).word == "welcome"


def test_an_intermediate_ca_can_be_trusted_alone(pki: Pki) -> None:
    web = pki.load(f"{CLIENTS}}}".replace("ca.pem", "intermediate.pem"))
    assert connect(web, pki.client(pki.intermediate.issue_cert("prometheus.example"))).word == "welcome"
    with pytest.raises(OSError, match=r"(?i)unknown.ca"):
        connect(web, pki.client(pki.ca.issue_cert("prometheus.example")))


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
    """A client that offers no newer version, and these suites alone."""
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
    tls13 = pki.load(f"{TLS}, cipher_suites: [TLS_AES_128_GCM_SHA256]}}")  # which alone mean TLS 1.3 alone
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

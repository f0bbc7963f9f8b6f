"""What a change of the files does while an exporter runs, headers, and what a host must have installed."""

from __future__ import annotations

import logging
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.toolkit.webconfig.pki import ALICES_HASH, ALICES_PASSWORD, CLIENTS, TLS, Pki, basic, connect
from virtscope.toolkit.webconfig.tls import not_after

EXPORTERS = Path(__file__).resolve().parents[4] / "exporters"


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the `err` field of the error lines so far."""
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
        # Now as certbot has it: live/NAME/fullchain.pem leads to archive/NAME/fullchainN.pem.
        for name in ("server.pem", "server.key"):
            (pki.folder / name).rename(pki.folder / f"1-{name}")
            (pki.folder / name).symlink_to(f"1-{name}")


def test_when_the_first_certificate_of_the_chain_expires_is_known(pki: Pki) -> None:
    """Dates before 2050 and after it are of two kinds."""
    ends = [datetime(2049, 12, 31, 23, 59, 58, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)]
    leaf, later = (pki.ca.issue_cert("localhost", not_after=end) for end in ends)
    pki.replace("server.key", leaf.private_key_pem.bytes())
    pki.replace("server.pem", b"a comment\n" + b"".join(each.cert_chain_pems[0].bytes() for each in (leaf, later)))
    web = pki.load(f"{TLS}}}")
    assert web.certificate_not_after() == ends[0].timestamp()
    pki.replace("server.key", later.private_key_pem.bytes())
    pki.replace("server.pem", later.cert_chain_pems[0].bytes())
    assert web.certificate_not_after() == ends[1].timestamp()


def test_a_certificate_without_a_date_that_can_be_read_costs_only_the_date() -> None:
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
    assert "tls_server_config.cert_file: holds no valid certificate" in malformed
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
from virtscope.toolkit.webconfig import WebConfig, WebConfigError
for path in paths:
    try:
        WebConfig.load(path)
        print("loaded")
    except WebConfigError as error:
        print(error)
"""
    (pki.folder / "http2.yml").write_text("http_server_config: {http2: true}")
    users = pki.write(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    no_bcrypt = "checking passwords needs the bcrypt module; install it (Debian: python3-bcrypt)"
    for blocked, said in (
        ("bcrypt", ["loaded", f"{users}: basic_auth_users: {no_bcrypt}"]),
        ("yaml,bcrypt", ["{}: reading it needs PyYAML; install it (Debian: python3-yaml)"] * 2),
    ):
        paths = [str(pki.folder / "http2.yml"), users]
        command = [sys.executable, "-c", script, blocked, *paths]
        environment = {**os.environ, "PYTHONPATH": str(EXPORTERS)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert run.stdout.splitlines() == [line.format(path) for line, path in zip(said, paths, strict=True)]

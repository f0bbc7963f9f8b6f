"""Secrets kept by `make up` aren't readable for other users of the machine."""

import os
import stat
from pathlib import Path

import pytest

from deploy import grafana
from deploy.parts import GRAFANA, PROMETHEUS


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(autouse=True)
def _umask() -> None:
    os.umask(0o022)  # as `make up` sets it


def test_grafana_s_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = tmp_path / "secrets" / "password"
    monkeypatch.setattr(grafana, "PASSWORD_FILE", password)
    grafana.make_password()
    made = password.read_text()
    grafana.make_password()
    assert (len(made) >= 32, mode(password.parent), password.read_text()) == (True, 0o700, made)


def test_grafana_asks_for_a_password_and_shows_in_no_frame() -> None:
    settings = grafana.environment({GRAFANA.name: 3000, PROMETHEUS.name: 9090})
    assert not [name for name in settings if "ANONYMOUS" in name or "EMBEDDING" in name or "PROXY" in name]
    assert settings["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert settings["GF_SECURITY_ADMIN_PASSWORD"].startswith("$__file{"), "not the password: programs see each other's"

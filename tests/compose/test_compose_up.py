"""`make compose-up`: what it tells compose.yaml of the machine, and what it says where there is no Docker."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tools import compose
from tools.targets import Machine

CHECKOUT = Path(__file__).resolve().parents[2]
DOM0 = Machine("xen1", "xen", "for the test")
OPENVZ = Machine("vz1", "openvz", "for the test")
BASE = Machine("server1", "base", "for the test")


def test_dom0_gets_the_xen_exporter_built_from_its_own_release(monkeypatch: pytest.MonkeyPatch) -> None:
    system = {"ID": "debian", "VERSION_CODENAME": "trixie"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    assert compose.environment(DOM0, {}) == {"COMPOSE_PROFILES": "xen,perf", "DEBIAN_RELEASE": "trixie"}


def test_another_dom0_gets_the_default_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "opensuse-leap"})
    assert compose.environment(DOM0, {}) == {"COMPOSE_PROFILES": "xen,perf"}


def test_an_openvz_host_gets_the_openvz_exporter() -> None:
    assert compose.environment(OPENVZ, {}) == {"COMPOSE_PROFILES": "openvz,perf"}


def test_elsewhere_no_platform_is_added() -> None:
    given = {"PROMETHEUS_PORT": "19090"}
    assert compose.environment(BASE, given) == {**given, "COMPOSE_PROFILES": "perf"}


def test_what_the_user_says_counts() -> None:
    given = {"COMPOSE_PROFILES": "", "DEBIAN_RELEASE": "bookworm"}
    assert compose.environment(DOM0, given) == given


def test_without_compose_it_says_what_is_missing(tmp_path: Path) -> None:
    result = run("up", PATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "error: Docker with its Compose plugin is needed: https://docs.docker.com/engine/install/"
    ]


def test_docker_that_does_not_answer_costs_one_line(tmp_path: Path) -> None:
    for name in ("docker", "docker-compose"):
        fake = tmp_path / name
        fake.write_text(
            "#!/bin/sh\necho 'Traceback (most recent call last):' >&2\necho 'no engine there' >&2\nexit 1\n"
        )
        fake.chmod(0o755)
    result = run("up", PATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "error: Docker does not answer; is it running, and may you use it? (no engine there)"
    ]


def run(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.compose", command],
        cwd=CHECKOUT,
        env={**os.environ, **variables},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

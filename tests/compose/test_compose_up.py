"""`make compose-up` and `compose-demo`: what they pass to Docker about the machine, and their errors."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tools import StackError, compose, grafana, parts, targets
from tools.targets import Machine

CHECKOUT = Path(__file__).resolve().parents[2]
DOM0 = Machine("xen1", "xen", "for the test")
OPENVZ = Machine("vz1", "openvz", "for the test")
BASE = Machine("server1", "base", "for the test")


def test_dom0_gets_the_xen_exporter_built_from_its_own_release(monkeypatch: pytest.MonkeyPatch) -> None:
    system = {"ID": "debian", "VERSION_CODENAME": "trixie"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    assert compose.environment(DOM0, {}, 23) == {"COMPOSE_PROFILES": "xen,perf,sched", "DEBIAN_RELEASE": "trixie"}


def test_another_dom0_gets_the_default_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "opensuse-leap"})
    assert compose.environment(DOM0, {}, 23) == {"COMPOSE_PROFILES": "xen,perf,sched"}


def test_an_openvz_host_gets_the_openvz_exporter() -> None:
    assert compose.environment(OPENVZ, {}, 23) == {"COMPOSE_PROFILES": "openvz,perf,sched"}


def test_elsewhere_no_platform_is_added() -> None:
    given = {"PROMETHEUS_PORT": "19090"}
    assert compose.environment(BASE, given, 23) == {**given, "COMPOSE_PROFILES": "perf,sched"}


def test_docker_that_knows_no_perfmon_is_given_no_container_with_it() -> None:
    assert compose.environment(OPENVZ, {}, 22) == {"COMPOSE_PROFILES": "openvz"}
    assert compose.environment(BASE, {}, 20) == {"COMPOSE_PROFILES": ""}


def test_what_the_user_says_counts() -> None:
    given = {"COMPOSE_PROFILES": "", "DEBIAN_RELEASE": "bookworm"}
    assert compose.environment(DOM0, given, 20) == given


def test_without_compose_it_says_what_is_missing(tmp_path: Path) -> None:
    result = run("up", PATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "error: Docker with its Compose plugin is needed: https://docs.docker.com/engine/install/"
    ]


def test_docker_that_does_not_answer_is_reported_in_one_line(tmp_path: Path) -> None:
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


class Docker:
    """A Docker that starts nothing, logs its commands, and says that these services are running.

    The one that the variable RECREATES names is another container after `up`.
    """

    def __init__(self, folder: Path, *running: str) -> None:
        services = folder / "running"
        services.write_text("".join(f"{name}\n" for name in running))
        self._log = folder / "log"
        self._log.touch()
        program = folder / "docker"
        program.write_text(
            f"""#!/bin/bash
case "$*" in
  version*) echo ${{ENGINE:-28.1.0}} ;;
  "compose version") ;;
  "compose ps --quiet") cat {services} ;;
  "compose ps --quiet $RECREATES") [[ -e {self._log}.up ]] && echo "another $RECREATES" || echo "$RECREATES" ;;
  "compose ps --quiet "*) shift 3; grep --fixed-strings --line-regexp "${{@/#/-e}}" {services} || true ;;
  *)
    echo "$COMPOSE_PROFILES: $*" >>{self._log}
    [[ "$*" != *" down "* ]] || : >{services}
    [[ "$*" != *" up "* ]] || : >{self._log}.up
    [[ -z "$FAILS" || "$*" != *" up "* ]] ;;
esac
"""
        )
        program.chmod(0o755)

    @property
    def commands(self) -> list[str]:
        """The commands it was given: the profiles, and the words after `docker`."""
        return self._log.read_text().splitlines()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Docker]:
    """Makes one, with these services running, on ports that are free; nothing is written into the checkout."""
    monkeypatch.setattr(targets, "write", lambda *_: None)
    monkeypatch.setattr(grafana, "make_password", lambda: None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("COMPOSE_PROFILES", "")
    for part in {*parts.DOCKER_PARTS, *parts.DEMO_PARTS}:
        monkeypatch.setenv(part.port_variable, str(free_port()))
    return lambda *running: Docker(tmp_path, *running)


DOWN = f"{compose.PROFILES}: compose down --remove-orphans"
UP = ": compose up --detach --build --remove-orphans"
DEMO = "demo: compose up --detach --build " + " ".join([*compose.DEMO_SERVICES, "grafana"])


def test_the_stack_takes_the_demo_s_place(docker: Callable[..., Docker]) -> None:
    engine = docker("demo-prometheus", "grafana")
    compose.up()
    assert engine.commands == [DOWN, UP]


def test_what_goes_on_reads_its_files_again(docker: Callable[..., Docker]) -> None:
    """Rewritten rules, an edited receiver, a new sensor: compose sees none of these change."""
    engine = docker("prometheus", "alertmanager", "telegraf", "grafana")
    compose.up()
    assert engine.commands == [UP, ": compose kill -s SIGHUP prometheus alertmanager telegraf"]


def test_an_old_docker_is_named_beside_what_it_can_t_run(
    docker: Callable[..., Docker], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docker()
    monkeypatch.setenv("ENGINE", "20.10.24")
    monkeypatch.delenv("COMPOSE_PROFILES")
    compose.up()
    assert "Without perf-exporter and sched-exporter: Docker 23 or newer is needed; this is Docker 20." in (
        capsys.readouterr().out
    )


def test_what_isn_t_running_or_has_just_been_started_gets_no_signal(
    docker: Callable[..., Docker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal would end it."""
    monkeypatch.setenv("RECREATES", "prometheus")
    engine = docker("prometheus", "alertmanager", "grafana")
    compose.up()
    assert engine.commands == [UP, ": compose kill -s SIGHUP alertmanager"]


def test_the_first_start_sends_no_signal(docker: Callable[..., Docker]) -> None:
    engine = docker()
    compose.up()
    assert engine.commands == [UP]


def test_the_demo_does_not_take_the_stack_s_place(docker: Callable[..., Docker]) -> None:
    engine = docker("prometheus", "grafana")
    with pytest.raises(StackError, match="the stack is running on the demo's ports: make compose-down first"):
        compose.demo()
    assert engine.commands == []


def test_the_demo_starts_over(docker: Callable[..., Docker]) -> None:
    engine = docker("demo-history", "grafana")
    compose.demo()
    assert engine.commands == [DOWN, DEMO]


def test_a_demo_that_fails_says_why_and_leaves_nothing(
    docker: Callable[..., Docker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "1")
    engine = docker()
    with pytest.raises(StackError, match="failed with status 1"):
        compose.demo()
    assert engine.commands == [DEMO, "demo: compose logs --no-color demo-history", DOWN]


def test_a_port_that_is_taken_is_named_before_anything_starts(
    docker: Callable[..., Docker], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = docker()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("DEMO_PORT", str(port))
        message = f"demo-sensors needs port {port}, .* e.g. make compose-demo DEMO_PORT="
        with pytest.raises(StackError, match=message):
            compose.demo()
    assert engine.commands == []


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

"""`make compose-up` and `compose-demo`: what they tell Docker about the machine, and their errors."""

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import StackError, compose, configuration, grafana, parts, targets
from deploy.targets import Machine
from tests.compose.compose_file import CHECKOUT
from tests.support.ports import free_port


def test_each_machine_gets_its_own_exporters_built_from_its_own_release(monkeypatch: pytest.MonkeyPatch) -> None:
    trixie, suse = {"ID": "debian", "VERSION_CODENAME": "trixie"}, {"ID": "opensuse-leap"}
    noble = {"ID": "ubuntu", "VERSION_CODENAME": "noble"}  # the image is based on Debian
    port = {"PROMETHEUS_PORT": "19090"}
    given = {"COMPOSE_PROFILES": "", "DEBIAN_RELEASE": "bookworm"}
    for machine, system, environment, docker, passed in (
        ("xen", trixie, {}, 23, {"COMPOSE_PROFILES": "xen,perf,sched", "DEBIAN_RELEASE": "trixie"}),
        ("xen", suse, {}, 23, {"COMPOSE_PROFILES": "xen,perf,sched"}),
        ("xen", noble, {}, 23, {"COMPOSE_PROFILES": "xen,perf,sched"}),
        ("openvz", trixie, {}, 23, {"COMPOSE_PROFILES": "openvz,perf,sched"}),
        ("base", trixie, port, 23, {**port, "COMPOSE_PROFILES": "perf,sched"}),
        ("openvz", trixie, {}, 22, {"COMPOSE_PROFILES": "openvz"}),  # Docker without CAP_PERFMON
        ("xen", trixie, given, 20, given),  # the user's setting wins
    ):
        monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)  # noqa: B023
        assert compose.environment(Machine("host1", machine, "for the test"), environment, docker) == passed


def test_without_docker_or_its_answer_that_is_said_in_one_line(tmp_path: Path) -> None:
    def error() -> str:
        command = [sys.executable, "-m", "deploy.compose", "up"]
        environment = {**os.environ, "PATH": str(tmp_path)}
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment, check=False, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        return done.stderr

    install = "https://docs.docker.com/engine/install/"
    assert error() == f"error: Docker with its Compose plugin is needed: {install}\n"
    for name in ("docker", "docker-compose"):
        fake = tmp_path / name
        fake.write_text("#!/bin/sh\necho 'Traceback (most recent call last):' >&2\necho 'no engine' >&2\nexit 1\n")
        fake.chmod(0o755)
    assert error() == "error: Docker does not answer; is it running, and may you use it? (no engine)\n"


# Starts nothing and logs its commands. Reports the services listed in the file `running` as running. RECREATES names a
# service whose container is replaced by `up`.
DOCKER = """#!/bin/bash
cd "$(dirname "$0")"
case "$*" in
  version*) echo ${ENGINE:-28.1.0} ;;
  "compose version") ;;
  "compose ps --quiet") cat running ;;
  "compose ps --quiet $RECREATES") [[ -e up ]] && echo "another $RECREATES" || echo "$RECREATES" ;;
  "compose ps --quiet "*) shift 3; grep --fixed-strings --line-regexp "${@/#/-e}" running || true ;;
  *)
    echo "$COMPOSE_PROFILES: $*" >>log
    [[ "$*" != *" down "* ]] || : >running
    [[ "$*" != *" up "* ]] || : >up
    [[ -z "$FAILS" || "$*" != *" up "* ]] ;;
esac
"""


class Docker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "log").touch()
        self.run()
        (folder / "docker").write_text(DOCKER)
        (folder / "docker").chmod(0o755)

    def run(self, *services: str) -> None:
        (self._folder / "running").write_text("".join(f"{name}\n" for name in services))

    @property
    def commands(self) -> list[str]:
        """The commands it received: profiles, and the words after `docker`."""
        return (self._folder / "log").read_text().splitlines()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """A Docker without running containers, and free ports; the checkout isn't written to."""
    monkeypatch.setattr(targets, "write", lambda *_: None)
    monkeypatch.setattr(grafana, "make_password", lambda: None)
    for name in ("write", "take"):
        monkeypatch.setattr(configuration, name, lambda: None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("COMPOSE_PROFILES", "")
    for part in {*parts.DOCKER_PARTS, *parts.DEMO_PARTS}:
        monkeypatch.setenv(part.port_variable, str(free_port()))
    return Docker(tmp_path)


DOWN = f"{compose.PROFILES}: compose down --remove-orphans"
UP = ": compose up --detach --build --remove-orphans"
DEMO = "demo: compose up --detach --build " + " ".join([*compose.DEMO_SERVICES, "grafana"])
RELOAD = ": compose kill -s SIGHUP "


CASES = {  # command, running services, services that `up` restarts; expected Docker commands
    "the stack takes the demo's place": ("up", "demo-prometheus grafana", "", [DOWN, UP]),
    # compose doesn't notice rewritten rules, an edited receiver or a new sensor.
    "what goes on reads its files again":
        ("up", "prometheus alertmanager telegraf grafana", "", [UP, f"{RELOAD}prometheus alertmanager telegraf"]),
    # The signal would end it.
    "what has just been started gets no signal":
        ("up", "prometheus alertmanager grafana", "prometheus", [UP, f"{RELOAD}alertmanager"]),
    "the first start sends no signal": ("up", "", "", [UP]),
    "the demo starts over": ("demo", "demo-history grafana", "", [DOWN, DEMO]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_docker_is_asked_to_do(docker: Docker, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    command, running, recreates, commands = CASES[case]
    monkeypatch.setenv("RECREATES", recreates)
    docker.run(*running.split())
    {"up": compose.up, "demo": compose.demo}[command]()
    assert docker.commands == commands


@pytest.mark.usefixtures("docker")
def test_an_old_docker_is_named_beside_what_it_can_t_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINE", "20.10.24")
    monkeypatch.delenv("COMPOSE_PROFILES")
    compose.up()
    said = "Without perf-exporter and sched-exporter: Docker 23 or newer is needed; this is Docker 20."
    assert said in capsys.readouterr().out


def test_the_demo_does_not_take_the_stack_s_place_nor_its_ports(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.run("prometheus", "grafana")
    with pytest.raises(StackError, match="the stack is running on the demo's ports: make compose-down first"):
        compose.demo()
    docker.run()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("DEMO_PORT", str(port := taken.getsockname()[1]))
        with pytest.raises(StackError, match=f"demo-sensors needs port {port}, .* e.g. make compose-demo DEMO_PORT="):
            compose.demo()
    assert docker.commands == []


def test_a_demo_that_fails_says_why_and_leaves_nothing(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(StackError, match="failed with status 1"):
        compose.demo()
    assert docker.commands == [DEMO, "demo: compose logs --no-color demo-history", DOWN]

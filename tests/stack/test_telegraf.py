"""Telegraf as a part of the stack: it comes with the first sensor, reads what changes, and goes with the last one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.stack.conftest import CACHE, Checkout, eventually
from tests.stack.go import Go
from tests.support.program import program_path
from tools import health

pytestmark = pytest.mark.timeout(1800)  # where Telegraf isn't in the cache, it is built first

LOG = "log/requests"  # in the checkout
SENSOR = """
[[inputs.file]]
  files = ["LOG"]
  data_format = "value"
  data_type = "integer"
  name_override = "NAME"
""".replace("LOG", LOG)


@pytest.fixture(scope="module")
def built() -> Path:
    """The real Telegraf."""
    return program_path("telegraf")


@pytest.fixture
def sensor(checkout: Checkout) -> Iterator[Path]:
    """Where a sensor can be put, and its log, which only its owner and the group adm may read, as on Debian."""
    log = checkout.folder / LOG
    log.parent.mkdir(exist_ok=True)
    log.write_text("7\n")
    if os.geteuid() == 0:
        for path in (log, log.parent):
            shutil.chown(path, group="adm")
    log.parent.chmod(0o750)
    log.chmod(0o640)
    folder = checkout.folder / "telegraf" / "local"
    folder.mkdir(exist_ok=True)
    yield folder / "requests.conf"
    shutil.rmtree(folder)


def row(checkout: Checkout, **environment: str) -> str:
    """What `make status` says of Telegraf."""
    found = re.search(r"^telegraf +(.*)$", checkout.make("status", **environment).stdout, re.MULTILINE)
    assert found is not None
    return found[1]


def addresses(checkout: Checkout) -> list[str]:
    """The stack's own Telegraf in Prometheus's targets."""
    file = checkout.folder / "prometheus" / "targets" / "local" / "telegraf.yml"
    return [address for group in yaml.safe_load(file.read_text()) for address in group["targets"]]


def is_scraped(checkout: Checkout) -> bool:
    """Whether Prometheus gets its samples, now: what it has recorded may be an earlier test's."""
    return any(target.up for target in health.targets(checkout.ports["PROMETHEUS_PORT"]) if target.job == "telegraf")


def up(checkout: Checkout, **environment: str) -> str:
    """What `make up` says; it must succeed."""
    made = checkout.make("up", **environment)
    assert made.returncode == 0, made.stdout
    return made.stdout


def test_without_a_sensor_it_is_not_used(running: Checkout) -> None:
    assert row(running).startswith("not used")
    assert "no sensor in telegraf/local: see docs/" in row(running)
    assert addresses(running) == []


def test_it_comes_and_goes_with_the_sensors(built: Path, running: Checkout, sensor: Path) -> None:
    assert built.is_file()
    sensor.write_text(SENSOR.replace("NAME", "requests"))
    supervisor = running.pid("supervisor.supervisord")
    assert running.url("TELEGRAF_PORT") in up(running)
    assert running.pid("supervisor.supervisord") == supervisor  # the rest of the stack went on
    assert row(running).startswith("running")
    assert addresses(running) == [f"127.0.0.1:{running.ports['TELEGRAF_PORT']}"]
    assert eventually(lambda: [series["value"][1] for series in running.query("requests")] == ["7"])

    pid = running.pid("bin/telegraf ")
    sensor.write_text(SENSOR.replace("NAME", "changed"))
    up(running)
    assert eventually(lambda: running.query("changed") != [])
    assert running.pid("bin/telegraf ") == pid

    sensor.unlink()
    up(running)
    assert row(running).startswith("not used")
    assert addresses(running) == []
    assert not any("bin/telegraf " in command for command in running.processes().values())


def test_it_may_read_logs_and_nothing_else_that_nobody_may_not(built: Path, running: Checkout, sensor: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's stack has another user: run this as root")
    assert built.is_file()
    sensor.write_text(SENSOR.replace("NAME", "requests"))
    up(running)
    status = Path("/proc", str(running.pid("bin/telegraf ")), "status").read_text()
    facts = dict(line.split(":", 1) for line in status.splitlines())
    assert "0" not in facts["Uid"].split()
    assert facts["Groups"].split() == [str((running.folder / LOG).stat().st_gid)]
    assert int(facts["CapPrm"], 16) == int(facts["CapAmb"], 16) == int(facts["CapBnd"], 16) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[inputs.file]\n", "invalid TOML"),
        ('[[inputs.file]]\n  flies = ["/tmp/x"]\n  data_format = "value"\n', "flies"),
        ("[[inputs.cpu]]\n", "only the plugins that telegraf/sensors use"),
    ],
)
def test_a_broken_sensor_is_named_and_the_stack_goes_on(
    built: Path, running: Checkout, sensor: Path, text: str, said: str
) -> None:
    assert built.is_file()
    before = running.pid("bin/prometheus ")
    sensor.with_name("broken.conf").write_text(text)
    made = running.make("up")
    assert made.returncode != 0
    [error] = [line for line in made.stdout.splitlines() if line.startswith("error: ")]
    assert "telegraf/local/broken.conf" in error
    assert said in error
    assert running.pid("bin/prometheus ") == before


def test_a_taken_port_is_reported_before_the_first_sensor_is_read(running: Checkout, sensor: Path) -> None:
    """Another's answer on it would pass for Telegraf's."""
    sensor.write_text("[[inputs.internal]]\n")
    with socket.create_server(("127.0.0.1", running.ports["TELEGRAF_PORT"])):
        made = running.make("up")
    assert made.returncode != 0
    assert f"telegraf needs port {running.ports['TELEGRAF_PORT']}, which" in made.stdout
    assert running.make("status").returncode != 0


def test_it_is_built_beside_the_running_stack(built: Path, stopped: Checkout, sensor: Path, tmp_path: Path) -> None:
    go, cache = go_without_telegraf(stopped, tmp_path, built)
    sensor.write_text("[[inputs.internal]]\n")
    said = up(stopped, **cache)
    assert "telegraf" in said
    assert "is on its way" in said
    assert eventually(lambda: go.builds() != [])
    assert re.match(r"on its way, \d+ min so far ", row(stopped, **cache))
    assert eventually(lambda: stopped.make("status", **cache).returncode == 0)  # nothing is wrong
    assert addresses(stopped) == []  # or a build of minutes would be an alert
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities(go) == {min(own + 10, 19)}
    assert os.getpriority(os.PRIO_PROCESS, stopped.pid("tools.telegraf")) == own

    assert up(stopped, **cache)  # again, meanwhile: it goes on
    assert len(go.builds()) == 1
    go.go_on()
    assert eventually(lambda: is_scraped(stopped))  # by itself
    assert row(stopped, **cache).startswith("running")
    assert len(go.builds()) == 1


def test_a_failed_build_is_reported_and_waits_for_the_next_up(
    built: Path, stopped: Checkout, sensor: Path, tmp_path: Path
) -> None:
    go, cache = go_without_telegraf(stopped, tmp_path, built)
    go.go_on("telegraf.go:7: a line that doesn't compile\n")
    sensor.write_text("[[inputs.internal]]\n")
    up(stopped, **cache)
    assert eventually(lambda: row(stopped, **cache).startswith("missing"))
    assert "telegraf.go:7: a line that doesn't compile; to try again: make up" in row(stopped, **cache)
    assert stopped.make("status", **cache).returncode != 0
    assert eventually(lambda: stopped.query('up{job="node"} == 1') != [])  # the rest is unmoved
    time.sleep(3)  # longer than supervisord waits before it starts a program again
    assert len(go.builds()) == 1
    go.go_on()
    up(stopped, **cache)
    assert eventually(lambda: is_scraped(stopped))
    assert len(go.builds()) == 2


def test_down_ends_a_build(built: Path, stopped: Checkout, sensor: Path, tmp_path: Path) -> None:
    go, cache = go_without_telegraf(stopped, tmp_path, built)
    sensor.write_text("[[inputs.internal]]\n")
    up(stopped, **cache)
    assert eventually(lambda: processes_of(go) != {})
    assert stopped.make("down", **cache).returncode == 0
    assert stopped.processes() == {}
    assert eventually(lambda: processes_of(go) == {})


def go_without_telegraf(checkout: Checkout, folder: Path, telegraf: Path) -> tuple[Go, dict[str, str]]:
    """A Go that builds nothing before the test lets it, and what `make` has to be given to use it."""
    shutil.rmtree(checkout.folder / ".stack" / "programs" / "telegraf", ignore_errors=True)
    go = Go(folder, {"telegraf": telegraf})
    for name in ("packages", "wheels"):
        (go.cache / name).symlink_to(CACHE / name)
    return go, {"VIRTSCOPE_CACHE": str(go.cache)}


def priorities(go: Go) -> set[int]:
    """Those of the builds that are running."""
    found = set()
    for pid in processes_of(go):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            found.add(os.getpriority(os.PRIO_PROCESS, pid))
    return found


def processes_of(go: Go) -> dict[int, str]:
    """The builds that are running: command line by pid."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(go.cache) in command:
            found[int(process.name)] = command
    return found

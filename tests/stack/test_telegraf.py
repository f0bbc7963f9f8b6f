"""Telegraf as part of the stack: it starts with the first sensor, reloads on changes, and stops after the last one."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy import health
from tests.stack.conftest import CACHE, Checkout, assert_failed
from tests.stack.go import Go
from tests.support.program import program_path
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # builds Telegraf first if it isn't cached

LOG = "log/requests"  # in the checkout
SENSOR = f"""
[[inputs.file]]
  files = ["{LOG}"]
  data_format = "value"
  data_type = "integer"
  name_override = "NAME"
"""
NO_LOG = "[[inputs.internal]]\n"


@pytest.fixture(scope="module")
def built() -> Path:
    return program_path("telegraf")


@pytest.fixture
def sensor(checkout: Checkout) -> Iterator[Path]:
    """A folder for a sensor, and its log, only readable by its owner and the group adm, as on Debian."""
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


@pytest.fixture
def go(built: Path, stopped: Checkout, sensor: Path, tmp_path: Path) -> Iterator[Go]:
    """A stand-in for Go whose builds the test releases, for a checkout with a sensor and without Telegraf."""
    shutil.rmtree(stopped.folder / ".stack" / "programs" / "telegraf", ignore_errors=True)
    go = Go(tmp_path, {"telegraf": built})
    for name in ("packages", "wheels"):
        (go.cache / name).symlink_to(CACHE / name)
    sensor.write_text(NO_LOG)
    before = dict(stopped.environment)
    stopped.environment["VIRTSCOPE_CACHE"] = str(go.cache)
    yield go
    stopped.must("down")
    stopped.environment = before


def row(checkout: Checkout) -> str:
    found = re.search(r"^telegraf +(.*)$", checkout.make("status").stdout, re.MULTILINE)
    assert found is not None
    return found[1]


def addresses(checkout: Checkout) -> list[str]:
    """The stack's own Telegraf in Prometheus's targets."""
    file = checkout.folder / "prometheus" / "targets" / "local" / "telegraf.yml"
    return [address for group in yaml.safe_load(file.read_text()) for address in group["targets"]]


def is_scraped(checkout: Checkout) -> bool:
    """Whether Prometheus scrapes it now: records may be from an earlier test."""
    return any(target.up for target in health.targets(checkout.ports["PROMETHEUS_PORT"]) if target.job == "telegraf")


@pytest.mark.usefixtures("built")
def test_it_comes_and_goes_with_the_sensors_and_may_read_logs_alone(running: Checkout, sensor: Path) -> None:
    assert re.match("not used.*no sensor in telegraf/local: see docs/", row(running))
    assert addresses(running) == []

    sensor.write_text(SENSOR.replace("NAME", "requests"))
    supervisor = running.pid("supervisor.supervisord")
    assert running.url("TELEGRAF_PORT") in running.must("up")
    assert running.pid("supervisor.supervisord") == supervisor  # the rest of the stack kept running
    assert row(running).startswith("running")
    assert addresses(running) == [f"127.0.0.1:{running.ports['TELEGRAF_PORT']}"]
    wait_for(lambda: running.query("requests == 7"))
    if os.geteuid() == 0:  # otherwise it belongs to the user
        facts = running.facts("bin/telegraf ")
        assert "0" not in facts["Uid"].split()
        assert facts["Groups"].split() == [str((running.folder / LOG).stat().st_gid)]
        assert {int(facts[name], 16) for name in ("CapPrm", "CapAmb", "CapBnd")} == {0}

    pid = running.pid("bin/telegraf ")
    sensor.write_text(SENSOR.replace("NAME", "changed"))
    running.must("up")
    wait_for(lambda: running.query("changed"))
    assert running.pid("bin/telegraf ") == pid

    sensor.unlink()
    running.must("up")
    assert row(running).startswith("not used")
    assert (addresses(running), running.pids("bin/telegraf ")) == ([], [])


@pytest.mark.usefixtures("built")
def test_a_broken_sensor_is_named_and_the_stack_goes_on(running: Checkout, sensor: Path) -> None:
    before = running.pid("bin/prometheus ")
    for text, said in {
        "[[inputs.file]\n": "invalid TOML",
        '[[inputs.file]]\n  flies = ["/tmp/x"]\n  data_format = "value"\n': "flies",
        "[[inputs.cpu]]\n": "only the plugins that telegraf/sensors use",
    }.items():
        sensor.with_name("broken.conf").write_text(text)
        assert_failed(running.make("up"), "telegraf/local/broken.conf", said)
        assert running.pid("bin/prometheus ") == before


def test_where_it_can_t_be_had_the_stack_goes_on_and_says_so(stopped: Checkout, go: Go) -> None:
    go.go_on("telegraf.go:7: a line that doesn't compile\n")
    assert "But no sensor is read without Telegraf" in stopped.must("up")
    assert re.match("missing .*telegraf.go:7: a line that doesn't compile; to try again: make up", row(stopped))
    assert (stopped.make("status").returncode != 0, addresses(stopped)) == (True, [])
    wait_for(lambda: stopped.query('up{job="node"} == 1'))  # the rest isn't affected
    go.go_on()
    stopped.must("up")
    wait_for(lambda: is_scraped(stopped))
    assert len(go.builds()) == 2

"""The cAdvisor of deploy/go/cadvisor, on this machine's cgroups: it reports the kernel's counters."""

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from deploy import go_programs
from lab.cgroups import Cgroup, TierLimits, mounted
from tests.lab.conftest import name, require_cgroups
from tests.support import burning
from tests.support.needs import need
from tests.support.ports import free_port
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]  # built first if it isn't cached

BUSY = [sys.executable, "-c", burning.SCRIPT]


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return go_programs.path("cadvisor")
    except go_programs.GoProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@contextlib.contextmanager
def running(program: Path, *options: str) -> Iterator[Callable[[], dict[str, dict[str, float]]]]:
    """cAdvisor on a loopback port: its current metrics, value by metric, by the cgroup's path. It ends as asked."""
    port = free_port()
    command = [str(program), "--listen_ip=127.0.0.1", f"--port={port}", *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def page() -> dict[str, dict[str, float]]:
        answer = requests.get(f"http://127.0.0.1:{port}/metrics", params={"max_age": "0s"}, timeout=30)
        found: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                found.setdefault(sample.labels.get("id", ""), {})[sample.name] = sample.value
        return found

    try:
        yield page
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.fixture
def capped() -> Iterator[Cgroup]:
    """A cgroup whose cap is low enough to throttle its load even on a busy machine."""
    cgroup = Cgroup(name("capped"), require_cgroups())
    cgroup.make(TierLimits(cap=0.05))
    busy = subprocess.Popen(cgroup.joining(BUSY))
    yield cgroup
    cgroup.remove()
    busy.wait(timeout=30)


def kernel(cgroup: Cgroup) -> dict[str, float]:
    """The kernel's current counters, under cAdvisor's names."""
    trees = mounted()
    root = trees.by_controller.get("cpu", trees.unified)
    assert root is not None
    statistics = (root / cgroup.path[1:] / "cpu.stat").read_text()
    [throttled] = re.findall(r"^throttled_(?:usec|time) (\d+)$", statistics, re.MULTILINE)
    counted = {
        "container_cpu_usage_seconds_total": cgroup.cpu_seconds(),
        "container_cpu_cfs_throttled_seconds_total": int(throttled) / {1: 1e9, 2: 1e6}[trees.version],
    }
    if trees.unified is not None and (pressure := trees.unified / cgroup.path[1:] / "cpu.pressure").exists():
        [waited] = re.findall(r"^some .*total=(\d+)$", pressure.read_text(), re.MULTILINE)
        counted["container_pressure_cpu_waiting_seconds_total"] = int(waited) / 1e6
    return counted


def test_it_reports_what_the_kernel_counts_at_the_time_of_the_scrape(program: Path, capped: Cgroup) -> None:
    with running(program, "--housekeeping_interval=1m", "--max_housekeeping_interval=1m") as page:
        wait_for(lambda: all(kernel(capped).values()) and capped.path in page())
        for _ in range(3):
            before = kernel(capped)
            reported = page()[capped.path]
            after = kernel(capped)
            for metric, value in before.items():
                assert 0 < value <= reported[metric] <= after[metric], metric
        limit = reported["container_spec_cpu_quota"] / reported["container_spec_cpu_period"]
        assert limit == pytest.approx(0.05)
        assert reported["container_memory_usage_bytes"] > 0
        assert page()[""]["process_cpu_seconds_total"] > 0  # its own cost


def test_loop_devices_without_names_of_their_own_hide_nothing_else(program: Path, tmp_path: Path) -> None:
    require_cgroups()
    need(mount="losetup")
    with contextlib.ExitStack() as ending:
        for file in ("one", "other"):
            (tmp_path / file).write_bytes(bytes(1 << 20))
            attached = ["losetup", "--find", "--show", str(tmp_path / file)]
            device = subprocess.run(attached, capture_output=True, text=True, check=True).stdout.strip()
            ending.callback(subprocess.run, ["losetup", "--detach", device], check=True)
            subprocess.run(["dd", f"if={device}", "of=/dev/null", "iflag=direct", "bs=64k", "status=none"], check=True)
        page = ending.enter_context(running(program))
        wait_for(lambda: page().get("/", {}).get("container_cpu_usage_seconds_total", 0) > 0)


def test_cgroups_appear_and_disappear_while_it_runs(program: Path) -> None:
    with contextlib.ExitStack() as ending:
        page = ending.enter_context(running(program, "--raw_cgroup_prefix_whitelist=/virtscope/"))
        for root in require_cgroups().roots:
            (root / name("other")).mkdir()
            ending.callback((root / name("other")).rmdir)
        wait_for(lambda: "/" in page())
        cgroup = Cgroup(name("passing"), mounted())
        cgroup.make(TierLimits())
        ending.callback(cgroup.remove)
        wait_for(lambda: cgroup.path in page())
        assert f"/{name('other')}" not in page()
        cgroup.remove()
        wait_for(lambda: cgroup.path not in page())


def test_wrong_options_and_a_port_in_use_are_reported(program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for options, said in (
            (["--enable_metrics=cpu,memroy"], 'unsupported metric "memroy"'),
            (["--no_such_option"], "flag provided but not defined"),
            (["cpu"], '"cpu" is no option'),
            (
                ["--listen_ip=127.0.0.1", f"--port={port}"],
                rf"^error: .*127\.0\.0\.1:{port}.*address already in use: choose another --port.*\n$",
            ),
        ):
            ended = subprocess.run([program, *options], capture_output=True, text=True, check=False, timeout=30)
            assert ended.returncode != 0, options
            assert re.search(said, ended.stderr), options

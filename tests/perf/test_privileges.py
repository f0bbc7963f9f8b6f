"""The exporter as nobody: with the capabilities of its systemd unit, and without any."""

from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest
import yaml

from tests.e2e.running_exporter import as_nobody
from tests.perf.conftest import Load, Make, page, require_perf
from tests.support.privileges import capabilities, exporters_of_everybody
from tests.support.waiting import wait_for

pytestmark = pytest.mark.system

UNIT = "perf-exporter"
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
KPTR_RESTRICT = Path("/proc/sys/kernel/kptr_restrict")


@pytest.fixture(scope="module")
def everybody_s() -> Iterator[Path]:
    """A world-readable folder with the exporters and their dependencies."""
    with exporters_of_everybody(prometheus_client, yaml) as folder:
        yield folder


def test_the_unit_s_capabilities_are_enough_for_hosts_and_cgroups(
    everybody_s: Path, tmp_path: Path, make_cgroup: Make
) -> None:
    cgroup = make_cgroup("web")
    flags = (f"--cgroup.include={cgroup.path}",)
    with as_nobody(everybody_s, tmp_path, "perf", capabilities(UNIT), *flags) as exporter, cgroup.load() as load:
        page(exporter)
        load("fault 1000")
        now = page(exporter)
    assert now.value("perf_up") == 1
    assert now.value("perf_event_supported", group="software", event="page-faults", reason="") == 1
    assert now.total("perf_events_total", event="page-faults") >= 1000
    assert now.total("perf_cgroup_events_total", event="page-faults", cgroup=cgroup.path) >= 1000


def test_the_unit_s_capabilities_are_enough_for_profiles_of_the_kernel(everybody_s: Path, tmp_path: Path) -> None:
    require_perf()
    if int(KPTR_RESTRICT.read_text()) > 1:
        pytest.skip("kernel.kptr_restrict is 2: the kernel's addresses are hidden from all")
    flags = ("--profile.interval=10s", "--profile.seconds=1s", "--profile.event=cpu-clock")
    with as_nobody(everybody_s, tmp_path, "perf", capabilities(UNIT), *flags) as exporter, Load() as load:

        def symbols() -> set[str]:
            load("switch 2000")
            samples = page(exporter).all("perf_profile_samples_total", space="kernel")
            return {sample.labels["symbol"] for sample in samples} - {"(no symbols)"}

        wait_for(symbols, 60, explain=lambda: exporter.get().text)


def test_without_capabilities_it_says_what_it_lacks(everybody_s: Path, tmp_path: Path) -> None:
    if int(PARANOID.read_text()) < 1:
        pytest.skip("kernel.perf_event_paranoid lets everybody count here")
    with as_nobody(everybody_s, tmp_path, "perf", set()) as exporter:
        now = page(exporter)
        said = [line for line in exporter.log_lines("events can't be counted") if "page-faults" in line["events"]]
    assert now.value("perf_up") == 1
    assert now.all("perf_events_total") == []
    refused = now.labels("perf_event_supported", "reason")
    assert "no_permission" in refused
    assert "" not in refused
    assert "CAP_PERFMON" in said[0]["advice"]

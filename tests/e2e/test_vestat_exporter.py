"""vestat-exporter over HTTP on simulated machines, as seen by a scraper and an operator.

Single rows, columns and units: tests/unit/openvz.
"""

from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter, comparable
from tests.golden_pages import assert_golden, assert_lints
from tests.unit.openvz import fake_host

TESTS = Path(__file__).resolve().parents[1]
HOSTS = sorted((TESTS / "fixtures" / "openvz").iterdir())


def running(folder: Path, procfs: Path) -> RunningExporter:
    return RunningExporter(folder, f"--path.procfs={procfs}", package="virtscope.openvz")


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_golden_exposition(host: Path, tmp_path: Path) -> None:
    with running(tmp_path, host / "proc") as exporter:
        page = exporter.get().text
    assert_lints(page)
    page = comparable(page, r"vestat_\w*seconds_total", PROCFS=host / "proc")
    assert_golden(TESTS / f"golden/openvz-{host.name}.prom", page)


def test_units_are_logged_once_and_kept_and_waits_are_shown_where_a_kernel_counts_them(tmp_path: Path) -> None:
    """The container that proved the units stops. The young one proves nothing, but its counters continue."""
    young = fake_host.row("2", 2, per_second=2_000_000_000)
    fake_host.write(tmp_path, vestat=fake_host.vestat([fake_host.row("1", 3600, per_second=2_000_000_000), young]))
    with running(tmp_path, tmp_path) as exporter:
        first = exporter.get().text
        fake_host.write(tmp_path, vestat=fake_host.vestat([young, fake_host.row("3", 2, waits=1)]))
        page = exporter.get().text
        (said,) = exporter.log_lines("units decided")
    assert (said["unit"], said["hz"], said["per_second"]) == ("cycles", 1000, 2_000_000_000)
    assert 'openvz_container_cpu_used_seconds_total{ctid="2"} 1.0\n' in page
    assert 'ctid="1"' not in page
    assert "scheduling" not in first
    assert 'openvz_container_schedulings_total{ctid="2"} 0.0\n' in page, "where one has waited, 0 is a measurement"

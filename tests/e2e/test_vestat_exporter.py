"""vestat-exporter over HTTP, with folders that stand for machines: what a scraper and an operator see.

What single rows, columns and units do to a page: tests/unit/openvz.
"""

from __future__ import annotations

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


def test_a_thousand_containers(tmp_path: Path) -> None:
    rows = [fake_host.row(str(ctid), 3600 + ctid, waits=ctid) for ctid in range(1, 1001)]
    fake_host.write(tmp_path, vestat=fake_host.vestat(rows))
    with running(tmp_path, tmp_path) as exporter:
        page = exporter.get().text
    assert "openvz_host_containers 1000.0\n" in page
    assert page.count("\nopenvz_container_cpu_used_seconds_total{") == 1000
    # Up for 4000 s, half of which it used a CPU, waiting 400 times for 0.2 ms.
    assert 'openvz_container_uptime_seconds{ctid="400"} 4000.0\n' in page
    assert 'openvz_container_cpu_used_seconds_total{ctid="400"} 2000.0\n' in page
    assert 'openvz_container_scheduling_latency_seconds_total{ctid="400"} 0.08\n' in page


def test_units_are_logged_once_and_kept(tmp_path: Path) -> None:
    """The container that showed them stops. The young one is no evidence by itself, but its counters go on."""
    young = fake_host.row("2", 2, per_second=2_000_000_000)
    fake_host.write(tmp_path, vestat=fake_host.vestat([fake_host.row("1", 3600, per_second=2_000_000_000), young]))
    with running(tmp_path, tmp_path) as exporter:
        exporter.get()
        fake_host.write(tmp_path, vestat=fake_host.vestat([young]))
        page = exporter.get().text
        (said,) = exporter.log_lines("units decided")
    assert (said["unit"], said["hz"], said["per_second"]) == ("cycles", 1000, 2_000_000_000)
    assert said["uptime"] // said["uptime_jiffies"] == 2_000_000
    assert 'openvz_container_cpu_used_seconds_total{ctid="2"} 1.0\n' in page
    assert 'ctid="1"' not in page


def test_unknown_units_are_not_guessed(tmp_path: Path) -> None:
    fake_host.write(tmp_path, vestat=fake_host.vestat([fake_host.row("1", 3600, hz=250, per_second=3_000_000_000)]))
    with running(tmp_path, tmp_path) as exporter:
        page = exporter.get().text
        (said,) = [line for line in exporter.log_lines("source failed") if line["source"] == "vestat"]
    assert "openvz_container_cpu" not in page
    assert 'vestat_source_errors_total{reason="malformed",source="vestat"} 1.0\n' in page
    assert "3.00 GHz at 250 Hz" in said["err"]
    assert "/proc/vz/stats" in said["err"]


def test_what_is_malformed_or_absent_costs_its_own_values_alone(tmp_path: Path) -> None:
    """The kernel subtracts, and prints the result without a sign."""
    negative = fake_host.row("1", 3600)._replace(idle=2**64 - 5)
    fake_host.write(tmp_path, vestat=f"{fake_host.vestat([negative])}2 cut\n", veinfo="1 0 5\n2 0\n")
    (tmp_path / "user_beancounters").write_text("malformed\n")
    with running(tmp_path, tmp_path) as exporter:
        page = exporter.get().text
        # Where one has waited, the others' 0 is a measurement.
        rows = [fake_host.row("1", 3600), fake_host.row("2", 3600, waits=1)]
        fake_host.write(tmp_path, vestat=fake_host.vestat(rows))
        counting = exporter.get().text
    assert 'openvz_container_cpu_used_seconds_total{ctid="1"} 1800.0\n' in page
    assert "openvz_container_cpu_idle_seconds_total{" not in page
    assert "openvz_vestat_refused_rows 1.0\n" in page
    assert "openvz_veinfo_refused_rows 1.0\n" in page
    assert "\nvestat_up 0.0\n" in page
    assert 'vestat_source_up{source="vestat"} 1.0\n' in page
    assert 'vestat_source_errors_total{reason="malformed",source="beancounters"} 1.0\n' in page
    assert "scheduling" not in page, "a kernel that counts no waits has none to show"
    assert 'openvz_container_schedulings_total{ctid="1"} 0.0\n' in counting
    assert 'openvz_container_schedulings_total{ctid="2"} 1.0\n' in counting


def test_off_openvz_it_runs_and_says_once_what_is_missing(tmp_path: Path) -> None:
    with running(tmp_path, tmp_path) as exporter:
        for _ in range(3):
            page = exporter.get().text
        (said,) = [line for line in exporter.log_lines("source failed") if line["source"] == "vestat"]
    assert "vestat_up 0.0" in page
    assert 'vestat_source_errors_total{reason="unavailable",source="vestat"} 3.0' in page
    assert "this is no OpenVZ host" in said["err"]

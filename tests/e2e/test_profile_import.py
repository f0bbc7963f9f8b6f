"""An old report as a user backfills it: by `python -m profile_import`, promtool and Prometheus, and queried back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser
from prometheus_client.samples import Sample

from tests.support.program import program_path
from tests.support.prometheus import Prometheus

CHECKOUT = Path(__file__).resolve().parents[2]
OPREPORT = """CPU: Core 2, speed 2400.08 MHz (estimated)
Counted LLC_MISSES events (L2 cache demand requests that missed) with a unit mask of 0x41 (No unit mask) count 6000
samples  %        app name                 symbol name
600      60.0000  xen-syms-3.0.3           do_iret
300      30.0000  vmlinux-2.6.16           "quoted" \\symbol
100      10.0000  apache2                  (no symbols)
"""
PERF_REPORT = """# Samples: 200  of event 'cache-misses'
# Event count (approx.): 1000000
#
# Overhead  Samples  Command  Shared Object      Symbol
# ........  .......  .......  .................  ......
#
    75.00%      150  web      [kernel.kallsyms]  [k] copy_page
    25.00%       50  web      libc.so.6          [.] memcpy
"""
PERF_SCRIPT = "web 7 [000] 12.5:   1000  cache-misses:  ffffffff81234567 copy_page+0x1 ([kernel.kallsyms])\n" * 3


def imported(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profile_import", *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)


def samples_of(exposition: str) -> list[Sample]:
    families: Any = parser  # its functions have no types
    return [sample for family in families.text_string_to_metric_families(exposition) for sample in family.samples]


def last_values(exposition: str, name: str) -> dict[tuple[str, str], float]:
    """Return by event and symbol what is counted at the end."""
    return {
        (sample.labels["event"], sample.labels["symbol"]): sample.value
        for sample in samples_of(exposition)
        if sample.name == name and sample.labels["symbol"] != "(other)"
    }


def test_reports_of_every_kind_become_the_same_series(tmp_path: Path) -> None:
    file = tmp_path / "report"
    of_opreport = {"do_iret": 600, '"quoted" \\symbol': 300, "(no symbols)": 100}
    for kind, text, event, samples, events in (
        ("opreport", OPREPORT, "LLC_MISSES", of_opreport, 6000 * 1000),
        ("perf-report", PERF_REPORT, "cache-misses", {"copy_page": 150, "memcpy": 50}, 1_000_000),
        ("perf-script", PERF_SCRIPT, "cache-misses", {"copy_page": 3}, 3000),
    ):
        file.write_text(text)
        done = imported(kind, file)
        assert (done.returncode, done.stderr) == (0, ""), kind
        found = last_values(done.stdout, "perf_profile_samples_total")
        assert found == {(event, symbol): number for symbol, number in samples.items()}, kind
        assert sum(last_values(done.stdout, "perf_profile_events_total").values()) == events, kind


def test_of_a_report_without_its_first_lines_events_are_named_and_their_number_may_be_unknown(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_text("     538 12.7973     11947 10.1256 domain2-apps\n")
    done = imported("opreport", file, "--event=misses@6000", "--event=references")
    places = {("misses", "(no symbols)"): 538.0, ("references", "(no symbols)"): 11947.0}
    assert last_values(done.stdout, "perf_profile_samples_total") == places
    assert last_values(done.stdout, "perf_profile_events_total") == {("misses", "(no symbols)"): 538 * 6000}
    assert 'domain="2"' in done.stdout


def test_counters_rise_from_0_at_the_begin_to_all_at_the_end(tmp_path: Path) -> None:
    """The end is the file's time unless it is given."""
    file = tmp_path / "report"
    file.write_text(PERF_SCRIPT)
    os.utime(file, (1172754000, 1172754000))
    for flags in (["--begin=2007-03-01T12:00:00Z", "--end=1172754000", "--label=host=dl385"], ["--label=host=dl385"]):
        done = imported("perf-script", file, *flags)
        points = [
            (float(sample.timestamp or 0), sample.value)
            for sample in samples_of(done.stdout)
            if sample.name == "perf_profile_samples_total" and sample.labels["symbol"] == "copy_page"
        ]
        assert (points[0], points[-1]) == ((1172750400.0, 0.0), (1172754000.0, 3.0))
        assert len(points) == 61
        assert points == sorted(points)
        assert 'host="dl385"' in done.stdout


def test_what_cant_be_done_is_reported_in_one_line(tmp_path: Path) -> None:
    """What is no such report: tests/unit/profile_import and tests/fuzz."""
    file, other, output = tmp_path / "report", tmp_path / "other", tmp_path / "output"
    file.write_text(PERF_SCRIPT)
    no_hits = OPREPORT.partition("600      ")[0] + "0        0        xen-syms-3.0.3           do_iret\n"
    for kind, text, words in (
        *((kind, "\0\1\2\xff", f"profile_import: {other}: ") for kind in ("opreport", "perf-report", "perf-script")),
        ("perf-report", PERF_REPORT.partition("    75.00%")[0], "no samples"),
        ("opreport", no_hits, "no samples"),
        ("perf-script", "# ========\n\n", "no samples"),
    ):
        other.write_text(text, encoding="latin-1")
        done = imported(kind, other, "--output", output)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert words in done.stderr
        assert not output.exists()
    for flags, words in (
        (["/nonexistent"], "No such file"),
        ([file, "--begin=1172754000", "--end=1172754000"], "--begin must be before --end"),
        ([file, "--begin=1969-12-31T23:00:00Z"], "after 1970"),
        ([file, "--begin=2000-01-01", "--end=2007-01-01"], "a year apart"),
        ([file, "--end=yesterday"], "is no time"),
        ([file, "--label=symbol=x"], "the report's own"),
        ([file, "--label=a-b=x"], "not NAME=VALUE"),
        ([file, "--label=host=\udcff"], "not UTF-8"),
        ([file, "--output=/nonexistent/folder/file"], "No such file"),
    ):
        done = imported("perf-script", *flags)
        assert done.returncode > 0, words
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_prometheus_answers_of_a_study_as_of_a_live_host(tmp_path: Path) -> None:
    """promtool makes its blocks of it; shares, increases and rates are what the report says."""
    file, metrics = tmp_path / "report", tmp_path / "study.om"
    file.write_text(OPREPORT)
    end = int(time.time()) - 3 * 3600
    done = imported(
        "opreport", file, f"--end={end}", f"--begin={end - 7200}", "--label=host=study", f"--output={metrics}"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    prometheus = Prometheus(tmp_path, {})
    promtool: list[str | Path] = [program_path("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
    command = [*promtool, metrics, prometheus.folder / "data"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    with prometheus:
        increase = f'increase(perf_profile_events_total{{host="study"}}[2h5m] @ {end})'
        of_all = f"sum({increase})"
        assert prometheus.value(of_all) == pytest.approx(6_000_000, rel=0.02)
        share = f"sum by (symbol) ({increase}) / on () group_left {of_all}"
        shares = {series["metric"]["symbol"]: float(series["value"][1]) for series in prometheus.query(share)}
        expected = {"do_iret": 0.6, '"quoted" \\symbol': 0.3, "(no symbols)": 0.1, "(other)": 0}
        assert shares == pytest.approx(expected, abs=1e-9)
        rate = f'rate(perf_profile_samples_total{{symbol="do_iret"}}[5m] @ {end - 1000})'
        assert prometheus.value(rate) == pytest.approx(600 / 7200)
        xen = prometheus.query(f'perf_profile_samples_total{{space="hypervisor"}} @ {end}')
        assert [series["metric"]["image"] for series in xen] == ["xen-syms-3.0.3"]

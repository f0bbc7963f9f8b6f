"""perf-exporter as a user runs it, on this machine: software events count everywhere."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.running_exporter import EXPORTERS, RunningExporter
from tests.golden_pages import assert_lints


def running(folder: Path, *flags: str) -> RunningExporter:
    return RunningExporter(folder, *flags, package="virtscope.perf")


def refused(*flags: str) -> str:
    """Start the exporter, which is to end with status 1, and return what it says."""
    command = [sys.executable, "-m", "virtscope.perf", "--web.listen-address=127.0.0.1:0", "--log.level=error", *flags]
    ended = subprocess.run(command, cwd=EXPORTERS, capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 1
    return ended.stderr


def samples(page: requests.Response, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
        if sample.name == name
    }


def test_it_counts_what_it_can_and_says_of_the_rest_why_not(tmp_path: Path) -> None:
    with running(tmp_path) as exporter:
        first = exporter.get()
        for _ in range(3):  # each has faults and switches of its own
            subprocess.run([sys.executable, "-c", "import json"], check=True)
        page = exporter.get()
        said = exporter.log_lines("events can't be counted")
    assert "\nperf_up 1.0\n" in page.text
    supported = [
        sample.labels
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
        if sample.name == "perf_event_supported" and (bool(sample.value) != bool(sample.labels["reason"]))
    ]
    assert len(supported) == 18, "an event is counted, or there is a reason"
    refused = {labels["reason"] for labels in supported} - {""}
    assert len(said) == len({(line["reason"], line["advice"]) for line in said})
    assert {line["reason"] for line in said} == refused
    if all(labels["reason"] == "no_permission" for labels in supported):
        pytest.skip("nobody but root may count whole CPUs here: run this as root, or set perf_event_paranoid to 0")
    before, after = samples(first, "perf_events_total"), samples(page, "perf_events_total")
    assert all(after[labels] >= value for labels, value in before.items())
    switches = {labels: value for labels, value in after.items() if "context-switches" in labels}
    assert sum(switches.values()) > 0
    assert sum(value for labels, value in after.items() if "page-faults" in labels) > 100


def test_counting_begins_before_the_first_scrape(tmp_path: Path) -> None:
    with running(tmp_path) as exporter:
        time.sleep(1)
        enabled = samples(exporter.get(), "perf_group_enabled_seconds_total")
    if not enabled:
        pytest.skip("nobody but root may count whole CPUs here: run this as root")
    assert min(enabled.values()) >= 1


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    with running(tmp_path) as exporter:
        page = exporter.get().content
    assert_lints(page)


def test_what_does_not_fit_under_the_ceiling_is_reported(tmp_path: Path) -> None:
    with running(tmp_path, "--perf.max-counters=1") as exporter:
        page = exporter.get().text
    assert 'reason="too_many_files"} 0.0\n' in page
    assert "\nperf_up 1.0\n" in page


def test_it_ends_on_sigterm(tmp_path: Path) -> None:
    with running(tmp_path) as exporter:
        exporter.get()
        exporter.process.send_signal(signal.SIGTERM)
        assert exporter.process.wait(30) == 0


def test_a_mistyped_event_is_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "events.yml"
    file.write_text("groups:\n  cache: [cycles, cache-mises]\n")
    assert refused(f"--events={file}") == (
        f"perf-exporter: {file}:2: groups.cache: 'cache-mises' is no event, but cache-misses is; "
        "`perf list` shows what this machine has\n"
    )


@pytest.mark.parametrize("flag", ["--profile.seconds=10s", "--profile.event=cpu-clock", "--profile.symbols=5"])
def test_a_flag_of_profiles_without_profiles_is_reported_in_one_line(flag: str) -> None:
    name = flag.partition("=")[0]
    assert refused(flag) == (
        f"perf-exporter: {name} without --profile.interval: add --profile.interval=60s to take profiles\n"
    )


def test_profiles_may_be_turned_off_and_keep_their_flags(tmp_path: Path) -> None:
    with running(tmp_path, "--profile.interval=0", "--profile.seconds=10s") as exporter:
        assert 'source="profile"' not in exporter.get().text


def test_profiles_that_would_overlap_are_reported_in_one_line() -> None:
    assert refused("--profile.interval=10s", "--profile.seconds=1m") == (
        "perf-exporter: --profile.seconds (60 s) exceeds --profile.interval (10 s): a profile has to end before the "
        "next one begins\n"
    )

"""perf-exporter as a user runs it, on this machine: software events work everywhere."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.running_exporter import RunningExporter, ended
from tests.golden_pages import assert_lints
from tests.support.pages import Page


def running(folder: Path, *flags: str) -> RunningExporter:
    return RunningExporter(folder, *flags, package="virtscope.perf")


def test_it_counts_what_it_can_and_says_of_the_rest_why_not(tmp_path: Path) -> None:
    with running(tmp_path) as exporter:
        text = exporter.get().text
        first = Page.parse(text)
        for _ in range(3):  # each has its own faults and switches
            subprocess.run([sys.executable, "-c", "import json"], check=True)
        page = Page.parse(exporter.get().text)
        said = exporter.log_lines("events can't be counted")
        assert exporter.stop() == 0
    assert_lints(text)
    assert page.value("perf_up") == 1
    assert "perf_profile" not in text, "nothing is profiled unless that is asked for"
    supported = page.all("perf_event_supported")
    assert len(supported) == 18
    assert all(bool(each.value) != bool(each.labels["reason"]) for each in supported), "counted, or there is a reason"
    refused = {each.labels["reason"] for each in supported} - {""}
    assert len(said) == len({(line["reason"], line["advice"]) for line in said})
    assert {line["reason"] for line in said} == refused
    if all(each.labels["reason"] == "no_permission" for each in supported):
        return  # only root may count whole CPUs here
    after = page.series()
    counters = {key: value for key, value in first.series().items() if key[0] == "perf_events_total"}
    assert all(after[key] >= value for key, value in counters.items())
    assert sum(each.value for each in page.all("perf_events_total", event="context-switches")) > 0
    assert sum(each.value for each in page.all("perf_events_total", event="page-faults")) > 100


def test_counting_begins_before_the_first_scrape(tmp_path: Path) -> None:
    with running(tmp_path) as exporter:
        time.sleep(1)
        enabled = Page.of(exporter.address).all("perf_group_enabled_seconds_total")
    if not enabled:
        pytest.skip("nobody but root may count whole CPUs here: run this as root")
    assert min(each.value for each in enabled) >= 1


def test_what_does_not_fit_under_the_ceiling_is_reported(tmp_path: Path) -> None:
    with running(tmp_path, "--perf.max-counters=1") as exporter:
        assert 'reason="too_many_files"} 0.0\n' in exporter.get().text


def test_a_mistake_is_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "events.yml"
    file.write_text("groups:\n  cache: [cycles, cache-mises]\n")
    with running(tmp_path, "--profile.interval=0", "--profile.seconds=10s") as exporter:
        assert 'source="profile"' not in exporter.get().text, "turned off, with its flags left"
    mistakes = {
        f"--events={file}": f"{file}: line 2: groups.cache: 'cache-mises' is no event, but cache-misses is",
        "--profile.seconds=10s": "--profile.seconds without --profile.interval: add --profile.interval=60s",
        "--profile.interval=10s --profile.seconds=1m": "--profile.seconds (60 s) exceeds --profile.interval (10 s)",
    }
    for flags, said in mistakes.items():
        done = ended("virtscope.perf", "--web.listen-address=127.0.0.1:0", "--log.level=error", *flags.split())
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.startswith(f"perf-exporter: {said}")

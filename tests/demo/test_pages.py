"""Every query of every panel and of every mark of every dashboard brings series, with the demo's data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import prepare
from tests.dashboards import queries
from tests.demo.playing import Demo, playing

NO_CAPS = "the study ran its guests without caps"
NO_GUESTS = "a bare machine has no guests, and waits for nobody"
NO_OVERHEAD = "without a hypervisor there is nothing to compare with"
NOT_NOW = "fires at some times of the hour only"
NEVER_BROKEN = "its objective is never missed"
# Queries of panels that may be empty, by dashboard and host ("": any): (panel, query) and the reason.
MAY_BE_EMPTY: dict[tuple[str, str], dict[tuple[str, str], str]] = {
    ("applications", ""): {("At its own cap", "A"): NO_CAPS},
    ("applications", "demo-xen"): {("Taken by a hypervisor below", "A"): "only what is itself a guest can tell"},
    ("applications", "demo-openvz"): {
        ("The last breaches", "A"): NEVER_BROKEN,
        ("The last breaches", "B"): NEVER_BROKEN,
        ("Evidence while they were broken", "A"): NEVER_BROKEN,
    },
    ("applications", "demo-base"): {
        ("The last breaches", "A"): NEVER_BROKEN,
        ("The last breaches", "B"): NEVER_BROKEN,
        ("Evidence while they were broken", "A"): NEVER_BROKEN,
        ("Waits for a CPU, for each second on one", "A"): NO_GUESTS,
        ("Waits for a CPU, for each second on one", "B"): NO_GUESTS,
        ("CPU of its neighbours", "A"): NO_GUESTS,
        ("The host's own share", "A"): NO_OVERHEAD,
    },
    ("consolidation", "demo-base"): {
        ("CPU used, by application", "B"): NO_OVERHEAD,
        ("Overhead, of all CPU used", "A"): NO_OVERHEAD,
        ("Overhead, by applications", "A"): NO_OVERHEAD,
        ("Overhead, by clients", "A"): NO_OVERHEAD,
    },
    ("fleet", ""): {("Alerts that fire", "A"): NOT_NOW},
    ("host", ""): {
        ("CPU used, of the cap", "A"): NO_CAPS,
        ("Guests, and the host itself", "D"): NO_CAPS,
        ("Guests, and the host itself", "E"): NO_CAPS,
        ("CPU used, against capacity", "C"): "ten guests and fewer are all shown",
        ("Alerts of this host", "A"): NOT_NOW,
    },
    ("host", "demo-base"): {
        ("Overhead ratio", "A"): NO_OVERHEAD,
        ("Overhead in CPUs", "A"): NO_OVERHEAD,
        ("Overhead over time", "A"): NO_OVERHEAD,
        ("Overhead per request", "A"): NO_OVERHEAD,
        ("Overhead per request, over time", "A"): NO_OVERHEAD,
        ("Overhead per GB", "A"): NO_OVERHEAD,
        ("Overhead per GB, over time", "A"): NO_OVERHEAD,
        ("CPU used, against capacity", "B"): NO_GUESTS,
        ("CPU used, against capacity", "E"): NO_GUESTS,
        ("Waiting for a CPU", "A"): NO_GUESTS,
        ("Guests, and the host itself", "C"): NO_GUESTS,
        ("Guests, and the host itself", "F"): NO_GUESTS,
    },
    ("host", "demo-openvz"): {("Guests, and the host itself", "F"): "vestat-exporter tells no weights"},
    ("monitor", ""): {("Sources that failed", "A"): "nothing of the demo fails"},
}
# Marks that may be missing, likewise.
MAY_MARK_NOTHING: dict[tuple[str, str], dict[str, str]] = {
    ("host", "demo-openvz"): {"Reallocations": "OpenVZ tells of no caps, weights and vCPUs"},
    ("host", "demo-base"): {"Reallocations": NO_GUESTS, "Starts and ends": NO_GUESTS},
}
SHOWN = 2 * 3600  # seconds: every step of the story
HOSTS = pytest.mark.parametrize("host", ["demo-xen", "demo-openvz", "demo-base"])
PAGES = pytest.mark.parametrize("page", sorted(queries.FOLDER.glob("*.json")), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with playing(tmp_path_factory.mktemp("demo"), prepare.HISTORY, live=True) as played:
        deadline = time.monotonic() + 120
        fresh = f"count(timestamp(app:cpu_per_request:seconds) > {time.time() + 60:.0f}) >= 3"
        while not played.query(fresh):
            assert time.monotonic() < deadline, played.query("up")
            time.sleep(1)
        yield played


@pytest.fixture(autouse=True)
def two_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown."""
    monkeypatch.setattr(queries, "RANGE_SECONDS", SHOWN)
    monkeypatch.setattr(queries, "STEP_SECONDS", 30)
    built_in = {"__rate_interval": "2m", "__interval": "30s", "__range": f"{SHOWN}s", "__range_s": str(SHOWN)}
    monkeypatch.setattr(queries, "BUILT_IN", {**queries.BUILT_IN, **built_in})


@HOSTS
@PAGES
def test_no_panel_is_empty_without_a_reason(demo: Demo, page: Path, host: str) -> None:
    answers = queries.run_queries(demo.url, page, {"host": host})
    assert answers
    excused = MAY_BE_EMPTY.get((page.stem, ""), {}) | MAY_BE_EMPTY.get((page.stem, host), {})
    empty = {(answer.panel, answer.ref_id) for answer in answers if answer.series == 0}
    assert empty - set(excused) == set()
    steady = {panel for panel, reason in MAY_BE_EMPTY.get((page.stem, host), {}).items() if reason != NOT_NOW}
    assert steady - empty == set(), "no longer empty: the exception can go"


@HOSTS
@PAGES
def test_what_changes_is_marked(demo: Demo, page: Path, host: str) -> None:
    answers = queries.run_annotations(demo.url, page, {"host": host})
    nothing = {answer.panel for answer in answers if answer.series == 0}
    assert nothing == set(MAY_MARK_NOTHING.get((page.stem, host), {}))

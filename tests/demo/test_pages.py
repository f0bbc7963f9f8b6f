"""Every query of every panel and of every mark of every dashboard brings series, with the demo's data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from dashboards.signals import fleet
from demo import prepare
from tests.console.page import Page
from tests.dashboards import queries
from tests.demo.playing import Demo, playing
from tests.stack.conftest import eventually

NO_CAPS = "the study ran its guests without caps"
NO_GUESTS = "a bare machine has no guests, and waits for nobody"
NO_OVERHEAD = "without a hypervisor there is nothing to compare with"
NOT_NOW = "fires at some times of the hour only"
NEVER_BROKEN = "its objective is never missed"
NO_PSR = "the study's processors monitored no caches"
NO_RTDS = "the scheduler is credit, which has no budgets"
NO_TRACE = "a recording has no trace"
NO_UNCORE = "of perf-exporter the demo plays instructions, cycles and misses alone"
NO_SCHED = "of the demo's hosts only demo-kvm has a sched-exporter"
NO_NODE = "no node_exporter runs on it"
NO_STARTS = "its guests neither start nor end"
NO_OTHERS = "ten and fewer are all shown"
NO_QUOTAS = "Virtuozzo 7 has no disk quotas in /proc/vz"
# Queries of panels that may be empty, by dashboard and host ("": any): (panel, query) and the reason.
MAY_BE_EMPTY: dict[tuple[str, str], dict[tuple[str, str], str]] = {
    ("applications", ""): {
        ("CPU cap (self)", "A"): NO_CAPS,
        **{("Named neighbours", query): NO_SCHED for query in "ABC"},
        **{("Waiting for each neighbour (neighbour)", query): NO_SCHED for query in "AB"},
        ("Waiting by reason (neighbour)", "A"): NO_SCHED,
    },
    ("applications", "demo-xen"): {("Host CPU steal (hypervisor)", "A"): "only what is itself a guest can tell"},
    ("applications", "demo-openvz"): {
        ("Latest breaches", "A"): NEVER_BROKEN,
        ("Latest breaches", "B"): NEVER_BROKEN,
        ("Evidence during breaches", "A"): NEVER_BROKEN,
    },
    ("applications", "demo-base"): {
        ("Latest breaches", "A"): NEVER_BROKEN,
        ("Latest breaches", "B"): NEVER_BROKEN,
        ("Evidence during breaches", "A"): NEVER_BROKEN,
        ("CPU wait ratio (neighbour)", "A"): NO_GUESTS,
        ("CPU wait ratio (neighbour)", "B"): NO_GUESTS,
        ("CPU usage of neighbours", "A"): NO_GUESTS,
        ("Host overhead (hypervisor)", "A"): NO_OVERHEAD,
    },
    ("consolidation", "demo-base"): {
        ("CPU usage by application", "B"): NO_OVERHEAD,
        ("Overhead ratio", "A"): NO_OVERHEAD,
        ("Overhead by apps", "A"): NO_OVERHEAD,
        ("Overhead by clients", "A"): NO_OVERHEAD,
    },
    ("fleet", ""): {("Firing alerts", "A"): NOT_NOW},
    ("host", ""): {
        ("CPU cap utilisation", "A"): NO_CAPS,
        ("Virtual servers", "D"): NO_CAPS,
        ("Virtual servers", "E"): NO_CAPS,
        ("CPU usage and capacity", "C"): "ten guests and fewer are all shown",
        ("Alerts", "A"): NOT_NOW,
    },
    ("host", "demo-base"): {
        ("Overhead ratio", "A"): NO_OVERHEAD,
        ("Overhead (CPUs)", "A"): NO_OVERHEAD,
        ("Overhead ratio over time", "A"): NO_OVERHEAD,
        ("Overhead per request", "A"): NO_OVERHEAD,
        ("Overhead per GB", "A"): NO_OVERHEAD,
        ("Reallocations per minute", "A"): NO_GUESTS,
        ("CPU usage and capacity", "B"): NO_GUESTS,
        ("CPU usage and capacity", "E"): NO_GUESTS,
        ("CPU wait", "A"): NO_GUESTS,
        ("CPU wait / demand", "A"): NO_GUESTS,
        ("CPU wait / demand", "B"): NO_GUESTS,
        ("Virtual servers", "C"): NO_GUESTS,
        ("Virtual servers", "F"): NO_GUESTS,
    },
    ("host", "demo-openvz"): {
        ("Virtual servers", "F"): "vestat-exporter tells no weights",
        ("Reallocations per minute", "A"): "vestat-exporter tells neither weights nor caps",
    },
    ("monitor", ""): {
        ("Source failures", "A"): "nothing of the demo fails",
        ("Left out by exporters", "A"): "nothing is left out",
        ("Left out by exporters", "B"): "nothing of the demo fails",
        ("Reads of sources", "D"): "a recording is not read in the background",
        ("Age of xentop's iteration", "A"): "the host is known by libxenstat",
        ("Open perf counters", "A"): NO_UNCORE,
        **{("Parts of the stack", query): "only make up has a part that watches them" for query in "AB"},
        **{("Hosts over ssh", query): "no host of the demo is" for query in "ABCDEF"},
    },
    ("caches-and-events", ""): {
        ("LLC occupancy (host)", "A"): NO_PSR,
        ("Memory bandwidth (host)", "A"): NO_PSR,
        ("Remote share (host)", "A"): NO_PSR,
        ("Memory traffic (host)", "A"): NO_UNCORE,
        ("Power (host)", "A"): NO_UNCORE,
        ("Clock events (host and cgroups)", "A"): NO_UNCORE,
        ("Clock events (host and cgroups)", "B"): NO_UNCORE,
    },
    ("applications", "demo-kvm"): {("Host CPU steal (hypervisor)", "A"): NO_NODE},
    ("experiments", "demo-base"): {
        ("Tests by environment", "C"): "the study published means, no deviations",
        **{("Caps that are switched", query): "the demo's lab switches no caps" for query in "ABCD"},
    },
    ("host", "demo-kvm"): {("CPU usage and capacity", "E"): NO_STARTS},
    ("neighbours", "demo-kvm"): {
        ("Who ran meanwhile", "B"): NO_OTHERS,
        **{("Named neighbours of the host's applications", query): NOT_NOW for query in "ABC"},
        **{("Reallocated neighbours of the host's applications", query): NOT_NOW for query in "AB"},
    },
    ("virtual-servers", ""): {("Who ran meanwhile", "B"): NO_OTHERS},
    ("xen", "demo-xen"): {
        ("Scheduler parameters", "C"): NO_CAPS,
        ("Scheduler parameters", "D"): NO_RTDS,
        ("Scheduler parameters", "E"): NO_RTDS,
        ("LLC occupancy", "A"): NO_PSR,
        ("Memory bandwidth", "A"): NO_PSR,
        ("Traced time (host)", "A"): NO_TRACE,
        ("Lost trace records (host)", "A"): NO_TRACE,
    },
    ("kvm", "demo-kvm"): {
        ("Guest time not known", "A"): "it is known of all of them",
    },
    ("openvz", "demo-openvz"): {
        ("Unknown values of ioacct", "A"): "every value of this kernel is known",
        **{("Quotas", query): NO_QUOTAS for query in "ABCDEFG"},
        **{("Grace periods", query): NO_QUOTAS for query in "AB"},
    },
}
MARKED = ("applications", "caches-and-events", "host")
# Marks that may be missing, likewise.
MAY_MARK_NOTHING: dict[tuple[str, str], dict[str, str]] = {
    **{(page, "demo-base"): {"Changes": NO_GUESTS, "Alerts": NEVER_BROKEN} for page in MARKED},
    **{(page, "demo-openvz"): {"Alerts": NEVER_BROKEN} for page in MARKED},
    ("consolidation", "demo-kvm"): {"Applications in the lab": "it always has one"},
    ("consolidation", "demo-base"): {"Alerts": NEVER_BROKEN},
    ("consolidation", "demo-openvz"): {"Alerts": NEVER_BROKEN},
}
SHOWN = 2 * 3600  # seconds: every step of the story
OF_ONE_PLATFORM = {
    "xen": ["demo-xen"],
    "kvm": ["demo-kvm"],
    "openvz": ["demo-openvz"],
    "neighbours": ["demo-kvm"],  # the one with a sched-exporter
    "profile": ["demo-xen", "demo-openvz", "demo-base"],  # those with published profiles
    "experiments": ["demo-base"],  # it shows all hosts at once
}
# Shares of panels that may be above 100 %.
MAY_EXCEED = {
    "Mean / target": "an objective that is missed",
    "Response / objective": "an objective that is missed",
    "Throttled": "it is added up over CPUs",
}
MOST_MARKS = 20
HOSTS = ["demo-xen", "demo-kvm", "demo-openvz", "demo-base"]
PAGES_OF_HOSTS = pytest.mark.parametrize(
    ("page", "host"),
    [
        pytest.param(page, host, id=f"{page.stem}-{host}")
        for page in sorted(queries.FOLDER.glob("*.json"))
        for host in OF_ONE_PLATFORM.get(page.stem, HOSTS)
    ],
)


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


@PAGES_OF_HOSTS
def test_no_panel_is_empty_without_a_reason(demo: Demo, page: Path, host: str) -> None:
    answers = queries.run_queries(demo.url, page, {"host": host})
    assert answers
    excused = MAY_BE_EMPTY.get((page.stem, ""), {}) | MAY_BE_EMPTY.get((page.stem, host), {})
    empty = {(answer.panel, answer.ref_id) for answer in answers if answer.series == 0}
    assert empty - set(excused) == set()
    steady = {panel for panel, reason in MAY_BE_EMPTY.get((page.stem, host), {}).items() if reason != NOT_NOW}
    assert steady - empty == set(), "no longer empty: the exception can go"
    assert {
        (answer.panel, max(answer.values))
        for answer in answers
        if answer.unit == "percentunit" and answer.panel not in MAY_EXCEED and max(answer.values, default=0) > 1.01
    } == set()


@pytest.mark.parametrize("page", sorted(queries.FOLDER.glob("*.json")), ids=lambda page: page.stem)
def test_a_page_opens_on_a_host_that_has_data(demo: Demo, page: Path) -> None:
    content = json.loads(page.read_text(encoding="utf-8"))
    opened = queries.resolve_variables(demo.url, content, {})["host"]
    shows_all = any(variable["name"] == "hosts" for variable in content["templating"]["list"])
    assert shows_all or opened in OF_ONE_PLATFORM.get(page.stem, HOSTS)


@PAGES_OF_HOSTS
def test_what_changes_is_marked(demo: Demo, page: Path, host: str) -> None:
    answers = queries.run_annotations(demo.url, page, {"host": host})
    nothing = {answer.panel for answer in answers if answer.series == 0}
    assert nothing == set(MAY_MARK_NOTHING.get((page.stem, host), {}))
    at_first = [answer for answer in answers if answer.panel != "Each step of the lab"]
    assert [answer.panel for answer in at_first if len(answer.values) > MOST_MARKS] == []


def test_nothing_live_is_discarded_as_older_than_the_history(demo: Demo) -> None:
    assert "out of bounds" not in demo.log.read_text()


def test_the_page_without_grafana_shows_the_same_hosts(demo: Demo) -> None:
    severity = queries.fill_in(fleet.SEVERITY.expr, {**queries.BUILT_IN, "platform": ".+", "hosts": ".+"})

    def most_severe_first() -> bool:
        hosts = [series["metric"]["host"] for series in demo.query(f"sort_desc({severity})")]
        assert sorted(hosts) == ["demo-base", "demo-kvm", "demo-openvz", "demo-xen"]
        return [cell.split()[0] for cell in overview(demo).sections["Hosts"].column("Host")] == hosts

    assert eventually(most_severe_first), "the order of hosts that are equally severe changes with their overhead"
    page = overview(demo)
    assert "DEMO, not live" in page.sections[""].text
    assert "no alerts are evaluated" not in page.sections[""].text
    assert len(page.sections["Applications"].rows) >= 9, "three objectives on each host"
    assert {"demo-xen xen", "demo-kvm kvm", "demo-openvz openvz"} == set(
        page.sections["Virtual servers"].column("Host")
    )
    assert page.sections["Targets that don't answer"].tables == []


@pytest.mark.parametrize(
    ("parameters", "dashes"),
    [
        ({"host": "demo-xen"}, {"Steal": NO_GUESTS, "Cap": NO_CAPS, "Of cap": NO_CAPS, "Throttled": NO_CAPS}),
        ({"host": "demo-openvz"}, {"vCPUs per CPU": "Xen's", "Cap": NO_CAPS, "Of cap": NO_CAPS, "Throttled": NO_CAPS}),
        (
            {"app": "rubis-1"},
            {"Self": NO_CAPS, "Neighbour": NOT_NOW, "Cap": NO_CAPS, "Of cap": NO_CAPS, "Throttled": NO_CAPS},
        ),
    ],
)
def test_every_column_of_the_page_without_grafana_has_a_value(
    demo: Demo, parameters: dict[str, str], dashes: dict[str, str]
) -> None:
    page = overview(demo, **parameters)
    tables = [table for section in page.sections.values() for table in section.tables if "Alert" not in table[0]]
    assert len(tables) >= 4
    for header, *rows in tables:
        empty = {title for column, title in enumerate(header) if all(row[column] == "\u2013" for row in rows)}
        assert empty - set(dashes) == set()
        steady = {title for title in header if dashes.get(title, NOT_NOW) != NOT_NOW}
        assert steady - empty == set(), "no longer empty: the exception can go"


def overview(demo: Demo, **parameters: str) -> Page:
    answer = requests.get(f"{demo.url}/consoles/index.html", params=parameters, timeout=30)
    assert answer.status_code == 200, answer.text
    return Page(answer.content.decode())

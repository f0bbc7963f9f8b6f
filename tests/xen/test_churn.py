"""Twenty guests come and go between scrapes: no series outlives its guest or mixes up two guests.

Their CPU time and Dom0's equals the times in xl, including ended guests.
"""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from tests.support import Prometheus
from tests.support.reporting import Report
from tests.xen.exporters import SecondExporter
from tests.xen.host import CREDIT, Guest, XenHost

pytestmark = [pytest.mark.timeout(1500), pytest.mark.hosts(CREDIT)]

GUESTS = 20
ALIVE = 2  # at a time
RUNNING = 2  # every second guest runs, because emulation makes that expensive; the others stay paused
DUTY = 60  # percent of a CPU
NAMES = ALIVE + 1  # few, so that each is reused as soon as it is free
INTERVAL = 3  # seconds: two exporters and xl share one emulated CPU, which needs up to a second for a scrape
DEADLINE = 0.95 * INTERVAL  # the maximum duration of a scrape
TEXT_IS_LATE = 5.0  # seconds: the maximum age of served values
RANGE = 120.0  # of the rates, in seconds
TOLERANCE = 0.05
MIB = 1 << 20
LIMIT = "xen_domain_memory_limit_bytes"


@dataclass(frozen=True)
class Life:
    """An ended guest; times are seconds since 1970, on this machine's clock, which is Prometheus's."""

    name: str
    domid: str
    limit: float  # different for each guest, so that a value identifies its guest
    created: float
    started: float
    destroyed: float  # when `xl destroy` was called
    gone: float


@dataclass(frozen=True)
class Series:
    """A stored series: its labels, and its samples as pairs of time and value."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]


@dataclass(frozen=True)
class Account:
    """CPU seconds by `xl list` in a multiple of RANGE; an ended guest's are from its last listing."""

    begun: float
    ended: float
    dom0: float
    guests: float
    of_ended: dict[str, float]  # by domain id: usage over their whole lives, a part of guests


Churn: TypeAlias = tuple[list[Life], Account]


@pytest.fixture(scope="module")
def lives(churn: Churn) -> list[Life]:
    return churn[0]


def seconds_by_xl(listed: str) -> dict[str, float]:
    """CPU seconds by domain id, from `xl list`: name (any text), id, memory, vCPUs, state, seconds."""
    rows = [line.split() for line in listed.splitlines()]
    return {row[-5]: float(row[-1]) for row in rows if row[-1] != "Time(s)"}


@pytest.fixture(scope="module")
def churn(xen: XenHost, text_exporter: SecondExporter, watcher: Prometheus) -> Churn:
    """All guests' lives; all have ended."""
    text_exporter.wait_until_up()
    watcher.wait_for("count(up == 1 and on (instance) xentop_up == 1) == 2", seconds=120)
    over: list[Life] = []
    alive: list[Life] = []
    busy = xen.domids()[0]
    xen.dom0(f"xl pause {busy}")
    time.sleep(3 * INTERVAL)  # for the first rates
    at_first, first_look = seconds_by_xl(xen.dom0("xl list")), time.time()
    of_ended: dict[str, float] = {}
    for number in range(GUESTS):
        guest = Guest(11 + number, f"churn{number % NAMES}", duty=DUTY, net=1, memory=80 + number)
        created = time.time()
        domid = xen.create(guest)
        if number % RUNNING == 0:
            xen.dom0(f"xl unpause {domid}")
        limit = (guest.memory + 1) * MIB  # libxl's LIBXL_MAXMEM_CONSTANT on top
        alive.append(Life(guest.name, domid, limit, created, time.time(), 0, 0))
        # Even if scrapes are late, both sources are read while it exists.
        up = 'up{job="xentop"}'
        watcher.wait_for(f"count({up} == 1 and timestamp({up}) > {time.time()}) == 2", seconds=120)
        while len(alive) > (ALIVE if number < GUESTS - 1 else 0):
            ending, begun = alive.pop(0), time.time()
            # Its usage is listed until the end: it still runs when `xl destroy` begins, which returns before the last
            # page is freed; until then the domain is dying.
            of_ended |= seconds_by_xl(
                xen.dom0(
                    f"xl destroy {ending.domid} &"
                    f" while now=$(xl list {ending.domid} 2>/dev/null); do listed=$now; done;"
                    ' wait; echo "$listed"'
                )
            )
            over.append(
                Life(ending.name, ending.domid, ending.limit, ending.created, ending.started, begun, time.time())
            )
    time.sleep(RANGE - (time.time() - first_look) % RANGE)
    at_last, last_look = seconds_by_xl(xen.dom0("xl list")), time.time()
    xen.dom0(f"xl unpause {busy}")
    time.sleep(3 * INTERVAL)  # for scrapes after the last guest has gone
    there_all_along = sum(at_last[domid] - seconds for domid, seconds in at_first.items() if domid != "0")
    guests = sum(of_ended.values()) + there_all_along
    return over, Account(first_look, last_look, at_last["0"] - at_first["0"], guests, of_ended)


@pytest.fixture(scope="module")
def watcher(
    xen: XenHost, text_exporter: SecondExporter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """Scrapes both sources; `host` is library or text."""
    targets = [
        {"targets": [address], "labels": {"host": host, "platform": "xen"}}
        for host, address in (("library", xen.exporter), ("text", text_exporter.address))
    ]
    with Prometheus(tmp_path_factory.mktemp("watcher"), {"xentop": targets}, interval=f"{INTERVAL}s") as prometheus:
        yield prometheus


def stored(prometheus: Prometheus, selector: str) -> list[Series]:
    return [
        Series(found["metric"], [(float(at), float(value)) for at, value in found["values"]])
        for found in prometheus.query(f"{selector}[20m]")
    ]


def test_no_scrape_fails(watcher: Prometheus, lives: list[Life], report: Report) -> None:
    """Except scrapes that an emulated Dom0 with one CPU can't answer in time, whatever runs in it."""
    begun, ended = lives[0].created, lives[-1].gone
    seconds = {series.labels["host"]: dict(series.samples) for series in stored(watcher, "scrape_duration_seconds")}
    for series in stored(watcher, 'up{job="xentop"}'):
        host = series.labels["host"]
        during = {at: value for at, value in series.samples if begun < at < ended}
        failed = [at for at, value in during.items() if value != 1]
        assert [at for at in failed if seconds[host][at] < DEADLINE] == [], host
        report(f"churn: {len(during)} scrapes of {host} in {ended - begun:.0f} s, {len(failed)} of them too late")
    for series in stored(watcher, "xentop_source_errors_total"):
        if series.labels["reason"] != "timeout":
            assert {value for _, value in series.samples} == {0}, series.labels


def test_each_guest_shows_while_it_exists_and_is_gone_by_the_next_scrape(
    watcher: Prometheus, lives: list[Life]
) -> None:
    [answers] = stored(watcher, 'xentop_up{host="library"}')
    scrapes = [at for at, up in answers.samples if up]
    for life in lives:
        labels = f'host="library", job="xentop", domid="{life.domid}"'
        own = f'{{__name__!~".+:.+", {labels}}}'  # records come after the scrape
        times = [at for series in stored(watcher, own) for at, _ in series.samples]
        assert life.created < min(times), life
        assert max(times) < life.gone, life
        # Every scrape while it definitely existed shows it.
        limits = {at for series in stored(watcher, f"{LIMIT}{{{labels}}}") for at, _ in series.samples}
        assert {at for at in scrapes if life.started < at < life.destroyed} <= limits, life
        after = min(at for at in scrapes if at > life.gone)
        assert watcher.query(f"{own} @ {after + 0.1:.3f}") == [], "Prometheus must see it end at once"


def test_no_value_is_attributed_to_another_guest(watcher: Prometheus, lives: list[Life]) -> None:
    """A guest's memory limit identifies it; early in its creation it is still 0."""
    checked = set()
    for series in stored(watcher, f'{LIMIT}{{domain=~"churn.*"}}'):
        labels = series.labels
        candidates = [
            life
            for life in lives
            if life.name == labels["domain"] and (labels["host"] == "text" or life.domid == labels["domid"])
        ]
        for at, limit in series.samples:
            late = TEXT_IS_LATE if labels["host"] == "text" else 0
            there = {life.limit for life in candidates if life.created < at < life.gone + late}
            being_made = {0.0 for life in candidates if life.created < at < life.started + late}
            assert limit in there | being_made, (labels, at, lives)
            checked.add((labels["host"], limit))
    assert checked >= {(host, life.limit) for host in ("library", "text") for life in lives}


def test_no_counter_decreases_while_its_guest_exists(watcher: Prometheus, lives: list[Life]) -> None:
    """Except that Dom0's interface resets its counters when the guest's end is gone, before it disappears itself."""

    def owner(series: Series) -> tuple[str, str, str]:
        return series.labels["host"], series.labels.get("domid", ""), series.labels.get("domain", "")

    def ended(series: Series, at: float) -> bool:
        host, domid, name = owner(series)
        ends = [life for life in lives if life.name == name and (host == "text" or life.domid == domid)]
        return any(life.destroyed < at < life.gone + TEXT_IS_LATE for life in ends)

    limits = {owner(series): dict(series.samples) for series in stored(watcher, LIMIT)}
    moved = set()
    for series in stored(watcher, '{__name__=~"xen_.+_total", job="xentop"}'):
        of_network = "_network_" in series.labels["__name__"]
        for (before, low), (after, high) in itertools.pairwise(series.samples):
            if high > low:
                moved.add(owner(series))
            elif high < low and not (of_network and high == 0 and ended(series, after)):
                # xentop's text has only names: a counter restarts if a new guest has taken the name.
                assert series.labels["host"] == "text", (series.labels, low, high)
                assert limits[owner(series)][before] != limits[owner(series)][after], (series.labels, low, high)
    of_library = {("library", life.domid, life.name) for life in lives[::RUNNING]}
    assert of_library <= moved, "a counter that never moves proves nothing"


def seconds_unseen(watcher: Prometheus, of_ended: dict[str, float]) -> float:
    """CPU seconds of ended guests after their last scrape."""
    series = stored(watcher, 'xen_domain_cpu_seconds_total{host="library", job="xentop"}')
    last = {each.labels["domid"]: each.samples[-1][1] for each in series}
    return sum(used - last[domid] for domid, used in of_ended.items() if domid in last)


def test_cpu_is_what_xl_reports_for_running_and_ended_guests(watcher: Prometheus, churn: Churn, report: Report) -> None:
    """Over the whole time, range by range. The host's total has what guests used after their last scrape."""
    _, account = churn
    moments = [account.begun + RANGE * (1 + number) for number in range(round((account.ended - account.begun) / RANGE))]

    def seconds(record: str) -> float:
        # The last value before that moment: a failed scrape leaves no record.
        last = (f'last_over_time({record}{{host="library"}}[30s] @ {at:.3f})' for at in moments)
        return sum(RANGE * watcher.value(query) for query in last)

    dom0, total = seconds("host:overhead_cpu:rate"), seconds("host:cpu_usage:rate")
    report(
        f"churn: by xl, Dom0 used {account.dom0:.1f} CPU seconds and guests {account.guests:.1f} in"
        f" {RANGE * len(moments):.0f} s, by Prometheus {dom0:.1f} and {total - dom0:.1f}"
    )
    assert account.guests > 0.1 * account.dom0, "too little to prove anything"
    assert dom0 / total == pytest.approx(account.dom0 / (account.dom0 + account.guests), rel=TOLERANCE)
    assert total == pytest.approx(account.dom0 + account.guests, rel=TOLERANCE)


def test_the_guests_total_keeps_what_ended_guests_used_until_their_last_scrape(
    watcher: Prometheus, churn: Churn, report: Report
) -> None:
    _, account = churn
    [series] = stored(watcher, 'xen_host_guests_cpu_seconds_total{host="library", job="xentop"}')
    values = [value for at, value in series.samples if account.begun - INTERVAL < at < account.ended + INTERVAL]
    unseen = seconds_unseen(watcher, account.of_ended)
    counted = values[-1] - values[0]
    report(f"churn: by xl, guests used {account.guests:.1f} s, {unseen:.1f} of them unseen; {counted:.1f} were counted")
    assert counted == pytest.approx(account.guests - unseen, rel=TOLERANCE)

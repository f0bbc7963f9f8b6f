"""The console page on both releases: its contents, their order, and why a table is empty."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.signals import fleet as signals
from tests.console.fleet import alert, application, evaluated, fleet, guest, host, sample, targets
from tests.console.page import Page
from tests.console.served import RELEASES, Release, Served, served_by
from tests.rules.test_records import MADE
from tests.support.program import program_path
from tools.vocabulary_reference import rules

NO_RECORDS = {"ALERTS", "ALERTS_FOR_STATE", "up"}
DASH = "\u2013"


@pytest.fixture(scope="module", params=RELEASES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    release: Release = request.param
    program_path(release)  # build it now, before the samples get old
    with served_by(tmp_path_factory.mktemp(release), fleet(), release) as prometheus:
        yield prometheus


def cells(row: str) -> list[str]:
    """A row in the notation of this file."""
    return [DASH if cell.strip() == "-" else cell.strip() for cell in row.split("|")]


def table(text: str) -> list[list[str]]:
    return [cells(row) for row in text.strip().splitlines()]


def test_the_first_lines_say_how_bad_it_is_and_how_fresh(served: Served) -> None:
    page = served.page()
    assert page.title == "1 critical, 4 warning, virtscope"
    summary = re.sub(r"\s+", " ", page.sections[""].text)
    assert re.search(r"5 hosts, 1 down ?, 1 critical and 4 warning alerts\. Newest sample: \d s old\.", summary)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", summary)
    assert "DEMO" not in page.html.partition("<body>")[2]


def test_alerts_come_by_severity_then_by_age_with_the_likely_cause_and_named_neighbours(served: Served) -> None:
    alerts = served.page().sections["Alerts"]
    assert [[*row[:5], *row[6:]] for row in alerts.rows] == table("""
critical | ObjectiveBurnsFast | xen1 xen | - | shop latency | neighbour: batch-7 52 %, blog 41 %
warning | EventsMostlyEstimated | xen2 xen | - | - | -
warning | VirtualServerStarved | xen1 xen | web | - | -
warning | RulesFailing | - | - | - | -
warning | MeanResponseOverCeiling | xen1 xen | - | shop mean | -
""")
    assert re.fullmatch(r"1[2-5]m \d+s", alerts.column("Active for")[0])  # 12 minutes when the samples were made


# By severity, then by overhead.
HOSTS = """
Severity | Host | Alerts | Targets up | CPU used | Overhead | Overhead CPU | Guests | Headroom | Burn rate | LLC MPKI
critical | xen1 xen | 3 | 2 of 2 | 37.5 % | 31.0 % high | 0.93 CPUs high | 2 | 2 apps | 31.0 high | 4.20
warning | xen2 xen | 1 | 2 of 2 | 37.5 % | 12.0 % | 0.36 CPUs | 2 | 2 apps | - | 4.20
OK | vz1 openvz | 0 | 2 of 2 | 37.5 % | 4.0 % | 0.12 CPUs | 2 | 2 apps | 0.1 | 4.20
OK | xen3 xen | 0 | 2 of 2 | 37.5 % | 2.0 % | 0.06 CPUs | 2 | 2 apps | - | 4.20
down | down1 base | 0 | 0 of 1 | - | - | - | - | - | - | -
"""
# Applications that miss an objective come first, those without an objective last.
APPLICATIONS = """
Severity | Application | Host | Objective | Now | p95 | Of target | Burn rate | Budget left | Requests | Errors
critical | shop | xen1 xen | latency: 99 % within 300 ms | 69.00 % | 480 ms | - | 31.0 high | -210 % low |80.0/s |0.10 %
warning | shop | xen1 xen | mean: at most 100 ms | 160 ms | 480 ms | 160 % high | - | - | 80.0/s | 0.10 %
OK | blog | vz1 openvz | mean: at most 100 ms | 50 ms | 150 ms | 50 % | - | - | 80.0/s | 0.10 %
OK | blog | vz1 openvz | latency: 99 % within 300 ms | 99.90 % | 150 ms | - | 0.1 | 99 % | 80.0/s | 0.10 %
"""
# Alerts first, then the longest waits.
VIRTUAL_SERVERS = """
warning | web | xen1 xen | 0.90 CPUs | 2 % | 0.95 CPUs | 95 % high | - | 1 GiB | 4.00 | - | shop web
OK | batch | xen2 xen | 0.70 CPUs | 90 % | - | - | - | - | - | - | -
OK | db | xen1 xen | 0.50 CPUs | 60 % | - | - | - | - | - | - | shop db
OK | 101 | vz1 openvz | 0.25 CPUs | 30 % | - | - | - | - | - | - | -
"""


def test_the_overview_has_the_worst_first(served: Served) -> None:
    sections = served.page().sections
    assert sections["Hosts"].tables[0] == table(HOSTS)
    assert sections["Applications"].tables[0][:5] == table(APPLICATIONS)
    assert sections["Applications"].rows[-1][:6] == cells("no objective | wiki | xen2 xen | - | - | 20 ms")
    assert sections["Virtual servers"].rows == table(VIRTUAL_SERVERS)
    assert sections["Targets that don't answer"].rows == [cells("down | node | node.example.org:80 | down1 | -")]


def test_hosts_have_the_order_of_the_dashboard_fleet(served: Served) -> None:
    assert "host:severity:score" in signals.SEVERITY.expr
    (expr,) = (rule.expr for rule in rules() if rule.name == "host:severity:score")
    labels = [series["metric"] for series in served.query(f"sort_desc({expr})")]
    assert served.page().sections["Hosts"].column("Host") == [f"{of['host']} {of['platform']}" for of in labels]


def test_a_host_has_a_page_with_what_is_pending_and_all_its_targets(served: Served) -> None:
    page = served.page({"host": "xen1"})
    assert page.heading == "virtscope / host xen1"
    assert page.sections["Alerts"].column("Alert")[-1] == "HostOverheadHigh"
    assert page.sections["Alerts"].column("Severity")[-1] == "warning, pending"
    assert page.sections["Host"].column("Host") == ["xen1 xen"]
    assert page.sections["Host"].tables[1][1][:3] == ["xen", "8", "3.00 CPUs"]
    assert set(page.sections["Applications"].column("Application")) == {"shop"}
    assert page.sections["Virtual servers"].column("Virtual server") == ["web", "db"]
    assert [row[:2] for row in page.sections["Targets"].rows] == [["up", "node"], ["up", "xentop"]]


def test_an_application_has_a_page_with_its_responses_and_the_evidence(served: Served) -> None:
    page = served.page({"app": "shop"})
    assert page.heading == "virtscope / application shop"
    assert page.sections["Alerts"].column("Alert") == ["ObjectiveBurnsFast", "MeanResponseOverCeiling"]
    assert page.sections["Applications"].column("Severity") == ["critical", "warning", "OK"]
    assert page.sections["Responses"].rows == [
        ["db", "xen1 xen", *["\N{EN DASH}"] * 6, "0.50 CPUs"],
        ["web", "xen1 xen", "80.0/s", "0.10 %", "160 ms", "160 ms", "480 ms", "640 ms", "0.90 CPUs"],
    ]
    assert page.sections["Evidence for causes"].rows[0][:5] == ["xen1 xen", "0.20", "1.60", "0.40", "0.00"]
    assert page.sections["Virtual servers"].column("Virtual server") == ["web", "db"]
    assert "Hosts" not in page.sections


@pytest.mark.parametrize("asked", ["1h", "6h", "1d", "1w", "2h];drop"])
def test_an_application_s_page_says_who_delayed_it_in_the_range_that_was_asked_for(served: Served, asked: str) -> None:
    delays = served.page({"app": "shop", "range": asked}).sections["What delayed it"]
    shown = asked if asked in {"1h", "6h", "1d", "1w"} else "1h"
    assert f"over the last {shown}," in delays.text
    of_a_request = "160ms: 17.5ms of CPU, 60ms waiting for disk (device), 3.75ms waiting for cpu because of batch-7"
    assert f"A request took {of_a_request} (neighbour)." in delays.text
    assert delays.rows == table("""
web | xen1 | cpu | neighbour | batch-7 | 0.30 CPUs | 75 %
db | xen1 | cpu | cap | (cap) | 0.10 CPUs | 25 %
""")


def test_every_link_leads_somewhere_also_behind_a_proxy(served: Served) -> None:
    """The page's own links are relative; those to other Prometheus pages use its external URL."""
    links = {link for query in ("", {"host": "xen1"}, {"app": "shop"}) for link in served.page(query).links}
    own = {link for link in links if link.startswith("?")}
    assert {"?", "?host=xen1", "?app=shop"} <= own
    for link in own:
        served.page(link.removeprefix("?"))
    prefix = "/behind/a-proxy/user/"
    assert {link for link in links if not link.startswith(prefix)} == own
    documents = Path(__file__).resolve().parents[2] / "docs"
    for link in links - own:
        assert (documents / link.removeprefix(prefix)).is_file()
    assert f"{prefix}runbooks/VirtualServerStarved.md" in links


def test_it_reads_the_vocabulary_alone(served: Served) -> None:
    for query in ("", {"host": "xen1"}, {"app": "shop"}, {"host": "xen1", "app": "shop"}):
        served.page(query)
    named = {name for query in served.queries() for name in re.findall(r"([a-zA-Z_:][\w:]*)\{", query)}
    assert len(named) > 40
    assert named - NO_RECORDS - MADE == set()
    anything = {query for query in served.queries() if "__name__" in query}
    assert all("source_info" in query for query in anything), "what is replayed says so"


def test_it_reloads_with_its_parameters_and_needs_nothing_else(served: Served) -> None:
    page = served.page({"host": "xen1"})
    assert '<meta http-equiv="refresh" content="30">' in page.html  # no URL: reloads the current one
    assert "script" not in page.tags
    assert not [name for name in page.attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|http://|https://", page.html)


def only_page(folder: Path, samples: list[str]) -> Page:
    """The overview of these samples, from a new Prometheus."""
    with served_by(folder, samples) as it:
        return it.page()


EMPTY = {
    "": ["Alerts", "Hosts", "Applications", "Virtual servers", "Targets that don't answer"],
    "host=xen1": ["Alerts", "Host", "Applications", "Virtual servers", "Targets"],
    "app=shop": ["Alerts", "Applications", "Responses", "What delayed it", "Evidence for causes", "Virtual servers"],
}


@pytest.mark.parametrize("release", RELEASES)
def test_each_table_says_why_it_is_empty(tmp_path: Path, release: Release) -> None:
    with served_by(tmp_path, [], release) as it:
        pages = {query: it.page(query) for query in EMPTY}
    for query, headings in EMPTY.items():
        page = pages[query]
        assert [heading for heading in page.sections if heading not in {"", "footer"}] == headings
        for heading in headings:
            assert page.sections[heading].tables == [], heading
            assert len(page.sections[heading].text) > 20, heading
        assert "no targets" in page.sections[""].text
        assert "no alerts are evaluated" in page.sections[""].text
        assert page.sections["Alerts"].text == "Not known, as no alerts are evaluated."


def test_without_alerts_of_which_one_always_fires_no_host_is_fine_and_what_is_replayed_says_so(tmp_path: Path) -> None:
    samples = [*host("xen1", "xen", 0.1), *guest("web", "xen1", cpu=0.5), *application("shop", "xen1")]
    samples.append(sample("xentop_source_info", {"host": "xen1", "detail": "replay:h.jsonl.gz"}, 1))
    page = only_page(tmp_path, samples)
    assert "REPLAYED, not live" in page.sections[""].text
    assert "Severities are unknown" in page.sections[""].text
    assert page.sections["Hosts"].column("Alerts") == [DASH]
    for heading in ("Hosts", "Applications", "Virtual servers"):
        assert set(page.sections[heading].column("Severity")) == {"unknown"}, heading


def test_of_hundreds_of_hosts_the_overview_reads_what_is_recorded_of_each(tmp_path: Path) -> None:
    """It doesn't query all virtual servers or all targets with their alerts: such samples must not show up."""
    trouble = {"host": "xen1", "platform": "xen"}
    waits = {**trouble, "vserver": "batch", "role": "guest"}
    samples = [
        *evaluated(),
        *(sample for number in range(501) for sample in targets(f"host{number}", "kvm", kvm=1)),
        *(sample("host:severity:score", {"host": f"host{number}", "platform": "kvm"}, 0.01) for number in range(501)),
        *host("xen1", "xen", 0.1),
        sample("host:severity:score", trouble, 1000.1),
        *alert("VirtualServerStarved", "critical", 5, **trouble, vserver="web", role="guest"),
        *guest("web", "xen1", cpu=0.9, wait=0.02),
        *guest("batch", "xen1", cpu=0.7, wait=0.3),
        *guest("db", "xen1", cpu=0.5, wait=0.2),
        sample("vserver:cpu_wait_highest:rate", waits, 0.3),
        *application("shop", "xen1"),
        sample("app:slo_spent_highest:ratio", {**trouble, "app": "shop", "objective": "mean"}, 0.5),
    ]
    with served_by(tmp_path, samples) as it:
        page, narrowed = it.page(), it.page({"host": "xen1"})
    assert "502 hosts, 1 critical" in re.sub(r"\s+", " ", page.sections[""].text)
    assert page.sections["Hosts"].column("Host")[0] == "xen1 xen"
    assert len(page.sections["Hosts"].rows) == 25
    assert "25 of 502 are shown" in page.sections["Hosts"].text
    assert page.sections["Virtual servers"].column("Virtual server") == ["web", "batch"]
    assert page.sections["Virtual servers"].column("Severity") == ["critical", "OK"]
    assert [row[1:4] for row in page.sections["Applications"].rows] == [["shop", "xen1 xen", "mean: at most 100 ms"]]
    assert narrowed.sections["Virtual servers"].column("Virtual server") == ["web", "batch", "db"]
    assert len(narrowed.sections["Applications"].rows) == 3


def test_a_fleet_without_trouble_says_so(tmp_path: Path) -> None:
    page = only_page(tmp_path, [*evaluated(), *host("xen1", "xen", 0.1)])
    assert page.sections["Alerts"].text == "No alert fires."
    assert page.sections["Hosts"].column("Severity") == ["OK"]
    assert page.sections["Targets that don't answer"].text == "All answer."
    assert "1 host, no critical and no warning alerts" in re.sub(r"\s+", " ", page.sections[""].text)


def test_what_is_no_number_is_a_dash_and_what_is_missed_or_not_measured_is_not_fine(tmp_path: Path) -> None:
    nan = float("nan")
    of = {"host": "xen1", "platform": "xen", "app": "shop"}
    pending = {"host": "xen2", "platform": "xen", "app": "blog", "objective": "mean"}
    samples = [
        *evaluated(),
        *targets("xen1", "xen", xentop=1),
        *guest("web", "xen1", cpu=0.5, wait=nan, cap=0.0),
        sample("host:overhead:ratio", {"host": "xen1", "platform": "xen"}, nan),
        sample("app:slo_threshold:seconds", {**of, "objective": "mean"}, 0.1),
        sample("app:response_seconds:mean", {**of, "tier": "web"}, nan),
        *application("blog", "xen2", mean=0.2),
        *application("wiki", "xen2", mean=0.2),
        *alert("MeanResponseOverCeiling", "warning", 1, "pending", **pending),
    ]
    page = only_page(tmp_path, samples)
    assert page.sections["Hosts"].rows == [["OK", "xen1 xen", "0", "1 of 1", *[DASH] * 7]]
    assert page.sections["Virtual servers"].rows[0][3:8] == ["0.50 CPUs", DASH, "0.00 CPUs", DASH, DASH]
    rows = [row for row in page.sections["Applications"].rows if row[3].startswith("mean")]
    assert {(row[0], row[1]) for row in rows} == {("no requests", "shop"), ("pending", "blog"), ("missed", "wiki")}
    assert cells("no requests | shop | xen1 xen | mean: at most 100 ms | - | -") in [row[:6] for row in rows]


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_out_of_date_says_so_and_still_shows_the_hosts(tmp_path: Path, release: Release) -> None:
    """As when Prometheus can't store: for five minutes it answers with its last samples."""
    with served_by(tmp_path, fleet(), release, ago=120) as it:
        page = it.page()
    summary = re.sub(r"\s+", " ", page.sections[""].text)
    assert re.search(r"stale The newest sample is 2m \d+s old: Prometheus stores nothing", summary), summary
    assert "Newest sample:" not in summary
    assert "/behind/a-proxy/user/runbooks/SamplesNotStored.md" in page.links
    assert len(page.sections["Hosts"].rows) == 5

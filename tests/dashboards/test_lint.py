"""The rules of grafana/dashboard-linter, and what our own readers need, held over the committed JSON.

As tests here: uneditable-dashboard, template-datasource, template-on-time-change-reload, panel-datasource,
panel-no-targets, panel-title-description, panel-units, target-rate-interval, target-counter-agg. Those that are held
otherwise or don't fit, and why:

- target-promql, template-label-promql: Prometheus itself parses every query of panels and variables in test_queries.py.
- target-logql, target-logql-auto: there is no Loki here.
- template-job, template-instance, target-job, target-instance: records of the vocabulary have neither label; they are
  kept by host and platform, which are variables here (`test_queries_keep_to_the_chosen_host`).
- panel-title-description: the label of the data's origin (live or DEMO) is its own title, and the sentence at the top
  of a page needs none.
- panel-units: "no unit" is one, of ratios such as instructions per cycle.
- target-rate-interval: tables and numbers over the time that is shown take $__range. Records already are rates.

And our own: queries speak the vocabulary alone, but for NATIVE, and for OWN_WORDS on pages that are there for these.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.dashboards.families import names, read_by, without_strings
from tests.dashboards.queries import FOLDER, panels
from tools.exporters import FOLDERS, PLATFORM_OF

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(FOLDER.glob("*.json"))
GRID_WIDTH = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PROMETHEUS_OWN = {
    *("ALERTS", "ALERTS_FOR_STATE", "up", "scrape_duration_seconds", "scrape_samples_scraped"),
}
BELOW_ZERO = {"Error budget left": "how much too much was used says how bad it is"}
_OF_THE_MONITOR = "the monitor is no part of what it watches, and has the same words on every platform"
NATIVE = {
    "app_log_lines_unparsed_total": "lines that are no request are in no record",
    "domain:vserver:info": "which of Xen's domains is which virtual server: the vocabulary has these alone",
    "perf_event_supported": "there is no record of what can't be counted",
    "perf_profile_events_total": "an imported profile lies in the past, where rules record nothing",
    "perf_profile_samples_total": "likewise",
    "process_resident_memory_bytes": _OF_THE_MONITOR,
    "prometheus_rule_evaluation_failures_total": _OF_THE_MONITOR,
    "prometheus_rule_group_interval_seconds": _OF_THE_MONITOR,
    "prometheus_rule_group_last_duration_seconds": _OF_THE_MONITOR,
    "prometheus_tsdb_head_samples_appended_total": _OF_THE_MONITOR,
    "prometheus_tsdb_head_series": _OF_THE_MONITOR,
    "prometheus_tsdb_(storage_blocks|(wal|head_chunks)_storage_size)_bytes": _OF_THE_MONITOR,
    ".+_source_errors_total": _OF_THE_MONITOR,
    ".+_source_up": _OF_THE_MONITOR,
    ".+_source_info": "whether a host is replayed is in no record",
    "stack_part_failures_total": _OF_THE_MONITOR,
    "stack_part_up": _OF_THE_MONITOR,
    "lab_step_info": "the lab's own word of what it tries",
    "requests:duration_seconds_bucket:rate1m": "a heat map is of buckets, which the vocabulary has percentiles of",
    "requests:duration_seconds_sum:rate1m": "a mean over hours is of both, which the vocabulary has one of",
    "requests:duration_seconds_count:rate1m": "as the sum",
}
# Metrics that a page is there for, by its uid: what only one platform or source has is in no vocabulary. Others read
# records, so that a new platform needs no new panel.
OWN_WORDS = {
    **{f"virtscope-{platform}": rf"{platform}_\w+" for platform in PLATFORM_OF.values()},
    "virtscope-caches-and-events": r"resctrl_\w+|perf_(cgroup_)?event_(seconds|bytes|joules)_total",
    "virtscope-profile": r"perf_profile_\w+",
    "virtscope-experiments": r"lab_\w+",
    "virtscope-monitor": (
        rf"({'|'.join(FOLDERS)})_(source|encode|build)_\w+|process_(open|max)_fds"
        r"|perf_(open_counters|groups_reopened_total)"
        r"|sched_(switches|wait_(charged|kernel|lost)_seconds)_total"
        r"|xentop_(missing|iteration|toolstack|child)_\w+|perf_cgroups_left_out|resctrl_missing_values"
        r"|kvm_libvirt_refused_lines|openvz_\w+_(refused|unknown|unread)_\w+|ssh_\w+"
    ),
}

OF_THE_HOST = {
    "Min measured share": "of all that are counted",
    "Counted CPU share": "of all that the host uses",
    "Events": "perf-exporter counts or can't count an event for whatever runs",
    "Events not counted": "likewise",
    "Memory of $ctid": "of the one container that is chosen beside",
    "Numbers of $ctid": "likewise",
}
EXPERIMENTS = "virtscope-experiments"  # runs of hours, of days ago
MARKS_ALERTS = {
    f"virtscope-{name}"
    for name in ("fleet", "host", "applications", "consolidation", "caches-and-events", "neighbours")
}

Page = dict[str, Any]
pytestmark = pytest.mark.parametrize("page", [json.loads(path.read_text()) for path in FILES], ids=lambda p: p["uid"])


def test_dashboard_can_be_found_and_cannot_be_edited(page: Page) -> None:
    assert page["title"]
    assert page["description"].split("?")[0], "says which question it answers"
    assert "virtscope" in page["tags"]
    assert page["editable"] is False, "template-uneditable: it is generated"
    assert page["time"] == {"from": "now-7d" if page["uid"] == EXPERIMENTS else "now-1h", "to": "now"}
    assert page["graphTooltip"] == 1, "one crosshair over all panels"


def test_a_page_that_looks_at_every_moment_of_the_time_shown_is_refreshed_less_often(page: Page) -> None:
    """A refresh cancels queries that have no answer yet."""
    queries = [target["expr"] for panel in panels(page) for target in panel.get("targets", [])]
    slow = page["uid"] == EXPERIMENTS or any("[$__range:$__interval]" in query for query in queries)
    assert page["refresh"] == ("30s" if slow else "10s")


def test_links_between_dashboards_keep_time_and_selection_and_the_one_to_fleet_clears_it(page: Page) -> None:
    fleet, others = page["links"]
    assert fleet["keepTime"]
    assert not fleet["includeVars"]
    address, _, query = fleet["url"].partition("?")
    assert address == "/d/virtscope-fleet"
    chosen = {"platform", "hosts"}
    assert {f"var-{name}=$__all" for name in chosen} | {"${datasource:queryparam}"} == set(query.split("&"))
    assert others["keepTime"]
    assert others["includeVars"]


def test_links_lead_to_pages_that_there_are_and_hand_on_their_variables(page: Page) -> None:
    variables = {
        each["uid"]: {variable["name"] for variable in each["templating"]["list"]}
        for each in (json.loads(path.read_text()) for path in FILES)
    }
    links = re.findall(r'"(/d/[^"\\]*(?:\\.[^"\\]*)*)"', json.dumps([page["panels"], page["links"]]))
    for link in links:
        address, _, query = link.partition("?")
        uid = address.removeprefix("/d/")
        assert uid in variables, link
        assert set(re.findall(r"var-(\w+)=", query)) <= variables[uid], link


def test_the_name_of_an_alert_leads_to_its_runbook_and_its_applications(page: Page) -> None:
    for panel in data_panels(page):
        of_alert = [each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == "Alert"]
        linked = [each["value"] for over in of_alert for each in over["properties"] if each["id"] == "links"]
        if of_alert:
            runbook, *others = (link["url"] for link in linked[0])
            assert runbook == "http://${prometheus}/user/runbooks/" + '${__data.fields["Alert"]}.md', panel["title"]
            if page["uid"] != "virtscope-applications":
                assert others[0].startswith("/d/virtscope-applications?"), panel["title"]


def test_a_filter_acts_on_the_whole_page_or_is_not_there(page: Page) -> None:
    """What is of the host as a whole says so in its title."""
    shown = {variable["name"] for variable in page["templating"]["list"] if not variable.get("hide")}
    for name in shown & {"app", "vserver"}:
        for panel in data_panels(page):
            if panel["title"] and "host" not in panel["title"].lower() and panel["title"] not in OF_THE_HOST:
                filtered = [target for target in panel["targets"] if f"${name}" in target["expr"]]
                assert filtered, f"{panel['title']} is not filtered by {name}"
    for name in {"app", "vserver"} - shown:
        assert f"${name}" not in json.dumps([panel["targets"] for panel in data_panels(page)]), name


def test_graphs_mark_alerts(page: Page) -> None:
    names = [each["name"] for each in page["annotations"]["list"]]
    assert ("Alerts" in names) == (page["uid"] in MARKS_ALERTS)


def test_uids_are_unique(page: Page) -> None:
    assert [json.loads(path.read_text())["uid"] for path in FILES].count(page["uid"]) == 1


def test_panels_are_known_by_their_ids_and_titles(page: Page) -> None:
    ids = [panel["id"] for panel in page["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in data_panels(page)]
    assert len(set(titles)) == len(titles)
    every_id = [panel["id"] for row in page["panels"] for panel in [row, *row.get("panels", [])]]
    assert len(set(every_id)) == len(every_id)


def test_panels_lie_side_by_side(page: Page) -> None:
    for panel in page["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= GRID_WIDTH, panel.get("title")
    for one, other in itertools.combinations(page["panels"], 2):
        assert not overlap(one["gridPos"], other["gridPos"]), f"{one.get('title')} overlaps {other.get('title')}"


def test_only_what_repeats_has_a_direction_to(page: Page) -> None:
    """Grafana's newer front end gives all others with a direction the full width."""
    assert [panel["title"] for panel in panels(page) if "repeatDirection" in panel and "repeat" not in panel] == []


def test_the_first_graph_or_table_is_seen_without_scrolling_on_a_laptop(page: Page) -> None:
    """1366x768 shows 14 units of the grid beneath Grafana's and the browser's own bars."""
    first_graph = next(panel for panel in page["panels"] if panel["type"] in {"timeseries", "table"})
    assert first_graph["gridPos"]["y"] + first_graph["gridPos"]["h"] <= 14


def test_variables_come_from_the_vocabulary_of_any_data_source(page: Page) -> None:
    source, *queries = page["templating"]["list"]
    assert (source["type"], source["name"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert "regex" not in source, "any name will do"
    assert source["current"]["value"] == "default", "else Grafana takes the first by name"
    for variable in queries:
        if variable["type"] == "custom":
            continue
        assert variable["datasource"] == DATASOURCE
        assert variable["refresh"] == 2, "template-on-time-change-reload"
        assert records(variable["query"]) <= known_records() | NATIVE.keys(), variable["name"]


def test_every_panel_explains_itself(page: Page) -> None:
    for panel in data_panels(page):
        assert panel["title"] or panel["transparent"], "the label of the data's origin needs no title"
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["datasource"] == DATASOURCE, panel["title"]
        assert panel["targets"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]), panel["title"]


def test_every_value_has_a_unit_and_every_gap_a_reason(page: Page) -> None:
    for panel in data_panels(page):
        defaults = panel["fieldConfig"]["defaults"]
        overrides = [p["id"] for override in panel["fieldConfig"]["overrides"] for p in override["properties"]]
        assert "unit" in defaults or overrides.count("unit") == len(panel["targets"]), panel["title"]
        reason = panel["description"].partition("No value: ")[2] if panel["type"] == "stat" else defaults["noValue"]
        assert len(reason) > 20, panel["title"]


def test_rows_of_a_table_become_one_by_the_labels_that_are_shown(page: Page) -> None:
    """Merged before the rest is dropped, two records of one virtual server stay two rows: their names differ."""
    for panel in data_panels(page):
        if panel["type"] == "table":
            order = [transformation["id"] for transformation in panel["transformations"]]
            if order[0] == "groupingToMatrix":
                continue  # of one query, and rows by their names alone
            assert order.index("filterFieldsByName") < order.index("merge"), panel["title"]


def test_every_graph_has_a_zero_and_names_its_series(page: Page) -> None:
    for panel in data_panels(page):
        if panel["type"] == "timeseries":
            defaults = panel["fieldConfig"]["defaults"]
            if panel["title"] in BELOW_ZERO:
                assert defaults["custom"]["axisSoftMin"] == 0, panel["title"]
            else:
                assert defaults["min"] == 0, panel["title"]
            assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


def test_queries_speak_the_vocabulary_alone(page: Page) -> None:
    for panel in data_panels(page):
        for target in panel["targets"]:
            assert records(target["expr"]) <= known_records() | NATIVE.keys(), panel["title"]
            named = re.findall(r"(\w[\w:]*)\{", target["expr"])
            matched = [each for pattern in names(target["expr"]) for each in re.split(r"(?<=\w)\|(?=\w+:)", pattern)]
            spoken = {metric for metric in [*named, *matched] if not is_own_word(page, metric)}
            assert spoken <= known_records() | PROMETHEUS_OWN | NATIVE.keys(), panel["title"]


def test_queries_keep_to_the_chosen_host(page: Page) -> None:
    for panel in data_panels(page):
        for target in panel["targets"]:
            selectors = re.findall(r"(?<!\$)\{([^}]*)\}", target["expr"])  # not ${variable}
            assert selectors, panel["title"]
            # Prometheus and the stack around it are there once for all hosts.
            of_hosts = [selector for selector in selectors if not re.search('job="(prometheus|stack)"', selector)]
            chosen = [re.search(r'\bhost=("\$(\w+_)?host"|~"\$hosts")', selector) for selector in of_hosts]
            assert all(chosen), panel["title"]


def test_rates_are_taken_of_what_no_rule_records_and_over_grafana_s_own_interval(page: Page) -> None:
    """target-rate-interval; at any zoom such a rate has samples enough."""
    for panel in data_panels(page):
        for target in panel["targets"]:
            rates = re.findall(r"\b(?:rate|irate|increase)\s*\(\s*(\w*)(?:\{([^}]*)\})?\[([^\]]*)\]", target["expr"])
            for name, selector, window in rates:
                (metric,) = [name] if name else re.findall(r'__name__=~"([^"]+)"', selector)
                assert metric in NATIVE or is_own_word(page, metric), panel["title"]
                assert window in {"$__rate_interval", "$__range"}, panel["title"]


def test_a_rate_in_a_graph_is_over_a_minute_at_least_as_those_of_the_rules_are(page: Page) -> None:
    """$__rate_interval is four times the least step: of five seconds, where samples are 20 s apart it has gaps."""
    for panel in data_panels(page):
        for target in panel["targets"]:
            if "$__rate_interval" in target["expr"]:
                assert target.get("interval") in {"15s", "1m"}, panel["title"]


def test_counters_are_shown_as_rates(page: Page) -> None:
    """target-counter-agg. Those of the lab begin at 0 with each step: their last values are the step's own."""
    for panel in data_panels(page):
        for target in panel["targets"]:
            expr = without_strings(target["expr"])
            counters = re.findall(r"\b(?!lab_)\w+_total\b", expr)
            rated = re.findall(r"\b(?:rate|increase)\s*\([^\[]*?\b((?!lab_)\w+_total)\b", expr)
            assert len(counters) == len(rated), panel["title"]


def is_own_word(page: Page, metric: str) -> bool:
    """Whether the page is there for a metric, or for all whose name fits a regular expression."""
    families = read_by(f'{{__name__=~"{metric}"}}') or {metric}
    return all(re.fullmatch(OWN_WORDS.get(page["uid"], ""), family) for family in families)


def data_panels(page: Page) -> list[dict[str, Any]]:
    return [panel for panel in panels(page) if panel["type"] != "text"]


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


def records(promql: str) -> set[str]:
    return set(re.findall(r"\b\w+:\w+:\w+\b", promql))


@functools.cache
def known_records() -> set[str]:
    """Records of the vocabulary: those a rules file writes, less the steps on the way that are for that file alone."""
    groups = (
        group
        for file in [*(ROOT / "prometheus" / "rules").glob("*.yml"), *(ROOT / "alerts" / "generated").glob("*.yml")]
        for group in yaml.safe_load(file.read_text())["groups"]
    )
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    return {record for record in recorded if record.split(":")[0] in {"vserver", "host", "app", "monitor"}}

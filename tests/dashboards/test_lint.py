"""Requirements of Grafana and of readers on the committed JSON.

Rules taken from grafana/dashboard-linter: uneditable-dashboard, template-datasource, template-on-time-change-reload,
panel-datasource, panel-no-targets, panel-title-description, panel-units, target-rate-interval, target-counter-agg.
Prometheus parses each query in test_values.py and tests/demo. Records have neither job nor instance; host and platform
identify them. Queries only use the vocabulary, except for NATIVE, and OWN_WORDS on the pages for these metrics.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any

from dashboards.signals import neighbours
from deploy.exporters import FOLDERS, PLATFORM_OF
from tests.dashboards.families import names, read_by, without_strings
from tests.dashboards.queries import FOLDER, panels, read

ROOT = Path(__file__).resolve().parents[2]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PROMETHEUS_OWN = {"ALERTS", "ALERTS_FOR_STATE", "up", "scrape_duration_seconds", "scrape_samples_scraped"}
BELOW_ZERO = {"Error budget left"}
# Metrics without a record that queries may read.
NATIVE = {
    # Not in the vocabulary: log lines that aren't requests, uncountable events, and whether data is replayed.
    *("app_log_lines_unparsed_total", "perf_event_supported", ".+_source_info"),
    # Sloth's error ratios by window.
    *(f"slo:sli_error:ratio_rate{window}" for window in ("5m", "1h", "6h", "1d", "3d")),
    # The lab's current step, and the mapping of Xen domains to virtual servers.
    *("lab_step_info", "domain:vserver:info"),
    # Heat maps need buckets, and means over hours need sums and counts.
    *(f"requests:duration_seconds_{part}:rate1m" for part in ("bucket", "sum", "count")),
    # Metrics of the monitor itself, which are the same on every platform.
    *("process_resident_memory_bytes", "prometheus_rule_evaluation_failures_total"),
    *("prometheus_rule_group_interval_seconds", "prometheus_rule_group_last_duration_seconds"),
    *("prometheus_tsdb_head_samples_appended_total", "prometheus_tsdb_head_series"),
    *("stack_part_failures_total", "stack_part_up"),
    "prometheus_tsdb_(storage_blocks|(wal|head_chunks)_storage_size)_bytes",
}
# Platform-specific metrics for which a page exists, by its uid; the vocabulary doesn't have them. Other pages read
# records, so that a new platform needs no new panel.
OWN_WORDS = {
    **{f"virtscope-{platform}": rf"{platform}_\w+" for platform in PLATFORM_OF.values()},
    "virtscope-kvm": r"(kvm|pve)_\w+",  # also prometheus-pve-exporter's
    "virtscope-caches-and-events": r"resctrl_\w+|perf_(cgroup_)?event_(seconds|bytes|joules)_total",
    "virtscope-profile": r"perf_profile_\w+",
    "virtscope-experiments": r"lab_\w+",
    "virtscope-monitor": (
        rf"({'|'.join(FOLDERS)})_(source|encode|build)_\w+|process_(open|max)_fds"
        r"|perf_(open_counters|groups_reopened_total)"
        r"|sched_(switches|wait_(charged|kernel|lost)_seconds)_total"
        r"|xentop_(missing|iteration|toolstack|child)_\w+|perf_cgroups_left_out|resctrl_missing_values"
        r"|kvm_libvirt_refused_lines|openvz_\w+_(refused|unknown|unread)_\w+|(ssh|advise)_\w+"
    ),
}
# Panels that ignore their page's filters although the title doesn't say so: they show everything, or one container.
OF_THE_HOST = {
    *("Min measured share", "Counted CPU share", "Events", "Events not counted"),
    *("Memory of $ctid", "Numbers of $ctid", "Storages"),
}
MAX_QUERY = 600  # characters: longer queries can't be reviewed; record a part instead
EXPERIMENTS = "virtscope-experiments"  # runs of hours, of days ago
MARK_ALERTS = ("fleet", "host", "applications", "consolidation", "caches-and-events", "neighbours")

PAGES: dict[str, dict[str, Any]] = {page["uid"]: page for page in map(read, sorted(FOLDER.glob("*.json")))}
# Each panel with data, by page and title.
PANELS = [
    (uid, panel["title"], panel) for uid, page in PAGES.items() for panel in panels(page) if panel["type"] != "text"
]
TARGETS = [(uid, title, panel, target) for uid, title, panel in PANELS for target in panel["targets"]]


def test_dashboards_can_be_found_and_cannot_be_edited() -> None:
    assert len(PAGES) == len(list(FOLDER.glob("*.json"))), "uids are unique"
    for uid, page in PAGES.items():
        assert page["title"], uid
        assert page["description"].split("?")[0], "says which question it answers"
        assert "virtscope" in page["tags"], uid
        # It is generated, and shares one crosshair.
        assert (page["editable"], page["graphTooltip"]) == (False, 1), uid
        assert page["time"] == {"from": "now-7d" if uid == EXPERIMENTS else "now-1h", "to": "now"}
        # A refresh cancels pending queries, and those over the whole time range are slow.
        slow = uid == EXPERIMENTS or "[$__range:$__interval]" in json.dumps(page["panels"])
        assert page["refresh"] == ("30s" if slow else "10s"), uid
        marked = "Alerts" in [each["name"] for each in page["annotations"]["list"]]
        assert marked == (uid.removeprefix("virtscope-") in MARK_ALERTS), uid


def test_queries_use_variables_that_their_page_has() -> None:
    for uid, title, _, target in TARGETS:
        used = set(re.findall(r"\$\{?([A-Za-z]\w*)", target["expr"]))
        assert used <= {variable["name"] for variable in PAGES[uid]["templating"]["list"]}, title


def test_links_lead_to_pages_that_there_are_and_hand_on_their_variables() -> None:
    """Links between pages keep time and selection, except that the link to the fleet clears the selection."""
    variables = {uid: {variable["name"] for variable in page["templating"]["list"]} for uid, page in PAGES.items()}
    for uid, page in PAGES.items():
        fleet, others = page["links"]
        assert (fleet["keepTime"], fleet["includeVars"]) == (True, False), uid
        address, _, query = fleet["url"].partition("?")
        assert address == "/d/virtscope-fleet"
        assert set(query.split("&")) == {"var-platform=$__all", "var-hosts=$__all", "${datasource:queryparam}"}
        assert (others["keepTime"], others["includeVars"]) == (True, True), uid
        links = re.findall(r'"(/d/[^"\\]*(?:\\.[^"\\]*)*)"', json.dumps([page["panels"], page["links"]]))
        for link in links:
            address, _, query = link.partition("?")
            assert set(re.findall(r"var-(\w+)=", query)) <= variables[address.removeprefix("/d/")], link


def test_the_name_of_an_alert_leads_to_its_runbook_and_its_applications() -> None:
    for uid, title, panel in PANELS:
        of_alert = [each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == "Alert"]
        linked = [each["value"] for over in of_alert for each in over["properties"] if each["id"] == "links"]
        if of_alert:
            runbook, *others = (link["url"] for link in linked[0])
            assert runbook == "http://${prometheus}/user/runbooks/" + '${__data.fields["Alert"]}.md', title
            assert uid == "virtscope-applications" or others[0].startswith("/d/virtscope-applications?"), title


def test_a_filter_acts_on_the_whole_page_or_is_not_there() -> None:
    """Panels about the whole host say so in their title."""
    for uid, page in PAGES.items():
        shown = {variable["name"] for variable in page["templating"]["list"] if not variable.get("hide")}
        of_page = [(title, json.dumps(panel["targets"])) for of, title, panel in PANELS if of == uid]
        for name in ("app", "vserver"):
            filtered = {title for title, targets in of_page if f"${name}" in targets}
            for title, _ in of_page:
                if title and "host" not in title.lower() and title not in OF_THE_HOST:
                    assert (title in filtered) == (name in shown), f"{uid}: {title} and ${name}"
            assert name in shown or not filtered, uid


def test_panels_are_known_by_their_ids_and_titles_and_lie_side_by_side() -> None:
    for uid, page in PAGES.items():
        ids = [panel["id"] for row in page["panels"] for panel in [row, *row.get("panels", [])]]
        assert len(set(ids)) == len(ids), uid
        titles = [title for of, title, _ in PANELS if of == uid]
        assert len(set(titles)) == len(titles), uid
        for one, other in itertools.combinations(page["panels"], 2):
            assert not overlap(one["gridPos"], other["gridPos"]), f"{one.get('title')} overlaps {other.get('title')}"
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in page["panels"]), uid
        # Grafana's newer front end stretches a panel with a direction to full width if it isn't repeated.
        assert [each["title"] for each in panels(page) if "repeatDirection" in each and "repeat" not in each] == []


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in (("x", "w"), ("y", "h"))
    )


def test_variables_come_from_the_vocabulary_of_any_data_source() -> None:
    for uid, page in PAGES.items():
        source, *variables = page["templating"]["list"]
        assert (source["type"], source["name"], source["query"]) == ("datasource", "datasource", "prometheus")
        assert "regex" not in source, "any name will do"
        assert source["current"]["value"] == "default", "else Grafana takes the first by name"
        for variable in variables:
            if variable["type"] != "custom":
                assert variable["datasource"] == DATASOURCE, uid
                assert variable["refresh"] == 2, "template-on-time-change-reload"
                assert records(variable["query"]) <= VOCABULARY | NATIVE, f"{uid}: {variable['name']}"


def test_every_panel_explains_itself_and_says_why_it_has_no_value() -> None:
    for uid, title, panel in PANELS:
        assert title or panel["transparent"], "the label of the data's origin needs no title"
        assert len(panel["description"]) > 20, title
        assert panel["datasource"] == DATASOURCE, title
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0, title
        defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
        units = [each["id"] for override in overrides for each in override["properties"]].count("unit")
        assert "unit" in defaults or units == len(panel["targets"]), title
        reason = defaults["noValue"]
        if panel["type"] == "stat":
            assert len(panel["description"].partition("No value: ")[2]) > 20, title
            (of_null,) = [each["options"] for each in defaults["mappings"] if each["type"] == "special"]
            assert (of_null["match"], of_null["result"]["text"]) == ("null+nan", reason), title
        else:
            assert 20 < len(reason) <= 100, f"{uid}: {title}"


def test_every_graph_has_a_zero_and_names_its_series_and_leaves_gaps() -> None:
    for _, title, panel in PANELS:
        if panel["type"] == "timeseries":
            defaults = panel["fieldConfig"]["defaults"]
            zero = defaults["custom"].get("axisSoftMin") if title in BELOW_ZERO else defaults["min"]
            assert zero == 0, title
            assert all(target["legendFormat"] for target in panel["targets"]), title
        if panel["type"] in {"timeseries", "state-timeline"}:
            (of_all,) = [each for each in panel["fieldConfig"]["overrides"] if each["matcher"]["options"] == "/.*/"]
            assert of_all["properties"] == [{"id": "noValue"}], "no value: Grafana removes the panel's own from gaps"


def test_queries_speak_the_vocabulary_alone_and_keep_to_the_chosen_host() -> None:
    for uid, title, _, target in TARGETS:
        expr = target["expr"]
        assert len(expr) <= MAX_QUERY, f"{uid}: {title}"
        assert records(expr) <= VOCABULARY | NATIVE, title
        named = re.findall(r"(\w[\w:]*)\{", expr)
        matched = [each for pattern in names(expr) for each in re.split(r"(?<=\w)\|(?=\w+:)", pattern)]
        spoken = {metric for metric in [*named, *matched] if not is_own_word(uid, metric)}
        assert spoken <= VOCABULARY | PROMETHEUS_OWN | NATIVE, title
        selectors = re.findall(r"(?<!\$)\{([^}]*)\}", expr)  # not ${variable}
        assert selectors, title
        # Prometheus and the rest of the stack exist once for all hosts.
        of_hosts = [selector for selector in selectors if not re.search('job="(prometheus|stack)"', selector)]
        assert all(re.search(r'\bhost=("\$(\w+_)?host"|~"\$hosts")', selector) for selector in of_hosts), title


def test_counters_are_shown_as_rates_over_grafana_s_own_interval_and_what_a_rule_records_isn_t_a_counter() -> None:
    """The lab's counters start at 0 in each step: the last value is the step's total."""
    for uid, title, _, target in TARGETS:
        # The variables choose between two counters.
        expr = re.sub(r'"\$(other_)?kind"', '~"perf_profile_samples_total"', target["expr"])
        for name, selector, window in re.findall(
            r"\b(?:rate|irate|increase)\s*\(\s*(\w*)(?:\{([^}]*)\})?\[([^\]]*)\]", expr
        ):
            (metric,) = [name] if name else re.findall(r'__name__=~"([^"]+)"', selector)
            assert metric in NATIVE or is_own_word(uid, metric), title
            assert window in {"$__rate_interval", "$__range"}, title
        counters = re.findall(r"\b(?!lab_)\w+_total\b", without_strings(expr))
        rated = re.findall(r"\b(?:rate|increase)\s*\([^\[]*?\b((?!lab_)\w+_total)\b", without_strings(expr))
        assert len(counters) == len(rated), title
        # $__rate_interval is four times the smallest step: with 5 s there are gaps if samples are 20 s apart.
        assert "$__rate_interval" not in expr or target.get("interval") in {"15s", "1m"}, title


def test_a_cell_of_the_matrix_leads_to_who_waits_and_to_who_ran() -> None:
    """Neighbours that aren't virtual servers have no page; their names may still look like a unit."""
    (panel,) = (panel for _, title, panel in PANELS if title == neighbours.MATRIX.name)
    waits, ran = '${__data.fields["Waits"]', "${__field.name"
    for column in ("batch", "localhost", "system.slice/shop.service", "a.service.b"):
        of_cells = {each["title"]: each["url"] for each in links(panel, column)}
        assert list(of_cells) == [f"{waits}}} (waits)", f"{ran}}} (ran)"], column
        for name, url in zip((waits, ran), of_cells.values(), strict=True):
            assert url.startswith("/d/virtscope-virtual-servers?")
            assert url.endswith(f"&var-hosts=${{host:percentencode}}&var-vserver={name}:percentencode}}")
    for column in (neighbours.TOTAL, "host", "backup.service", "user-1000.slice"):
        assert [each["title"] for each in links(panel, column)] == [f"{waits}}} (waits)"], column
    assert any(each["url"].startswith("/d/virtscope-neighbours?") for each in links(panel, "Waits"))


def links(panel: dict[str, Any], column: str) -> list[dict[str, str]]:
    """The links of a column: Grafana 12.4 appends the links of each override to the earlier ones."""
    found: list[dict[str, str]] = []
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        if matcher["id"] == "byRegexp":
            matches = re.search(matcher["options"].strip("/"), column) is not None
        else:
            matches = matcher["options"] == column or (matcher["id"] == "byType" and column != "Waits")
        for each in override["properties"]:
            found += each["value"] if matches and each["id"] == "links" else []
    return found


def is_own_word(uid: str, metric: str) -> bool:
    """Whether a page covers a metric, by name or by regular expression."""
    families = read_by(f'{{__name__=~"{metric}"}}') or {metric}
    return all(re.fullmatch(OWN_WORDS.get(uid, ""), family) for family in families)


def records(promql: str) -> set[str]:
    return set(re.findall(r"\b\w+:\w+:\w+\b", promql))


# Records of a rules file, without the intermediate ones used only there.
VOCABULARY = {
    record
    for pattern in ("prometheus/rules/*.yml", "alerts/generated/*.yml")
    for file in ROOT.glob(pattern)
    for record in re.findall(r"record: ((?:vserver|host|app|monitor):\S+)", file.read_text())
}

"""`make doctor`: checks somebody's own Prometheus, and says what to do: targets, intervals, rules, alerts, Grafana.

    python -m deploy.doctor http://prometheus:9090 [--grafana http://grafana:3000]

It reads the HTTP API alone. A user and password may be in the URL; Grafana's token is in GRAFANA_TOKEN. Exits with 1 if
something is wrong.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Literal, NamedTuple

from deploy import durations
from deploy.api import Api, Unanswered
from deploy.programs import CHECKOUT
from deploy.terminal import printable

MIN_VERSION = (2, 42)
MAX_SCRAPE_SECONDS = 15.0  # rates of requests are over a minute, in which one scrape may fail
MAX_EVALUATION_SECONDS = 60.0
WEEK = 7 * 86400.0  # of the baselines
MANY = 5  # names in a line
HOW = "docs/own-prometheus.md"
ADDRESS = "is this its address? Scheme, port and path as in http://prometheus:9090 or https://example.org/prometheus"


class Exporter(NamedTuple):
    """An exporter that rules read; `metric` is one of its own. Without `platform`, any."""

    name: str
    metric: str
    platform: str = ""


EXPORTERS = (
    Exporter("xentop-exporter", "xentop_up", "xen"),
    Exporter("kvm-exporter", "kvm_up", "kvm"),
    Exporter("vestat-exporter", "vestat_up", "openvz"),
    Exporter("cAdvisor", "machine_cpu_cores", "cgroup"),
    Exporter("sched-exporter", "sched_up"),
    Exporter("perf-exporter", "perf_up"),
    Exporter("node_exporter", "node_uname_info"),
)
# Files of rules by the platform that needs them; all others are for all platforms.
OF_PLATFORM = {"xen": "xen", "kvm": "kvm", "openvz": "openvz", "openvz_beancounters": "openvz", "cgroup": "cgroup"}


class Finding(NamedTuple):
    """What was found, and what to do about it."""

    state: Literal["ok", "note", "wrong"]
    what: str
    remedy: str = ""


def prometheus(api: Api) -> Iterator[Finding]:
    """All that is found in a Prometheus; raises `Unanswered`."""
    version = str(api.data("/api/v1/status/buildinfo")["version"])
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < MIN_VERSION:
        yield Finding("wrong", f"Prometheus {version} is too old", "2.42 is the oldest that is tested")
    else:
        yield Finding("ok", f"Prometheus {version}")
    yield from retention(str(api.data("/api/v1/status/runtimeinfo")["storageRetention"]))
    found = {
        exporter: [labels for labels, _ in api.query(f"group by (job, instance, host, platform) ({exporter.metric})")]
        for exporter in EXPORTERS
    }
    targets = api.data("/api/v1/targets", state="active")["activeTargets"]
    yield from _targets(found, targets)
    platforms = {exporter.platform for exporter, labels in found.items() if labels} - {""}
    yield from _rules(api.data("/api/v1/rules")["groups"], platforms)
    yield from _records(api, found)
    if not api.data("/api/v1/alertmanagers")["activeAlertmanagers"]:
        yield Finding("wrong", "no Alertmanager: nobody is notified", "alerting: in prometheus.yml; docs/alerting.md")


def retention(text: str) -> Iterator[Finding]:
    """`text` is a duration, a size, or both ("15d or 1GB")."""
    try:
        seconds = durations.parse(text.split(" or ", maxsplit=1)[0])
    except ValueError:
        return
    if seconds < WEEK:
        yield Finding(
            "note",
            f"samples are kept for {text}, baselines are of a week",
            "start Prometheus with --storage.tsdb.retention.time=30d",
        )


def _targets(found: dict[Exporter, list[dict[str, str]]], targets: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Targets of known exporters: their labels, intervals and health."""
    if not any(labels for exporter, labels in found.items() if exporter.name != "node_exporter"):
        yield Finding("wrong", "no exporter that virtscope reads is scraped", f"{HOW} and docs/watched-hosts.md")
    intervals = {
        (target["labels"].get("job"), target["labels"].get("instance")): target["scrapeInterval"] for target in targets
    }
    for exporter, series in found.items():
        seldom = set()
        for labels in series:
            job, instance = labels.get("job", ""), labels.get("instance", "")
            what = f"{exporter.name} at {instance} (job {job})"
            wanted = f"labels: {{host: NAME, platform: {exporter.platform or 'xen|kvm|openvz|base'}}} at its target"
            if missing := [name for name in ("host", "platform") if not labels.get(name)]:
                yield Finding("wrong", f"{what} has no {' and no '.join(missing)}", wanted)
            elif exporter.platform and labels["platform"] != exporter.platform:
                yield Finding("wrong", f"{what} has platform {labels['platform']}", wanted)
            if durations.parse(intervals.get((job, instance), "0s")) > MAX_SCRAPE_SECONDS:
                seldom.add(f"{job}, every {intervals[job, instance]}")
        if seldom:
            yield Finding("wrong", f"scraped too seldom: {_some(seldom)}", "scrape_interval: 15s, or less")
        if series and not seldom:
            yield Finding("ok", f"{exporter.name}: {len(series)} scraped")
    for target in targets:
        labels = target["labels"]
        if target["health"] == "down" and labels.get("host") and labels.get("platform"):
            where = f"{labels.get('instance')} (job {labels.get('job')}, host {labels['host']})"
            yield Finding("wrong", f"{where} is down: {target['lastError']}", "docs/runbooks/ExporterDown.md")


def _loaded(loaded: set[str], platforms: set[str]) -> Iterator[Finding]:
    """Whether the rules of each file that these platforms need are loaded; `loaded` are names of rules."""
    lacking = any_loaded = False
    unloaded = set()
    for file in (*CHECKOUT.glob("prometheus/rules/*.yml"), *CHECKOUT.glob("alerts/rules/*.yml")):
        if OF_PLATFORM.get(file.stem, "") not in {"", *platforms}:
            continue
        names = set(re.findall(r"(?m)^ *- (?:record|alert): (\S+)", file.read_text()))
        shown = str(file.relative_to(CHECKOUT))
        if (missing := names - loaded) == names:
            unloaded.add(shown)
            continue
        any_loaded = True
        if missing:
            lacking = True
            yield Finding("wrong", f"{shown} lacks {_some(missing)}", f"copy it again; {HOW}")
    if unloaded:
        which = f"rules are not loaded: {', '.join(sorted(unloaded))}" if any_loaded else "no rules are loaded"
        yield Finding("wrong", which, f"rule_files: in prometheus.yml; {HOW}")
    elif not lacking:
        yield Finding("ok", "rules and alerts are loaded")


def _rules(groups: Sequence[dict[str, Any]], platforms: set[str]) -> Iterator[Finding]:
    """Rules: whether they are loaded once, work, and are in time. `platforms` are scraped."""
    rules = [rule for group in groups for rule in group["rules"]]
    yield from _loaded({rule["name"] for rule in rules}, platforms)
    for rule in rules:
        if rule["health"] == "err":
            yield Finding("wrong", f"{rule['name']} fails: {rule['lastError']}", "docs/runbooks/RulesFailing.md")
    files: dict[tuple[str, str, str], set[str]] = {}
    for group in groups:
        if group["interval"] > MAX_EVALUATION_SECONDS and any(
            rule["name"] == "host:cpu_usage:rate" for rule in group["rules"]
        ):
            yield Finding("wrong", f"group {group['name']} is evaluated every {group['interval']:g} s", "1m, or less")
        if group["evaluationTime"] > group["interval"]:
            took = f"{group['evaluationTime']:.0f} s of {group['interval']:g} s"
            yield Finding("wrong", f"group {group['name']} takes {took}", "docs/runbooks/RuleEvaluationsMissed.md")
        for rule in group["rules"]:
            key = rule["name"], rule["query"], json.dumps(rule.get("labels"), sort_keys=True)
            files.setdefault(key, set()).add(group["file"])
    if twice := {frozenset(of) for (name, *_), of in files.items() if len(of) > 1 and ":" in name}:
        yield Finding(
            "wrong", f"rules are loaded twice: {_some({' and '.join(sorted(of)) for of in twice})}", "one is enough"
        )


def _records(api: Api, found: dict[Exporter, list[dict[str, str]]]) -> Iterator[Finding]:
    """Hosts whose exporters are scraped, and records of them."""
    recorded, overhead = (
        {(labels.get("host"), labels.get("platform")) for labels, _ in api.query(name)}
        for name in ("host:cpu_usage:rate", "host:overhead_cpu:rate")
    )
    scraped = {
        (labels["host"], labels["platform"])
        for exporter, series in found.items()
        for labels in series
        if labels.get("host") and labels.get("platform") == exporter.platform
    }
    nodes = {labels.get("host") for exporter, of in found.items() if exporter.name == "node_exporter" for labels in of}
    if without := {f"{host} ({platform})" for host, platform in scraped - recorded if platform != "cgroup"}:
        yield Finding("wrong", f"nothing is recorded of {_some(without)}", "wait two minutes; docs/troubleshooting.md")
    if alone := {host for host, platform in scraped if platform == "cgroup" and host not in nodes}:
        yield Finding("note", f"no overhead of containers' hosts {_some(alone)}", "scrape node_exporter on them, too")
    elif unknown := {f"{host} ({platform})" for host, platform in scraped & recorded - overhead}:
        yield Finding("note", f"no overhead is known of {_some(unknown)}", "docs/vocabulary.md")
    if scraped & recorded:
        yield Finding("ok", f"{len(scraped & recorded)} of {len(scraped)} hosts are recorded")
    if not api.query("app:requests:rate"):
        yield Finding("note", "no application's requests are counted", "docs/sensors.md")


def grafana(api: Api) -> Iterator[Finding]:
    """All that is found in a Grafana; raises `Unanswered`."""
    yield Finding("ok", f"Grafana {api.get('/api/health')['version']}")
    sources = [source for source in api.get("/api/datasources") if source["type"] == "prometheus"]
    if not sources:
        yield Finding("wrong", "Grafana has no data source of type Prometheus", "docs/mixin.md")
    for source in sources:
        try:
            health = api.get(f"/api/datasources/uid/{source['uid']}/health")
            said = "" if health.get("status") == "OK" else str(health.get("message"))
        except Unanswered as error:
            said = str(error)
        what = f"data source {source['name']} ({source['url']})"
        yield Finding("wrong", f"{what}: {said}", "its URL, as Grafana reaches it") if said else Finding("ok", what)
    wanted = {json.loads(file.read_text())["uid"] for file in CHECKOUT.glob("dashboards/json/*.json")}
    has = {found["uid"] for found in api.get("/api/search", type="dash-db", limit="5000")}
    if missing := wanted - has:
        yield Finding(
            "wrong", f"{len(missing)} of {len(wanted)} dashboards are missing: {_some(missing)}", "docs/mixin.md"
        )
    else:
        yield Finding("ok", f"{len(wanted)} dashboards")


def _some(names: set[str]) -> str:
    """The first of these names."""
    shown = ", ".join(sorted(names)[:MANY])
    return shown if len(names) <= MANY else f"{shown} and {len(names) - MANY} more"


def _found(findings: Iterator[Finding], credentials: str) -> Iterator[Finding]:
    """These findings, the last one that there are no more; `credentials` is how they are given."""
    try:
        yield from findings
    except Unanswered as error:
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            remedy = credentials
        elif "certificate" in str(error):
            remedy = "SSL_CERT_FILE=FILE, the certificate of its authority"
        else:
            remedy = ADDRESS
        yield Finding("wrong", str(error), remedy)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make doctor",
        usage="make doctor PROMETHEUS=URL [GRAFANA=URL]",
        description="Check a Prometheus and a Grafana that weren't started from here.",
    )
    parser.add_argument("prometheus", metavar="URL", help="such as http://prometheus:9090")
    parser.add_argument("--grafana", metavar="URL", help="such as http://grafana:3000; its token in GRAFANA_TOKEN")
    given = parser.parse_args()
    findings = [*_found(prometheus(Api(given.prometheus)), "http://USER:PASSWORD@HOST:PORT")]
    if given.grafana:
        token = os.environ.get("GRAFANA_TOKEN", "")
        findings += _found(grafana(Api(given.grafana, token)), "GRAFANA_TOKEN=TOKEN of a service account, a Viewer")
    for finding in findings:
        print(printable(f"{finding.state:6}{finding.what}"))
        if finding.remedy:
            print(printable(f"      -> {finding.remedy}"))
    wrong = sum(finding.state == "wrong" for finding in findings)
    print(f"{wrong} wrong" if wrong else "nothing wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

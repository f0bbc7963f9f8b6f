"""What prometheus.yml lets targets say: metrics of their own job, about themselves, within limits."""

import gzip
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.exporters import FOLDERS, OF_ANY_PLATFORM, PLATFORM_OF, prefixes
from tests.dashboards.families import families
from tests.support import Exposition, Prometheus
from tests.support.endpoints import QuietHandler, answers, http_server
from tests.support.waiting import wait_for
from tools.metric_reference import PAGES, VARIES

ROOT = Path(__file__).resolve().parents[2]
SCRAPES = {
    job["job_name"]: job for job in yaml.safe_load((ROOT / "prometheus/prometheus.yml").read_text())["scrape_configs"]
}
OWN = {"prometheus", "alertmanager", "stack"}  # the stack's own programs
ON_HOSTS = (*FOLDERS, "node", "cadvisor", "telegraf", "app", "lab")
IN_GUESTS = ("guest", "telegraf", "app")

# Metrics that are read: the jobs that may expose them, by name prefix. The first matching prefix counts.
SAID_BY: dict[str, set[str]] = {
    "perf_cgroup_": {"perf"},
    **{prefix: {exporter} for exporter in FOLDERS for prefix in prefixes(exporter)},
    "perf_": {"perf", "guest"},
    "node_": {"node", "guest"},
    "app_": {"telegraf"},
    "lab_": {"lab"},
    "container_": {"cadvisor"},
    "machine_": {"cadvisor"},
    "process_": {*ON_HOSTS, *IN_GUESTS},
    "ssh_": {"ssh"},  # tests/ssh/test_prometheus.py
    **{own: set() for own in ("prometheus_", "alertmanager_", "stack_", "sloth_", "scrape_", "ALERTS")},
}
IDENTITY = ("host", "platform", "vserver", "job", "instance")
ONE_OF_EACH_JOB = (
    *(f"{exporter}_up" for exporter in FOLDERS),
    *("node_load1", "machine_cpu_cores", "probe_success", "lab_clients"),
)


@cache
def read_names() -> set[str]:
    """Every metric read by rules, alerts and dashboards that isn't a record, and all of the exporters' own metrics."""
    files = [file for pattern in ("prometheus/rules/**/*.yml", "alerts/**/*.yml") for file in ROOT.glob(pattern)]
    texts = [
        rule["expr"]
        for file in files
        for group in (yaml.safe_load(file.read_text()) or {}).get("groups", ())
        for rule in group["rules"]
    ]
    for file in ROOT.glob("dashboards/json/*.json"):
        texts += re.findall(r'"expr": "(.*)"', file.read_text())
    words = {word for text in texts for word in re.findall(r"(?<![\w:/])[a-zA-Z_]\w+(?![\w:(])", text)}
    read = {word for word in words if word.startswith(tuple(SAID_BY))}.union(families(), *golden_names().values())
    assert {"xen_domain_cpu_seconds_total", "app_request_duration_seconds_bucket", "lab_step_info"} <= read
    assert all(name.startswith(tuple(SAID_BY)) for name in read)
    return read


def golden_pages() -> dict[str, tuple[str, str]]:
    """Every page written by an exporter: exporter and text, by the page's name."""
    of = {name: exporter for exporter, folder in FOLDERS.items() for name in (exporter, folder)}
    pages = {file.stem: file.read_text().replace(VARIES, "1") for file in sorted(PAGES.glob("*.prom"))}
    return {name: (of[name.partition("-")[0]], text) for name, text in pages.items() if name.partition("-")[0] in of}


def golden_names() -> dict[str, set[str]]:
    return {
        page: {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
        for page, (_, text) in golden_pages().items()
    }


def jobs_that_may_say(name: str) -> set[str]:
    return next((jobs for beginning, jobs in SAID_BY.items() if name.startswith(beginning)), set())


@pytest.fixture(scope="module", params=["prometheus", pytest.param("prometheus3", marks=pytest.mark.system)])
def prometheus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes for every job: wanted metrics, unwanted ones, and too many."""
    program: Literal["prometheus", "prometheus3"] = request.param
    names = [*sorted(read_names()), "planted:cpu_usage:rate", "xen_planted:rate", "ALERTS", "ALERTS_FOR_STATE", "up"]
    names += ["scrape_samples_scraped", "sloth_slo_info", "app_log_lines_total"]
    everything = "".join(f"{name} 77.5\n" for name in names)
    labels = ",".join(f'{name}="victim"' for name in IDENTITY)
    spoofed = "".join(f"{name}{{{labels}}} 77.5 {int(time.time() - 600) * 1000}\n" for name in ONE_OF_EACH_JOB)
    jobs: dict[str, list[dict[str, Any]]] = {job: [] for job in {*ON_HOSTS, *IN_GUESTS}}
    with ExitStack() as stack:

        def watch(job: str, text: str | Callable[[], str], **labels: str) -> None:
            address = stack.enter_context(Exposition(text)).address
            jobs[job].append({"targets": [address], "labels": labels})

        for job in ON_HOSTS:
            watch(job, everything, host="everything", platform="test")
            watch(job, spoofed, host="spoofed", platform="test")
            watch(job, spoofed)
        for job in IN_GUESTS:
            watch(job, everything, host="everything in guest", platform="test", vserver="guest")
            watch(job, spoofed, host="spoofed", platform="test", vserver="guest")
        for page, (exporter, text) in golden_pages().items():
            watch(exporter, text, host=f"golden {page}")
        watch("node", "node_load1 1\n", host="misplaced", vserver="guest")
        few = SCRAPES["guest"]["sample_limit"]
        watch("guest", "".join(f'node_x{{n="{n}"}} 1\n' for n in range(few)), host="limit", vserver="not too many")
        watch("guest", "".join(f'node_x{{n="{n}"}} 1\n' for n in range(few + 1)), host="limit", vserver="samples")
        watch("guest", "# " + "x" * 4_200_000 + "\nnode_x 1\n", host="limit", vserver="body")
        watch("guest", f'node_x{{name="{"x" * 4097}"}} 1\n', host="limit", vserver="label value")
        watch("guest", f'node_x{{{"n" * 101}="x"}} 1\n', host="limit", vserver="label name")
        many = ",".join(f'n{n}="x"' for n in range(40))
        watch("guest", f"node_x{{{many}}} 1\n", host="limit", vserver="labels")
        there = {"Location": f"http://{stack.enter_context(Exposition('node_x 1')).address}/metrics"}
        redirecting = stack.enter_context(answering(there, list, status=302))
        jobs["guest"].append({"targets": [redirecting], "labels": {"host": "redirected"}})
        for vserver, (headers, content) in RUDE.items():
            address = stack.enter_context(answering(headers, content))
            jobs["guest"].append({"targets": [address], "labels": {"host": "rude", "vserver": vserver}})
        watch("telegraf", 'app_log_lines_total{app="shop"} 1\n', host="tied", app="blog")
        watch("telegraf", honest, host="honest", platform="base")
        # A busy machine may be late for one scrape a second.
        server = Prometheus(tmp_path_factory.mktemp("trust"), jobs, program=program, interval="3s")
        stack.enter_context(server)
        wanted = sum(map(len, jobs.values())) - 1  # all except the misplaced one
        wait_for(lambda: [each["health"] != "unknown" for each in targets(server)], 60, until=([True] * wanted).__eq__)
        yield server


def honest() -> str:
    """A shop that answers 10 requests a second in 0.25 s each; every tenth fails."""
    answered = int(time.time() * 10) // 10 * 9
    failed = 'app_request_duration_seconds_count{app="shop",tier="web",method="GET",status="5xx"}'
    return f"{answers(answered, answered / 4, '0.3', '+Inf')}{failed} {answered // 9}\n"


@contextmanager
def answering(headers: dict[str, str], content: Callable[[], Iterable[bytes]], status: int = 200) -> Iterator[str]:
    """The address of a target that answers with these headers, and with this content until the client closes."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server calls it)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                for part in content():
                    self.wfile.write(part)

    server = http_server(Handler)
    yield server.address
    server.close()


def trickle() -> Iterator[bytes]:
    """An endless page: about 10 GB in a year."""
    while True:
        yield b"# and so on\nnode_x 1\n"
        time.sleep(0.1)


def torrent() -> Iterator[bytes]:
    yield b"node_x 1\n"
    while True:
        yield b"# and so on\n" * 10_000


@cache
def bomb() -> list[bytes]:
    """Compressed to a thousandth."""
    return [gzip.compress(b"# " + b"x" * 100_000_000 + b"\nnode_x 1\n", 1)]


def in_protobuf(*names: str) -> bytes:
    """Counters as delimited io.prometheus.client.MetricFamily messages, which weren't requested."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    counter = field(3, b"\x09" + struct.pack("<d", 77.5))
    families = [field(1, name.encode()) + b"\x18\x00" + field(4, counter) for name in names]
    return b"".join(bytes([len(family)]) + family for family in families)


MESSAGE = "proto=io.prometheus.client.MetricFamily"
PLANTED = ("xen_domain_cpu_seconds_total", "planted:cpu_usage:rate", "ALERTS", "up")
OPENMETRICS = b"""\
# TYPE node_x counter
node_x_total 77.5 1.5 # {trace_id="x",host="victim"} 1 1.5
node_x_created 1
# TYPE xen_domain_cpu_seconds counter
xen_domain_cpu_seconds_total{domain="victim"} 77.5 # {host="victim"} 1
xen_domain_cpu_seconds_created 77.5
# EOF
"""
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROTOBUF_TYPE = f"application/vnd.google.protobuf; {MESSAGE}; encoding=delimited"
RUDE: dict[str, tuple[dict[str, str], Callable[[], Iterable[bytes]]]] = {
    "trickle": ({"Content-Type": "text/plain"}, trickle),
    "torrent": ({"Content-Type": "text/plain"}, torrent),
    "gzip bomb": ({"Content-Encoding": "gzip"}, bomb),
    "protobuf": ({"Content-Type": PROTOBUF_TYPE}, lambda: [in_protobuf("node_load1", *PLANTED)]),
    "OpenMetrics": ({"Content-Type": OPENMETRICS_TYPE}, lambda: [OPENMETRICS]),
}


def targets(prometheus: Prometheus, state: str = "active") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = prometheus.get("targets", {"state": state})[f"{state}Targets"]
    return found


def labels_of(prometheus: Prometheus, expr: str) -> list[dict[str, str]]:
    return [series["metric"] for series in prometheus.query(expr)]


# Series that Prometheus stores about targets: for each scrape, in records kept by target, and in alerts about them. The
# next test makes sure that no target can write them.
OF_PROMETHEUS = "up|scrape_.*|(monitor|target):.*|ALERTS.*"


def test_each_job_brings_its_own_metrics_and_no_others(prometheus: Prometheus) -> None:
    for host, jobs in (("everything", ON_HOSTS), ("everything in guest", IN_GUESTS)):
        brought: dict[str, set[str]] = {}
        stored = f'last_over_time({{host="{host}", job!="", __name__!~"{OF_PROMETHEUS}"}}[1m])'
        for labels in labels_of(prometheus, f"count by (__name__, job) ({stored})"):
            brought.setdefault(labels["__name__"], set()).add(labels["job"])
        wanted = {name: jobs_that_may_say(name) & set(jobs) for name in read_names() | {"app_log_lines_total"}}
        assert brought == {name: said_by for name, said_by in wanted.items() if said_by}, host
    # A target can't set the series that Prometheus writes about it.
    assert labels_of(prometheus, '{__name__=~"up|scrape_.*"} == 77.5') == []
    assert labels_of(prometheus, '{__name__=~"ALERTS.*|.*:.*", job!=""} == 77.5') == []
    # Everything that an exporter writes arrives.
    arrived: dict[str, set[str]] = {}
    for labels in labels_of(prometheus, 'count by (host, __name__) (last_over_time({host=~"golden .+"}[1m]))'):
        arrived.setdefault(labels["host"], set()).add(labels["__name__"])
    missing = {page: names - arrived.get(f"golden {page}", set()) for page, names in golden_names().items()}
    assert not any(missing.values()), missing


def test_a_target_can_t_pass_for_another(prometheus: Prometheus) -> None:
    for label in IDENTITY:
        assert labels_of(prometheus, f'{{{label}="victim"}}') == []
    for host in ("spoofed", "127.0.0.1"):  # with labels of its own, and with none
        said = labels_of(prometheus, f'last_over_time({{host="{host}", exported_host="victim"}}[1m])')
        assert {labels["job"] for labels in said} >= set(ON_HOSTS)
        assert {labels["exported_vserver"] for labels in said} == {"victim"}
        assert all(labels["platform"] for labels in said)
    assert {labels.get("vserver") for labels in labels_of(prometheus, '{host="spoofed", exported_host!=""}')} == {
        None,
        "guest",
    }
    # Samples have the time of the scrape.
    for name in ONE_OF_EACH_JOB:
        assert labels_of(prometheus, f'timestamp({name}{{exported_host="victim"}})') != []
        assert labels_of(prometheus, f'timestamp({name}{{exported_host="victim"}}) < time() - 60') == []


def test_no_target_stops_or_changes_the_records_of_another(prometheus: Prometheus) -> None:
    """Every metric that rules read is there, of hosts that say nothing sensible. Series that differ by a label of any
    join: tests/rules/test_strangers.py.
    """
    for record, value in {"app:response_seconds:mean": 0.25, "app:errors:ratio": 0.1}.items():
        prometheus.wait_for(f'{record}{{host="honest"}}', 120)
        assert prometheus.value(f'{record}{{host="honest"}}') == pytest.approx(value, abs=0.01)
    page = requests.get(f"{prometheus.url}/metrics", timeout=10).text
    assert re.findall(r"(?m)^prometheus_rule_evaluation_failures_total{.*} [^0].*$", page) == []


def test_what_is_forgotten_is_the_address_and_the_job_s_platform(prometheus: Prometheus) -> None:
    found = labels_of(prometheus, 'group by (job, platform) (up{host="127.0.0.1"})')
    platforms = {labels["job"]: labels["platform"] for labels in found}
    others = dict.fromkeys((*OF_ANY_PLATFORM, "node", "telegraf", "app", "lab"), "base")
    assert platforms == {**PLATFORM_OF, "cadvisor": "cgroup", **others}


def test_a_guest_s_target_is_scraped_once_and_not_taken_for_the_host_in_its_file(prometheus: Prometheus) -> None:
    assert labels_of(prometheus, '{host="misplaced"}') == []
    dropped = [target["discoveredLabels"] for target in targets(prometheus, "dropped")]
    assert "misplaced" in {labels.get("host") for labels in dropped}
    scraped = [target["scrapeUrl"] for target in targets(prometheus)]
    assert len(scraped) == len(set(scraped))


def in_guest(prometheus: Prometheus, vserver: str) -> tuple[str, str, bool]:
    """A target's last error, its health, and whether any of its samples are stored."""
    (target,) = [target for target in targets(prometheus) if target["labels"].get("vserver") == vserver]
    stored = labels_of(prometheus, f'node_x{{vserver="{vserver}"}}') != []
    return target["lastError"], target["health"], stored


def assert_refused(prometheus: Prometheus, **errors: str) -> None:
    """Each of these targets is down for this reason, and no sample of it is stored."""
    for vserver, said in errors.items():
        error, *found = in_guest(prometheus, vserver.replace("_", " "))
        assert (said in error, *found) == (True, "down", False), (vserver, error)


def test_a_scrape_above_a_limit_has_failed(prometheus: Prometheus) -> None:
    assert in_guest(prometheus, "not too many") == ("", "up", True)
    assert_refused(prometheus, samples="sample limit exceeded", body="body size limit exceeded")
    assert_refused(prometheus, labels="label_limit exceeded", label_name="label_name_length_limit exceeded")
    assert_refused(prometheus, label_value="label_value_length_limit exceeded")


def test_an_answer_without_end_is_given_up(prometheus: Prometheus) -> None:
    assert_refused(prometheus, trickle="context deadline exceeded")
    assert_refused(prometheus, torrent="body size limit exceeded", gzip_bomb="body size limit exceeded")


def test_another_format_plants_nothing_else(prometheus: Prometheus) -> None:
    """Also with its own timestamps, exemplars and created times."""
    for form, own in (("protobuf", "node_load1"), ("OpenMetrics", "node_x_total")):
        names = {labels["__name__"] for labels in labels_of(prometheus, f'{{vserver="{form}"}} == 77.5')}
        assert names == {own}, form
        assert labels_of(prometheus, f'timestamp({own}{{vserver="{form}"}}) < time() - 60') == [], form
    assert labels_of(prometheus, '{__name__=~"xen_.*|planted:.*", vserver!=""} == 77.5') == []


def test_a_redirect_is_not_followed(prometheus: Prometheus) -> None:
    [target] = [target for target in targets(prometheus) if target["labels"]["host"] == "redirected"]
    assert "302" in target["lastError"]


def test_an_entry_with_an_application_ties_its_sensors_to_it(prometheus: Prometheus) -> None:
    [labels] = labels_of(prometheus, 'app_log_lines_total{host="tied"}')
    assert (labels["app"], labels["exported_app"]) == ("blog", "shop")


def test_a_host_with_1000_virtual_servers_has_twice_the_room() -> None:
    for job, platform in PLATFORM_OF.items():
        (section,) = re.findall(rf"(?ims)^## {platform}$(.*?)^## ", (ROOT / "docs/cost.md").read_text())
        row = re.search(r"^\| 1,000 \|[^\d\n]*([\d,]+) \|", section, re.MULTILINE)
        assert row is not None, platform
        assert SCRAPES[job]["sample_limit"] >= 2 * int(row[1].replace(",", "")), platform


def test_as_many_samples_as_may_be_fit_into_a_body() -> None:
    for page, (exporter, text) in golden_pages().items():
        lines = [len(line) + 1 for line in text.splitlines() if not line.startswith("#")]
        body = int(SCRAPES[exporter]["body_size_limit"].removesuffix("MB")) * 2**20
        assert body >= SCRAPES[exporter]["sample_limit"] * sum(lines) / len(lines), page


def test_every_job_that_watches_others_has_every_limit() -> None:
    limits = {"sample_limit", "body_size_limit", "label_limit", "label_name_length_limit", "label_value_length_limit"}
    for name, scrape in SCRAPES.items():
        assert (limits <= scrape.keys()) == (name not in OWN), name
        assert name in OWN or (scrape["honor_timestamps"], scrape["follow_redirects"]) == (False, False)
        assert "honor_labels" not in scrape

"""Response times of the pages about all hosts: Fleet, the console's overview, and Who waits for whom.

A real Prometheus 3 serves the records of a fleet (fleet_records.py) from its disk. Each query of a page is sent as by
Grafana, for the past hour and the past day, including variables and annotations. The result is the median of five runs,
in request time and in CPU seconds of Prometheus. The target is one second for each.

    FLEET_HOSTS=10000 python -m tests.proofs.bench.fleet_page

FLEET_STEP is the interval in seconds between samples older than an hour: 60, as recorded by the rules, or 240, which is
faster to write for a large fleet and makes queries over a day cheaper. FLEET_FOLDER is where they are written, instead
of /tmp.
"""

import itertools
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import requests

from tests.dashboards import queries
from tests.proofs import CHECKOUT
from tests.proofs.bench import fleet_records
from tests.support.pages import Page
from tests.support.program import Program, program_path

BAR = 1.0  # seconds
ROUNDS = 5
DAY, HOUR = 86_400, 3_600
AHEAD = 2_700  # seconds of data in the future, enough for generating and measuring
_POINTS = 840  # pixels of a half-page graph, which is the maximum number of points
_STEPS = (5, 10, 15, 20, 30, 60, 120, 300)  # steps that Grafana rounds to, from the data source's scrape interval on


class Asked(NamedTuple):
    """A request to Prometheus's API, and its source on the page."""

    who: str
    path: str
    parameters: Mapping[str, str | float]


class Window(NamedTuple):
    """A range of this many seconds that ends at `now`, as on a page."""

    seconds: int
    now: int

    def step(self, at_least: int) -> int:
        """The step of a graph, in seconds."""
        return next(step for step in _STEPS if step >= max(at_least, self.seconds / _POINTS))


class Taken(NamedTuple):
    """The median duration of a request in seconds, and the size of its answer."""

    asked: Asked
    wall: float
    cpu: float
    series: int
    size: int


def main() -> None:
    """Write the fleet's records, serve them, and print the duration of each query."""
    hosts = int(os.environ.get("FLEET_HOSTS", "1000"))
    step = int(os.environ.get("FLEET_STEP", "60"))
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLEET_FOLDER")) as name:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        now = int(time.time()) // 60 * 60
        span = fleet_records.Span(now - DAY - HOUR, now, now + AHEAD, step)
        series = _write(hosts, span, data)
        print(f"{hosts:,} hosts of {fleet_records.GUESTS} virtual servers: {series:,} series, {os.cpu_count()} CPUs, "
              f"load {os.getloadavg()[0]:.1f}; written in {time.time() - now:.0f} s", flush=True)  # fmt: skip
        prometheus = Program("prometheus3", folder)
        (folder / "prometheus.yml").write_text("{}\n")
        prometheus.start(
            f"--config.file={folder / 'prometheus.yml'}",
            f"--web.listen-address=127.0.0.1:{prometheus.port}",
            f"--web.console.templates={CHECKOUT / 'prometheus' / 'consoles'}",
            "--log.level=warn",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=30d",
            # no compaction, which would be measured too
            "--storage.tsdb.min-block-duration=2h",
            "--storage.tsdb.max-block-duration=2h",
        )
        try:
            for seconds, words in ((HOUR, "1 h"), (DAY, "24 h")):
                window = Window(seconds, now)
                _report(f"Fleet, {words}", prometheus.url, _page(prometheus.url, "fleet", window, {}))
                of_waits = _page(prometheus.url, "neighbours", window, {"host": fleet_records.WAITS})
                _report(f"Who waits for whom, {words}", prometheus.url, of_waits)
            console = Asked("the whole page", "/consoles/index.html", {})
            _report("Console, overview", prometheus.url, [console])
        finally:
            prometheus.stop()


def _write(hosts: int, span: fleet_records.Span, data: Path) -> int:
    promtool = program_path("promtool3")
    records = itertools.chain(fleet_records.of_fleet(hosts), fleet_records.waits())
    return fleet_records.write(records, span, data, promtool)


def _page(url: str, name: str, window: Window, choose: Mapping[str, str]) -> list[Asked]:
    """Grafana's requests for a page: variables, panels and annotations. `choose`: values of variables."""
    page = json.loads((CHECKOUT / "dashboards" / "json" / f"{name}.json").read_text(encoding="utf-8"))
    asked, values = _variables(url, page, window, choose)
    for panel in queries.panels(page):
        for target in panel.get("targets", []):
            who = f"{panel['title'] or 'flag'} {target['refId']}"
            asked.append(_query(who, target["expr"], values, window, 0 if target.get("instant") else 5))
    for marks in page["annotations"]["list"]:
        every = int(marks["target"]["interval"].removesuffix("s"))
        asked.append(_query(f"marks: {marks['name']}", marks["target"]["expr"], values, window, every))
    return asked


def _query(who: str, expr: str, values: Mapping[str, str], window: Window, at_least: int) -> Asked:
    """A range query with at least this step in seconds; 0: an instant query."""
    step = window.step(at_least)
    steps = {"__interval": f"{step}s", "__interval_ms": f"{step}000", "__rate_interval": f"{max(4 * step, 60)}s"}
    expr = queries.fill_in(expr, {**values, **steps})
    if not at_least:
        return Asked(who, "/api/v1/query", {"query": expr, "time": window.now})
    end = window.now // step * step
    return Asked(who, "/api/v1/query_range", {"query": expr, "start": end - window.seconds, "end": end, "step": step})


def _variables(
    url: str, page: Mapping[str, Any], window: Window, choose: Mapping[str, str]
) -> tuple[list[Asked], dict[str, str]]:
    """The query of each variable, and the values filled in."""
    asked: list[Asked] = []
    seconds, now = window
    values = {"__range": f"{seconds}s", "__range_s": f"{seconds}", "__range_ms": f"{seconds}000", **choose}
    for variable in page["templating"]["list"]:
        if variable["type"] != "query":
            continue
        name = variable["name"]
        query = queries.fill_in(variable["query"], values)
        if result := re.fullmatch(r"query_result\((.+)\)", query):
            asked.append(Asked(f"${name}", "/api/v1/query", {"query": result[1], "time": now}))
        elif match := re.fullmatch(r"label_values\((.+),\s*(\w+)\)", query):
            selected = {"match[]": match[1], "start": now - seconds, "end": now}
            asked.append(Asked(f"${name}", f"/api/v1/label/{match[2]}/values", selected))
        if "allValue" in variable:
            values.setdefault(name, variable["allValue"])
            continue
        found = _get(url, asked[-1]).json()["data"]
        label = re.search(r"(\w+)=", variable.get("regex", ""))
        names = found if label is None else [row["metric"].get(label[1], "") for row in found["result"]]
        values.setdefault(name, f"({'|'.join(names)})" if variable.get("includeAll") else next(iter(names), ""))
    return asked, values


def _report(title: str, url: str, requests_: Sequence[Asked]) -> None:
    print(f"{title}\n  {'':44} wall s    CPU s   series     bytes")
    for taken in sorted((_take(url, asked) for asked in requests_), key=lambda taken: -taken.wall):
        judged = "" if taken.wall <= BAR else "  MISSED"
        print(
            f"  {taken.asked.who:44} {taken.wall:6.3f}   {taken.cpu:6.3f} {taken.series:8,} {taken.size:9,}{judged}",
            flush=True,
        )


def _take(url: str, asked: Asked) -> Taken:
    walls, cpus = [], []
    for _ in range(ROUNDS):
        before, began = _cpu_seconds(url), time.perf_counter()
        answer = _get(url, asked)
        walls.append(time.perf_counter() - began)
        cpus.append(_cpu_seconds(url) - before)
    return Taken(asked, statistics.median(walls), statistics.median(cpus), _series(answer), len(answer.content))


def _get(url: str, asked: Asked) -> requests.Response:
    answer = requests.get(f"{url}{asked.path}", params=dict(asked.parameters), timeout=300)
    if not answer.ok:
        raise ValueError(f"{asked.who}: {answer.text[:500]}")
    return answer


def _series(answer: requests.Response) -> int:
    if "json" not in answer.headers["Content-Type"]:
        return 0
    data = answer.json()["data"]
    return len(data if isinstance(data, list) else data["result"])


def _cpu_seconds(url: str) -> float:
    return Page.of(url.removeprefix("http://")).value("process_cpu_seconds_total")


if __name__ == "__main__":
    main()

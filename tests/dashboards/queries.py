"""Ask a live Prometheus what the panels of a dashboard would ask it, with the variables filled in from its own data.

    answers = run_queries(prometheus.url, HOST, {"host": "xen1"})
    assert not [answer for answer in answers if answer.series == 0]

It does what Grafana does between a dashboard's JSON and Prometheus' HTTP API, for query variables over Prometheus.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

FOLDER = Path(__file__).resolve().parents[2] / "dashboards" / "json"
HOST = FOLDER / "host.json"
CACHES_AND_EVENTS = FOLDER / "caches-and-events.json"
PROFILE = FOLDER / "profile.json"

STEP_SECONDS = 5
RANGE_SECONDS = 600
BUILT_IN = {
    "__interval": f"{STEP_SECONDS}s",
    "__interval_ms": f"{STEP_SECONDS * 1000}",
    "__rate_interval": f"{4 * STEP_SECONDS}s",  # Grafana: at least four scrape intervals
    "__range": f"{RANGE_SECONDS}s",
    "__range_s": f"{RANGE_SECONDS}",
    "__range_ms": f"{RANGE_SECONDS * 1000}",
}
_QUERY_RESULT = re.compile(r"query_result\((?P<expr>.+)\)")
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.+),)?\s*(?P<label>\w+)\)")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{(\w+)(?::\w+)?\})")


@dataclass(frozen=True)
class Answer:
    """What one query of one panel returned: how many series it would draw, and their values."""

    panel: str
    ref_id: str
    expr: str
    """As it was sent, no variable left."""
    series: int
    """Series with at least one finite number: NaN draws nothing."""
    values: Sequence[float]
    """The finite numbers of all of them."""
    unit: str
    """The panel's, as Grafana calls it; "" where its columns have their own."""


def run_queries(prometheus: str, dashboard: Path, choose: Mapping[str, str] | None = None) -> list[Answer]:
    """Run every query of every panel of a dashboard's JSON file.

    prometheus: the server's URL.
    choose: values for variables, by name; others take what Grafana would at first: all if they allow it, else the
        first value that their own query finds.

    Raises LookupError if a variable finds no value or not the chosen one, ValueError if Prometheus refuses a query.
    """
    page = json.loads(dashboard.read_text(encoding="utf-8"))
    variables = resolve_variables(prometheus, page, choose or {})
    return [
        _answer(
            panel["title"],
            target["refId"],
            expr,
            _series(prometheus, expr, instant=target.get("instant", False)),
            panel.get("fieldConfig", {}).get("defaults", {}).get("unit", ""),
        )
        for panel in panels(page)
        for target in panel.get("targets", [])
        for expr in [fill_in(target["expr"], variables)]
    ]


def run_annotations(prometheus: str, dashboard: Path, choose: Mapping[str, str] | None = None) -> list[Answer]:
    """Run every query of events that a dashboard's graphs mark, likewise; as often as it asks for."""
    page = json.loads(dashboard.read_text(encoding="utf-8"))
    variables = resolve_variables(prometheus, page, choose or {})
    answers = []
    for marks in page["annotations"]["list"]:
        every = marks["target"]["interval"]
        expr = fill_in(marks["target"]["expr"], {**variables, "__interval": every})
        step = int(every.removesuffix("s"))
        answers.append(_answer(marks["name"], "", expr, _series(prometheus, expr, instant=False, step=step)))
    return answers


def _answer(panel: str, ref_id: str, expr: str, series: list[list[float]], unit: str = "") -> Answer:
    return Answer(panel, ref_id, expr, len(series), [value for values in series for value in values], unit)


def panels(page: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every panel of a dashboard, those of collapsed rows included, the rows themselves not."""
    for panel in page["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def resolve_variables(prometheus: str, page: Mapping[str, Any], choose: Mapping[str, str]) -> dict[str, str]:
    """The text that stands for each variable in a query; each is asked for with those before it filled in."""
    resolved = dict(BUILT_IN)
    for variable in page["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "datasource":
            continue
        if variable["type"] == "custom":
            resolved[name] = variable["current"]["value"]
            continue
        query = fill_in(variable["query"], resolved)
        values = _values(prometheus, query, variable.get("regex", ""))
        if not values and not (variable["includeAll"] and name not in choose):
            raise LookupError(f"${name} finds no value: {query}")
        if name in choose and choose[name] not in values:
            raise LookupError(f"${name} can't be {choose[name]!r}, only one of {values}: {query}")
        if name in choose:
            resolved[name] = _escaped(choose[name]) if _is_regex(variable) else choose[name]
        elif variable["includeAll"]:
            resolved[name] = variable.get("allValue") or f"({'|'.join(map(_escaped, values))})"
        else:
            resolved[name] = _escaped(values[0]) if _is_regex(variable) else values[0]
    return resolved


def fill_in(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$name`, `${name}` and `${name:format}`; raises KeyError if the dashboard has no such variable."""
    return _VARIABLE.sub(lambda match: variables[match[1] or match[2]], text)


def _escaped(value: str) -> str:
    """As a regular expression within a string of PromQL."""
    return re.escape(value).replace("\\", "\\\\")


def _is_regex(variable: Mapping[str, Any]) -> bool:
    return bool(variable["multi"] or variable["includeAll"])


def _values(prometheus: str, query: str, pattern: str) -> list[str]:
    if result := _QUERY_RESULT.fullmatch(query):
        rows = _get(prometheus, "query", {"query": result["expr"], "time": time.time()})["result"]
        labels = ("{" + ",".join(f'{name}="{value}"' for name, value in row["metric"].items()) + "}" for row in rows)
        return [match[1] for row in labels for match in [re.search(pattern.strip("/"), row)] if match]
    match = _LABEL_VALUES.fullmatch(query)
    if match is None:
        raise ValueError(f"only query_result(EXPR) and label_values(SELECTOR, LABEL) are understood: {query}")
    parameters = {"match[]": match["selector"]} if match["selector"] else {}
    values: list[str] = _get(prometheus, f"label/{match['label']}/values", parameters)
    return values


def _series(prometheus: str, expr: str, *, instant: bool, step: int | None = None) -> list[list[float]]:
    """The finite numbers of each series that has any."""
    now = time.time()
    if instant:
        result = _get(prometheus, "query", {"query": expr, "time": now})["result"]
        return _finite([series["value"]] for series in result)
    step = step or STEP_SECONDS
    end = now // step * step  # as Grafana aligns it
    window: dict[str, str | float] = {"query": expr, "start": end - RANGE_SECONDS, "end": end, "step": step}
    result = _get(prometheus, "query_range", window)["result"]
    return _finite(series["values"] for series in result)


def _finite(result: Iterable[Iterable[tuple[float, str]]]) -> list[list[float]]:
    found = [[float(value) for _, value in samples if math.isfinite(float(value))] for samples in result]
    return [values for values in found if values]


def _get(prometheus: str, what: str, parameters: Mapping[str, str | float]) -> Any:
    answer = requests.get(f"{prometheus}/api/v1/{what}", params=dict(parameters), timeout=30).json()
    if answer["status"] != "success":
        raise ValueError(f"{answer['error']}: {dict(parameters)}")
    return answer["data"]

"""Send a dashboard's queries to a live Prometheus, with variables filled in from its data.

It follows Grafana's handling of query variables over Prometheus, from dashboard JSON to HTTP API.
"""

import itertools
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.promql import PrometheusClient

FOLDER = Path(__file__).resolve().parents[2] / "dashboards" / "json"


class Shown(NamedTuple):
    """The time range of a page up to now, and the smallest step of its graphs, in seconds."""

    span: int = 600
    step: int = 5

    def variables(self) -> dict[str, str]:
        """Grafana's $__rate_interval: at least four scrape intervals."""
        steps = {
            "__interval": f"{self.step}s",
            "__interval_ms": f"{self.step}000",
            "__rate_interval": f"{4 * self.step}s",
        }
        return steps | {"__range": f"{self.span}s", "__range_s": f"{self.span}", "__range_ms": f"{self.span}000"}


DEFAULT = Shown()
_QUERY_RESULT = re.compile(r"query_result\((?P<expr>.+)\)")
_LABEL_VALUES = re.compile(r"label_values\((?:(?P<selector>.+),)?\s*(?P<label>\w+)\)")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{(\w+)(?::\w+)?\})")


@dataclass(frozen=True)
class Answer:
    """The result of one panel query: the number of series with a finite value, all those values with their times, and
    the panel's unit ("" if set per column)."""

    panel: str
    ref_id: str
    series: int
    samples: Sequence[tuple[float, float]]
    unit: str


def read(dashboard: Path) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(dashboard.read_text(encoding="utf-8"))
    return page


def answers(
    server: PrometheusClient, page: Mapping[str, Any], variables: Mapping[str, str], shown: Shown
) -> list[Answer]:
    """Every query of a page, with these texts in place of its variables."""
    return [
        Answer(panel["title"], target["refId"], len(series), [*itertools.chain(*series)], unit)
        for panel in panels(page)
        for unit in [panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")]
        for target in panel.get("targets", [])
        for series in [_series(server, fill_in(target["expr"], variables), shown, target.get("instant", False))]
    ]


def panels(page: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every panel of a dashboard, including those in collapsed rows, without the rows."""
    for panel in page["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def resolve_variables(
    prometheus: str, page: Mapping[str, Any], choose: Mapping[str, str], shown: Shown = DEFAULT
) -> dict[str, str]:
    """The text of each variable in a query. A variable's own query can use the variables before it.

    Variables that aren't chosen get Grafana's initial value: all if allowed, else the first result of their query.
    Raises LookupError if a variable has no value or lacks the chosen one, ValueError if its query isn't understood.
    """
    resolved = shown.variables()
    for variable in page["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "datasource":
            continue
        if variable["type"] == "custom":
            resolved[name] = variable["current"]["value"]
            continue
        query = fill_in(variable["query"], resolved)
        values = _values(prometheus, query, variable.get("regex", ""))
        if not values and not (variable.get("includeAll") and name not in choose):
            raise LookupError(f"${name} finds no value: {query}")
        if name in choose and choose[name] not in values:
            raise LookupError(f"${name} can't be {choose[name]!r}, only one of {values}: {query}")
        is_regex = variable.get("multi") or variable.get("includeAll")
        if name in choose or not variable.get("includeAll"):
            chosen = choose.get(name) or values[0]
            resolved[name] = _escaped(chosen) if is_regex else chosen
        else:
            resolved[name] = variable.get("allValue") or f"({'|'.join(map(_escaped, values))})"
    return resolved


def fill_in(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$name`, `${name}` and `${name:format}`; KeyError if the dashboard has no such variable."""
    return _VARIABLE.sub(lambda match: variables[match[1] or match[2]], text)


def _escaped(value: str) -> str:
    """The text escaped as a regular expression within a PromQL string."""
    return re.escape(value).replace("\\", "\\\\")


def _values(prometheus: str, query: str, pattern: str) -> list[str]:
    if result := _QUERY_RESULT.fullmatch(query):
        rows = PrometheusClient(prometheus).query(result["expr"], time.time())
        labels = ("{" + ",".join(f'{name}="{value}"' for name, value in row["metric"].items()) + "}" for row in rows)
        return [match[1] for row in labels for match in [re.search(pattern.strip("/"), row)] if match]
    match = _LABEL_VALUES.fullmatch(query)
    if match is None:
        raise ValueError(f"only query_result(EXPR) and label_values(SELECTOR, LABEL) are understood: {query}")
    parameters = {"match[]": match["selector"]} if match["selector"] else {}
    values: list[str] = PrometheusClient(prometheus).get(f"label/{match['label']}/values", parameters)
    return values


def _series(client: PrometheusClient, expr: str, shown: Shown, instant: bool) -> list[list[tuple[float, float]]]:
    """The finite numbers of each series that has any."""
    now = time.time()
    if instant:
        return _finite([series["value"]] for series in client.query(expr, now))
    end = now // shown.step * shown.step  # aligned like Grafana's range
    window = {"query": expr, "start": f"{end - shown.span}", "end": f"{end}", "step": f"{shown.step}"}
    return _finite(series["values"] for series in client.get("query_range", window)["result"])


def _finite(result: Iterable[Iterable[tuple[float, str]]]) -> list[list[tuple[float, float]]]:
    found = [[(at, float(value)) for at, value in samples if math.isfinite(float(value))] for samples in result]
    return [samples for samples in found if samples]

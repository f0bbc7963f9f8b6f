"""Recordings of runs with known true values, and a real Prometheus with samples written by a test."""

import contextlib
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lab.metrics import METRIC, Measurement
from lab.report.page import Page
from lab.report.recorded import Asked, Recording, Run, facts, query
from lab.scenario import Step
from tests.support.program import program_path
from tests.support.prometheus import Prometheus

NOISE = (0.998, 1.001, 1.002, 0.999, 1.0)  # factor of each repetition
INFO = {"cpus": "2", "cpu": "A Good CPU", "kernel": "6.1.0", "os": "Debian", "version": "v1", "host": "vm"}


def recorded(
    study: str, measured: Iterable[Measurement], steps: int, finished: int | None = None, **info: str
) -> Recording:
    """A complete run unless `finished` gives the number of finished steps."""
    run = Run(INFO | info | {"run": "20261123T090512-mine"}, 1_795_424_712.3, 1_795_432_912.6)
    asked = tuple(query(metric, run) for metric in ("lab_run_planned_steps", METRIC))
    done, found = steps if finished is None else finished, tuple(measured)
    title, known = f"Run {run.name}: scenario mine", facts(run, found, done)
    return Recording(title, study, found, known, (Asked("the whole run", asked),), run.info, steps, done)


def of_consolidation(step: Step, values: Mapping[str, float]) -> list[Measurement]:
    """A step's measurements from its values by test."""
    whole = {"seconds": 180, "sensors": step.instances, "clients_seen": step.instances, **values}
    kind = (step.environment, "cgroup", False)
    return [Measurement(*kind, test, "ratio", "lower", step.repetition, value) for test, value in whole.items()]


def assert_whole(page: Page, of: Recording) -> str:
    """Both formats have every section and every query with its time; returns the Markdown."""
    text, in_html = page.markdown(), page.html()
    titles = [page.study["sections"].get(section.key, {"title": section.key})["title"] for section in page.sections]
    for title in titles:
        assert f"\n## {title}\n" in text
        assert title in in_html.replace("&#39;", "'")
    assert len(set(titles)) == len(titles) > 0
    for asked in of.asked[0].queries:
        assert asked.endswith(" @ 1795432913)")
        assert asked in text
    return text


def hours_ago(hours: float) -> int:
    """A Unix time; recent, because reports look back 30 days."""
    return int(time.time()) - int(hours * 3600)


@contextlib.contextmanager
def backfilled(folder: Path, *samples: str) -> Iterator[Prometheus]:
    """The project's Prometheus over blocks that promtool makes of these samples in OpenMetrics's format."""
    prometheus = Prometheus(folder, {})
    file = folder / "samples.om"
    file.write_text("".join(samples) + "# EOF\n")
    promtool = str(program_path("promtool"))
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(file), str(prometheus.folder / "data")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    with prometheus:
        yield prometheus

"""Prometheus with the project's rules and the sites' objective. It scrapes the exporters of both hosts every 5 s."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from alerts.generator import objective_rules
from alerts.generator.application import read_application
from alerts.generator.rule_file import render
from deploy.documents import parse
from tests.support import Prometheus
from tests.support.endpoints import Group

SCRAPE = 5  # seconds
_OBJECTIVES = """\
app: auction-[0-9]+
about: The sites of `make placements`.
tiers:
  web: virtscope/{{app}}-web
  db: virtscope/{{app}}-db
objectives:
  mean: {{seconds: {seconds:.6f}}}
low_traffic: 0.2
"""


@contextlib.contextmanager
def prometheus(folder: Path, targets: Mapping[str, Sequence[Group]], objective_seconds: float) -> Iterator[Prometheus]:
    """It runs while the block lasts, with this objective for each site's mean response.

    It begins with the data in the folder and leaves its own there, for the rest of an interrupted run.
    """
    folder.mkdir(exist_ok=True)
    data = folder / "data"
    if (earlier := folder / "prometheus-under-test").exists():
        if (earlier / "data").exists() and not data.exists():
            (earlier / "data").rename(data)
        shutil.rmtree(earlier)
    found = Prometheus(folder, targets, interval=f"{SCRAPE}s")
    if data.exists():
        data.rename(found.folder / "data")
    generated = found.folder / "alerts" / "generated"
    for shipped in generated.glob("*.yml"):  # the lab's objectives are for the same sites
        shipped.unlink()
    application = read_application(parse(_OBJECTIVES.format(seconds=objective_seconds), "placements.yml"))
    rules = render(objective_rules.groups("placements", application), "The sites.")
    (generated / "placements.yml").write_text(rules)
    with found:
        yield found

"""Which study a scenario repeats: the key `study` of its file says it; without one, it consolidates applications."""

from __future__ import annotations

from pathlib import Path

from alerts.generator.document import FileError
from alerts.generator.document import parse as document_of
from lab import scenario
from lab.allocation import scenario as allocation
from lab.allocation.scenario import Allocation
from lab.keys import ScenarioError, nearest
from lab.scenario import Scenario

Study = Scenario | Allocation
STUDIES = (allocation.STUDY,)


def load(file: Path) -> Study:
    """Read a scenario of any study; raises `ScenarioError`."""
    text = scenario.read(file)
    try:
        document = document_of(text, file.name)
        study = document.entries().get("study") if document else None
        if study and (named := study.text()) not in STUDIES:
            study.refuse(f"there is no study {named!r}{nearest(named, STUDIES)}; without this key it is consolidation")
    except FileError as error:
        raise ScenarioError(str(error)) from None
    return allocation.parse(text, file.name) if study else scenario.parse(text, file.name)

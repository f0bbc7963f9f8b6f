"""All studies. The key `study` of a scenario's file names its own; without one, it is a consolidation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from alerts.generator.document import FileError
from alerts.generator.document import parse as document_of
from lab import consolidation, scenario
from lab.allocation import switching
from lab.factors import experiment as factors
from lab.keys import ScenarioError, nearest
from lab.network import experiment as network
from lab.study import Scenario, Study
from lab.suites import running as suites

CONSOLIDATION = consolidation.STUDY
STUDIES: Mapping[str, Study] = {
    study.name: study for study in (CONSOLIDATION, switching.STUDY, factors.STUDY, network.STUDY, suites.STUDY)
}


def load(file: Path) -> tuple[Study, Scenario]:
    """Read a scenario of any study; raises `ScenarioError`."""
    text = scenario.read(file)
    try:
        document = document_of(text, file.name)
        value = document.entries().get("study") if document else None
        study = STUDIES.get(value.text()) if value else CONSOLIDATION
        if value and (study is None or study is CONSOLIDATION):
            others = tuple(name for name in STUDIES if name != CONSOLIDATION.name)
            there_are = nearest(value.text(), others)
            value.refuse(f"there is no study {value.text()!r}{there_are}; without this key it is {CONSOLIDATION.name}")
    except FileError as error:
        raise ScenarioError(str(error)) from None
    assert study is not None  # refused above
    found: Scenario = study.parse(text, file.name)
    return study, found

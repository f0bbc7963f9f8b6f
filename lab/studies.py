"""All studies. A scenario's key `study` names its study; the default is consolidation."""

from collections.abc import Mapping
from pathlib import Path

from deploy import documents
from deploy.documents import FileError, nearest
from lab import consolidation
from lab.allocation import switching
from lab.factors import experiment as factors
from lab.keys import Scenario, ScenarioError
from lab.network import experiment as network
from lab.study import Study
from lab.suites import running as suites

CONSOLIDATION = consolidation.STUDY
STUDIES: Mapping[str, Study] = {
    study.name: study for study in (CONSOLIDATION, switching.STUDY, factors.STUDY, network.STUDY, suites.STUDY)
}


def load(file: Path) -> tuple[Study, Scenario]:
    """Read a scenario of any study; raises `ScenarioError`."""
    try:
        text = documents.read_text(file)
        document = documents.parse(text, file.name)
        name = document.content.get("study") if isinstance(document.content, dict) else None
        others = [name for name in STUDIES if name != CONSOLIDATION.name]
        if name is not None and name not in others:
            problem = f"there is no study {name!r}{nearest(str(name), others)}"
            raise document.error(f"{problem}; without this key it is {CONSOLIDATION.name}", "study")
    except FileError as error:
        raise ScenarioError(str(error)) from None
    study = STUDIES[name or CONSOLIDATION.name]
    found: Scenario = study.parse(text, file.name)
    return study, found

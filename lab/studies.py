"""Which study a scenario repeats: the key `study` of its file says it; without one, it consolidates applications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from alerts.generator.document import FileError
from alerts.generator.document import parse as document_of
from lab import scenario
from lab.allocation import scenario as allocation
from lab.allocation.scenario import Allocation
from lab.factors import scenario as factors
from lab.factors.scenario import Factors
from lab.keys import ScenarioError, nearest
from lab.network import scenario as network
from lab.network.scenario import Network
from lab.scenario import Scenario
from lab.suites import scenario as suites
from lab.suites.scenario import Suites

Study = Scenario | Allocation | Factors | Network | Suites
_PARSERS: Mapping[str, Callable[[str, str], Study]] = {
    allocation.STUDY: allocation.parse,
    factors.STUDY: factors.parse,
    network.STUDY: network.parse,
    suites.STUDY: suites.parse,
}


def load(file: Path) -> Study:
    """Read a scenario of any study; raises `ScenarioError`."""
    text = scenario.read(file)
    try:
        document = document_of(text, file.name)
        study = document.entries().get("study") if document else None
        named = study.text() if study else ""
        if study and named not in _PARSERS:
            there_are = nearest(named, tuple(_PARSERS))
            study.refuse(f"there is no study {named!r}{there_are}; without this key it is {scenario.STUDY}")
    except FileError as error:
        raise ScenarioError(str(error)) from None
    return _PARSERS.get(named, scenario.parse)(text, file.name)

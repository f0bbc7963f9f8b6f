"""Keys that the scenario files of all studies have, and types of their values."""

import hashlib
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from deploy import documents
from deploy.documents import FileError, KeyProblem, Model
from lab import LabError

T = TypeVar("T")


class ScenarioError(LabError):
    """A scenario that can't be run. The message begins with the file's name and the line, if there is one."""


class Step(Protocol):
    @property
    def name(self) -> str:
        """Unique in its run."""


class Scenario(Model):
    """A valid scenario, as in its file; times in seconds.

    `name` is the file's without the extension. `digest` is the file's: a run is only resumed with the same scenario.
    """

    about: Annotated[str, Field(min_length=1)]
    repetitions: Annotated[int, Field(ge=1, le=100)] = 5
    _name: str = PrivateAttr("")
    _digest: str = PrivateAttr("")
    name = property(lambda self: self._name)
    digest = property(lambda self: self._digest)

    @property
    @abstractmethod
    def steps(self) -> Sequence[Step]:
        """All steps, in order."""

    @classmethod
    def parse(cls, text: str, file_name: str) -> Self:
        try:
            found = documents.parse(text, file_name).read(cls)
        except FileError as error:
            raise ScenarioError(str(error)) from None
        found._name = file_name.rpartition(".")[0]
        found._digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return found


def rotated(of: Sequence[T], turn: int) -> list[T]:
    first = turn % len(of) if of else 0
    return [*of[first:], *of[:first]]


def _seconds(text: Any) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)", text, re.ASCII) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"must be a time, such as 90s or 2m, not {text!r}")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


def _listed(given: Any) -> Any:
    return given if isinstance(given, list | tuple) else [given]


def distinct(by: Callable[[Any], object] = lambda one: one) -> AfterValidator:
    def check(found: tuple[T, ...]) -> tuple[T, ...]:
        seen = [by(one) for one in found]
        for number, one in enumerate(seen):
            if one in seen[:number]:
                raise KeyProblem(f"{one} is there twice; to run it again, use repetitions", number)
        return found

    return AfterValidator(check)


Seconds = Annotated[float, BeforeValidator(_seconds)]
WholeSeconds = Annotated[int, BeforeValidator(_seconds)]
OneOrMore = Annotated[tuple[T, ...], BeforeValidator(_listed), distinct(), Field(min_length=1)]
"""A value or a list of different values."""
Cap = Annotated[float, Field(ge=0.05)]
"""CPUs, at least lab.cgroups.SMALLEST_CAP."""
Weight = Annotated[int, Field(ge=1, le=10_000)]

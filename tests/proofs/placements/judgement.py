"""Compares predicted responses with those that came, and what was chosen with what was better. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

ERROR = 0.25  # median of predicted responses, as a share of the true one
COVERAGE = 0.85  # share of true responses in the predicted interval
BEST = 0.9  # share of moves for which the better host was chosen, or one nearly as good
NEARLY = 1.1  # times the better host's response
ADVISE, STAY, MOVE = "advise", "always stay", "always move"

Part = Literal["the moving site", "sites that it leaves", "sites that it joins"]


@dataclass(frozen=True)
class Response:
    """An application's mean response over a state, and whether its objective held."""

    host: str
    requests: float
    seconds: float
    objective_held: bool


@dataclass(frozen=True)
class State:
    """What was measured between two Unix times.

    Attributes:
        responses: by application.
        used: of each host's CPUs, the share that was used, by whoever.
    """

    began: float
    ended: float
    responses: Mapping[str, Response]
    used: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """The mean response of all requests of all applications."""
        requests = sum(each.requests for each in self.responses.values())
        return sum(each.requests * each.seconds for each in self.responses.values()) / requests


@dataclass(frozen=True)
class Observed:
    """A step and the state that came of it.

    Attributes:
        site: the one that moved from host `source` to `target`; None if loads changed.
        planned: what each site was to use, as a share of a host.
        before: the state before a move; None if loads changed.
        advice: what advise answered before a move.
        lacking: why there is no answer.
        choices: the host that each formula chose, by its name.
    """

    number: int
    site: str | None
    source: str
    target: str
    planned: Mapping[str, float]
    before: State | None
    came: State
    advice: dict[str, Any] | None
    lacking: str
    choices: Mapping[str, str]


_DOCUMENT = TypeAdapter(Observed)


@dataclass(frozen=True)
class Predicted:
    """An application's response after a move, as predicted."""

    app: str
    seconds: float
    low_seconds: float
    high_seconds: float


@dataclass(frozen=True)
class Candidate:
    host: str
    apps: tuple[Predicted, ...]


class Compared(NamedTuple):
    """A predicted response and the true one."""

    move: int
    app: str
    part: Part
    predicted: Predicted
    came: float

    @property
    def error(self) -> float:
        return abs(self.predicted.seconds - self.came) / self.came

    @property
    def is_covered(self) -> bool:
        return self.predicted.low_seconds <= self.came <= self.predicted.high_seconds


@dataclass(frozen=True)
class Chooser:
    """How well the hosts were that one way to choose has chosen.

    Attributes:
        choices: the number of moves for which it chose a host.
        best: for how many of them it was the better one, or nearly as good.
        moved: how often it chose to move.
        broke: how many of these moves broke an objective that held before.
        lost: by how much longer the responses were than on the better host, as a share, on average.
    """

    name: str
    choices: int
    best: int
    moved: int
    broke: int
    lost: float


@dataclass(frozen=True)
class Bar:
    """A bar with its measurement; `holds` is None if there is none."""

    what: str
    measured: str
    holds: bool | None


def as_document(of: Observed) -> dict[str, Any]:
    """As JSON values."""
    found: dict[str, Any] = _DOCUMENT.dump_python(of, mode="json")
    return found


def from_document(content: object) -> Observed:
    """From JSON values; raises `ValueError` if they are something else."""
    return _DOCUMENT.validate_python(content)


def candidates(advice: Mapping[str, Any] | None) -> tuple[Candidate, ...]:
    """The hosts of an answer, none of a withheld one; raises `ValueError` if it isn't one."""
    if advice is None or advice.get("withheld"):
        return ()
    try:
        return tuple(
            Candidate(each["host"], tuple(_predicted(app) for app in each["apps"])) for each in advice["candidates"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"advise answered something else: {error!r}") from None


def advised(of: Observed) -> str | None:
    """The host that an answer advises, the present one if none fits; None without an answer."""
    if of.advice is None or not candidates(of.advice):
        return None
    host: str | None = of.advice["advised"]
    return host or of.source


def compared(observed: Sequence[Observed]) -> list[Compared]:
    """Each predicted response of a host to which a site then moved."""
    return [
        Compared(each.number, app.app, _part(each, app.app), app, each.came.responses[app.app].seconds)
        for each in observed
        for candidate in candidates(each.advice)
        for app in candidate.apps
        if each.site is not None and candidate.host == each.target and app.app in each.came.responses
    ]


def unchanged(observed: Sequence[Observed]) -> list[float]:
    """The errors of who predicts each application's response before a move for after it."""
    return [
        abs(response.seconds - each.came.responses[app].seconds) / each.came.responses[app].seconds
        for each, before in _moves(observed)
        for app, response in before.responses.items()
    ]


def choosers(observed: Sequence[Observed]) -> list[Chooser]:
    """advise, each formula, and who never and always moves."""
    names = dict.fromkeys(name for each in observed for name in each.choices)
    ways: dict[str, Callable[[Observed], str | None]] = {
        ADVISE: advised,
        **{name: _by(name) for name in names},
        STAY: lambda each: each.source,
        MOVE: lambda each: each.target,
    }
    return [_chooser(name, way, observed) for name, way in ways.items()]


def bars(observed: Sequence[Observed]) -> list[Bar]:
    """All bars."""
    found = compared(observed)
    covered = sum(each.is_covered for each in found)
    error = statistics.median([each.error for each in found]) if found else None
    [advise] = [each for each in choosers(observed) if each.name == ADVISE]
    return [
        Bar(
            f"median error of predicted responses at most {ERROR:.0%}",
            "none predicted" if error is None else f"{error:.1%}, of {len(found)}",
            None if error is None else error <= ERROR,
        ),
        Bar(
            f"at least {COVERAGE:.0%} of responses within the predicted interval",
            f"{covered / len(found):.1%}, {covered} of {len(found)}" if found else "none predicted",
            covered / len(found) >= COVERAGE if found else None,
        ),
        Bar(
            f"the better host, or within {NEARLY - 1:.0%} of it, for at least {BEST:.0%} of moves",
            f"{advise.best / advise.choices:.1%}, {advise.best} of {advise.choices}" if advise.choices else "no advice",
            advise.best / advise.choices >= BEST if advise.choices else None,
        ),
        Bar(
            "no advised move broke an objective that held",
            f"{advise.broke} of {advise.moved}" if advise.choices else "no advice",
            advise.broke == 0 if advise.choices else None,
        ),
    ]


def holds(of: Sequence[Bar]) -> bool | None:
    """Whether all bars are met; None if nothing was predicted."""
    if all(bar.holds is None for bar in of):
        return None
    return all(bar.holds is not False for bar in of)


def _predicted(app: Mapping[str, Any]) -> Predicted:
    """Without a bound, such as of a queue that grows, a response is infinite."""
    seconds, low, high = (
        math.inf if app[name] is None else float(app[name]) for name in ("seconds", "low_seconds", "high_seconds")
    )
    return Predicted(app["app"], seconds, low, high)


def _moves(observed: Sequence[Observed]) -> Iterator[tuple[Observed, State]]:
    for each in observed:
        if each.site is not None and each.before is not None:
            yield each, each.before


def _by(formula: str) -> Callable[[Observed], str | None]:
    return lambda each: each.choices.get(formula)


def _chooser(name: str, way: Callable[[Observed], str | None], observed: Sequence[Observed]) -> Chooser:
    best = moved = broke = 0
    losses = []
    for each, before in _moves(observed):
        if (host := way(each)) is None:
            continue
        seconds = each.came.seconds if host == each.target else before.seconds
        better = min(each.came.seconds, before.seconds)
        losses.append(seconds / better - 1)
        best += seconds <= NEARLY * better
        if host == each.target:
            moved += 1
            broke += any(
                response.objective_held and not each.came.responses[app].objective_held
                for app, response in before.responses.items()
            )
    return Chooser(name, len(losses), best, moved, broke, statistics.fmean(losses) if losses else 0.0)


def _part(of: Observed, app: str) -> Part:
    if app == of.site:
        return "the moving site"
    return "sites that it leaves" if of.came.responses[app].host == of.source else "sites that it joins"

"""The files of `alerts/objectives/`: what an application is, and its objectives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from alerts.generator.document import FileError, Value, parse
from alerts.generator.names import Names, check_regex, names, quoted

# The highest burn rate that pages: an objective whose budget can't burn that fast would never page.
_FASTEST_BURN = 14.4
# The largest share: rates aren't precise enough for smaller budgets.
_MOST = 0.999999

EXAMPLES = {
    "app": "shop",
    "about": "The web shop, front page to basket.",
    "objectives": "{availability: {share: 0.999}}",
    "low_traffic": "0.2",
}


@dataclass(frozen=True)
class Latency:
    """At least this share (0..1) of the answers within this many seconds; `at` is the place of the seconds."""

    share: float
    seconds: float
    at: Value


@dataclass(frozen=True)
class Application:
    """One file: an application, or several that have the same objectives.

    tiers: for each tier the virtual servers that it runs on: a name or regular expression, with `{app}` for the
    application's name.
    availability: share (0..1) of the requests that must not end in an error. mean: ceiling of the mean response, in
    seconds.
    low_traffic: requests per second below which objectives are not evaluated.
    """

    name: str
    app: Names
    about: str
    host: Names | None
    tiers: dict[str, str]
    latency: Latency | None
    availability: float | None
    mean: float | None
    low_traffic: float
    at: Value

    @property
    def selector(self) -> str:
        """Label matchers for its series, without the braces."""
        return ", ".join([self.app.matcher("app"), *([self.host.matcher("host")] if self.host else [])])

    def series(self, **labels: str) -> str:
        """A selector for its series that have these labels, with the braces."""
        return f"{{{', '.join([self.selector, *(f'{name}={quoted(value)}' for name, value in labels.items())])}}}"


def read_application(text: str, file: str) -> Application:
    """The application that a file's text describes; raises `FileError`. `file` is shown; its stem names the rules."""
    stem = file.rpartition("/")[2].removesuffix(".yml")
    if not re.fullmatch("[a-z0-9][a-z0-9-]*[a-z0-9]", stem):
        raise FileError(f"{file}:1: the file's name must be small letters, digits and hyphens, such as shop.yml")
    document = parse(text, file)
    if document is None:
        raise FileError(f"{file}:1: is empty; see docs/objectives.md for what belongs there")
    fields = document.fields(EXAMPLES, optional=("host", "tiers"))
    about = fields["about"].text()
    if "{{" in about:
        fields["about"].refuse("must not contain {{, which would start a template in the alerts' annotations")
    objectives = fields["objectives"].fields({}, optional=("latency", "availability", "mean"))
    if not objectives:
        fields["objectives"].refuse("names no objective; there are latency, availability, mean")
    app = names(fields["app"])
    return Application(
        name=stem,
        app=app,
        about=about,
        host=_optional(fields, "host", names),
        tiers=_optional(fields, "tiers", lambda value: _tiers(value, app)) or {},
        latency=_optional(objectives, "latency", _latency),
        availability=_optional(objectives, "availability", _availability),
        mean=_optional(objectives, "mean", _mean),
        low_traffic=_positive(fields["low_traffic"]),
        at=fields["app"],
    )


def refuse_overlaps(applications: Iterable[Application]) -> None:
    """Raises `FileError` if two files certainly match the same application on the same host."""
    seen: list[Application] = []
    for application in applications:
        for other in seen:
            hosts_differ = (
                application.host is not None and other.host is not None and not application.host.may_overlap(other.host)
            )
            if application.app.may_overlap(other.app) and not hosts_differ:
                application.at.refuse(
                    f"{application.app.text} has objectives in {other.at.place} too; remove one of them"
                )
        seen.append(application)


def doubtful_overlaps(applications: Iterable[Application]) -> list[str]:
    """A warning for each two files whose regular expressions might match the same application on the same host."""
    return [
        later.at.said(
            f"{later.app.text} may match an application that {earlier.app.text} in {earlier.at.place} matches too; "
            "its objectives would be mixed up: make sure that no name matches both"
        )
        for earlier, later in itertools.combinations(applications, 2)
        if not earlier.app.apart_from(later.app)
        and not (earlier.host is not None and later.host is not None and earlier.host.apart_from(later.host))
    ]


def _latency(value: Value) -> Latency:
    fields = value.fields({"share": "0.99", "seconds": "0.3"})
    return Latency(_share(fields["share"]), _positive(fields["seconds"]), fields["seconds"])


def _availability(value: Value) -> float:
    return _share(value.fields({"share": "0.999"})["share"])


def _mean(value: Value) -> float:
    return _positive(value.fields({"seconds": "0.1"})["seconds"])


def _share(value: Value) -> float:
    share = value.number()
    if not 0 < share < 1:
        hint = f"; {share:g} % is {share / 100:g}" if 1 < share < 100 else ""
        value.refuse(f"{share:g} must be between 0 and 1{hint}")
    if share > _MOST:
        value.refuse(f"{share} allows less than one bad request in a million, which can neither be met nor measured")
    if _FASTEST_BURN * (1 - share) >= 1:
        value.refuse(f"{share:g} could never page: a burn rate of {_FASTEST_BURN} needs more bad requests than exist")
    return share


def _positive(value: Value) -> float:
    number = value.number()
    if number <= 0:
        value.refuse(f"{number:g} must be more than 0")
    return number


def _tiers(value: Value, app: Names) -> dict[str, str]:
    return {tier: _servers(tier, servers, app) for tier, servers in value.entries().items()}


def _servers(tier: str, value: Value, app: Names) -> str:
    if not re.fullmatch("[a-z][a-z0-9_]*", tier):
        value.refuse("a tier's name must be small letters, digits and _, such as web")
    text = value.text()
    if "{app}" not in text and not app.single:
        value.refuse(f"must say with {{app}} which of {app.text} a virtual server belongs to, such as '{{app}}-{tier}'")
    if text.count("{app}") > 1:
        value.refuse("{app} may occur only once")
    if other := re.search(r"\{[A-Za-z_]\w*\}", text.replace("{app}", "")):
        value.refuse(f"{other[0]} is unknown; there is only {{app}}, the application's name")
    check_regex(text.replace("{app}", "app"), value)
    return text


T = TypeVar("T")


def _optional(fields: Mapping[str, Value], key: str, read: Callable[[Value], T]) -> T | None:
    return read(fields[key]) if key in fields else None

"""The files of `alerts/objectives/`: applications and their objectives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from alerts.generator.names import Names, Positive, Text, WrittenNames, check_regex, quoted
from deploy.documents import Document, FileError, KeyProblem, Model

# The burn rate that pages: an objective whose budget can't burn that fast would never page.
_FASTEST_BURN = 14.4
# Rates are too imprecise for smaller budgets.
_MAX_SHARE = 0.999999


def _check_share(share: float) -> float:
    if not 0 < share < 1:
        hint = f"; {share:g} % is {share / 100:g}" if 1 < share < 100 else ""
        raise ValueError(f"{share:g} must be between 0 and 1{hint}")
    if share > _MAX_SHARE:
        raise ValueError(
            f"{share} allows less than one bad request in a million, which can neither be met nor measured"
        )
    if _FASTEST_BURN * (1 - share) >= 1:
        raise ValueError(
            f"{share:g} could never page: a burn rate of {_FASTEST_BURN} needs more bad requests than exist"
        )
    return share


def _check_about(about: str) -> str:
    if "{{" in about:
        raise ValueError("must not contain {{, which would start a template in the alerts' annotations")
    return about


Share = Annotated[float, AfterValidator(_check_share)]


class Latency(Model):
    """At least this share (0..1) of the answers within this many seconds."""

    share: Share
    seconds: Positive


class Availability(Model):
    """At least this share (0..1) of the requests must not end in an error."""

    share: Share


class Mean(Model):
    """The ceiling of the mean response, in seconds."""

    seconds: Positive


class Objectives(Model):
    """An application's objectives: at least one."""

    latency: Latency | None = None
    availability: Availability | None = None
    mean: Mean | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Objectives:
        if not self.model_fields_set:
            raise ValueError("names no objective; there are latency, availability, mean")
        return self


class Application(Model):
    """One file: an application, or several with the same objectives.

    tiers: virtual servers of each tier: a name or regular expression, with `{app}` for the application's name.
    low_traffic: requests per second below which objectives aren't evaluated.
    """

    app: WrittenNames
    about: Annotated[Text, AfterValidator(_check_about)]
    host: WrittenNames | None = None
    tiers: dict[str, Text] = Field(default_factory=dict)
    objectives: Objectives
    low_traffic: Positive

    @model_validator(mode="after")
    def _check_tiers(self) -> Application:
        for tier, servers in self.tiers.items():
            try:
                _check_servers(tier, servers, self.app)
            except ValueError as error:
                raise KeyProblem(str(error), "tiers", tier) from None
        return self

    @property
    def selector(self) -> str:
        """Label matchers for its series, without the braces."""
        return ", ".join([self.app.matcher("app"), *([self.host.matcher("host")] if self.host else [])])

    def series(self, **labels: str) -> str:
        """A selector for its series with these labels, with the braces."""
        return f"{{{', '.join([self.selector, *(f'{name}={quoted(value)}' for name, value in labels.items())])}}}"


def _check_servers(tier: str, servers: str, app: Names) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", tier):
        raise ValueError("a tier's name must be small letters, digits and _, such as web")
    if "{app}" not in servers and not app.single:
        raise ValueError(
            f"must say with {{app}} which of {app.text} a virtual server belongs to, such as '{{app}}-{tier}'"
        )
    if servers.count("{app}") > 1:
        raise ValueError("{app} may occur only once")
    if other := re.search(r"\{[A-Za-z_]\w*\}", servers.replace("{app}", "")):
        raise ValueError(f"{other[0]} is unknown; there is only {{app}}, the application's name")
    check_regex(servers.replace("{app}", "app"))


def read_application(document: Document) -> Application:
    """The application in a file; raises `FileError`. The stem of the file's name names the rules."""
    if not re.fullmatch("[a-z0-9][a-z0-9-]*[a-z0-9]", PurePath(document.file).stem):
        raise FileError(f"{document.file}:1: the file's name must be small letters, digits and hyphens, as in shop.yml")
    return document.read(Application)


def check_overlaps(applications: Mapping[Document, Application]) -> list[str]:
    """A warning for each pair of files that may match the same application on the same host.

    Raises `FileError` if a pair certainly does.
    """
    doubts = []
    for (first, earlier), (document, later) in itertools.combinations(applications.items(), 2):
        apps = earlier.app.overlap(later.app)
        hosts = earlier.host.overlap(later.host) if earlier.host and later.host else True
        if apps and hosts:
            problem = f"{later.app.text} has objectives in {first.place('app')} too; remove one of them"
            raise document.error(problem, "app")
        if apps is not False and hosts is not False:
            problem = (
                f"{later.app.text} may match an application that {earlier.app.text} in {first.place('app')} matches"
            )
            remedy = "too; its objectives would be mixed up: make sure that no name matches both"
            doubts.append(str(document.error(f"{problem} {remedy}", "app")))
    return doubts

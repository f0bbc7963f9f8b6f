"""Series are told apart by the colours and line styles of their names, which Grafana's overrides find."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from dashboards import palette


@pytest.mark.parametrize(
    "names",
    [
        [f"auction-{number}-{tier}" for number in range(1, 5) for tier in ("web", "db")],
        [str(ctid) for ctid in range(101, 111)],
        [f"node{number:02}" for number in range(1, 11)],
        ["web", "db", "app", "mail", "proxy", "cache"],
        ["demo-xen: auction-1-web", "demo-openvz: auction-1-web", "demo-base: demo-base"],
    ],
    ids=lambda names: names[0],
)
def test_series_that_stand_side_by_side_look_different(names: list[str]) -> None:
    assert len({look(name) for name in names}) == len(names)


def test_a_virtual_server_has_its_colour_wherever_it_is_and_its_host_changes_the_line() -> None:
    assert look("web-1")[0] == look("xen1: web-1")[0] == look("vz1: web-1")[0]
    assert look("demo-xen: web-1")[1] != look("demo-openvz: web-1")[1]


@pytest.mark.parametrize("name", ["", "7", "x", 'größer "quoted"', "/docker/4f2a: b", "日本", "a: b: c", "Domain-0"])
def test_every_name_has_one_colour(name: str) -> None:
    assert look(name)


def look(name: str) -> tuple[str, str]:
    """The one colour and the line style of a series of this name."""
    (colour,) = matching(palette.colours_by_name(), name)
    styles = matching(palette.styles_by_name(), name)
    assert len(styles) <= 1
    return colour, str(styles)


def matching(by_pattern: Mapping[str, object], name: str) -> list[str]:
    return [str(value) for pattern, value in by_pattern.items() if re.search(pattern[1:-2], name, re.IGNORECASE)]

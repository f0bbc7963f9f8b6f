"""A selector that a signal doesn't have can't be exchanged: the panel would show other series than it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dashboards.signals import Signal, across_hosts, beside, of_highest, unfiltered, vserver


def of(expr: str) -> Signal:
    return replace(vserver.CPU, expr=expr)


HOST = 'platform="$host_platform", host="$host"'
CHANGES: list[tuple[Callable[[Signal], object], str]] = [
    (unfiltered, f"host:overhead:ratio{{{HOST}}}"),
    (unfiltered, f'app:requests:rate{{app=~"$app", {HOST}}}'),
    (unfiltered, f'app:requests:rate{{{HOST}, app=~"$app"}} / on () app:errors:ratio{{app="$app"}}'),
    (across_hosts, 'host:overhead:ratio{host="$host"}'),
    (lambda signal: of_highest(signal, "most_used"), f"host:overhead:ratio{{{HOST}}}"),
    (beside.relative, f"vserver:ipc:ratio{{{HOST}}}"),
]


def test_a_selector_that_is_not_there_is_an_error() -> None:
    for change, expr in CHANGES:
        with pytest.raises(ValueError, match=r"isn't in, or stays in: |^no "):
            change(of(expr))


def test_a_selector_is_exchanged_wherever_it_is() -> None:
    ratio = of(f'a:b:c{{{HOST}, vserver=~"$vserver"}} / a:b:d{{{HOST}, vserver=~"$vserver"}}')
    hosts = 'platform=~"$platform", host=~"$hosts"'
    assert unfiltered(ratio).expr == f"a:b:c{{{HOST}}} / a:b:d{{{HOST}}}"
    assert across_hosts(ratio).expr == ratio.expr.replace(HOST, hosts)
    assert of_highest(of(f"a:b:c{{{hosts}}}"), "most_used").expr == f'a:b:c{{{hosts}, host=~"$most_used"}}'

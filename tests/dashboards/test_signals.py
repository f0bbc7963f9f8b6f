"""A signal's scope says whose series it selects; one with a fixed query has no other scope."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboards.signals import Signal, across_hosts, beside, of_highest, unfiltered, vserver

FIXED = replace(vserver.CPU, query='host:overhead:ratio{host="$host"}')


def test_a_signal_selects_the_series_of_its_scope() -> None:
    ratio = replace(
        vserver.CPU, query=lambda at: f"{at('a', vserver='$vserver', role='guest')} / {at('b', app='$app')}"
    )
    host, hosts = 'platform="$host_platform", host="$host"', 'platform=~"$platform", host=~"$hosts"'
    for signal, selected in (
        (ratio, host),
        (across_hosts(ratio), hosts),
        (of_highest(ratio, "most"), f'{hosts}, host=~"$most"'),
    ):
        assert signal.expr == f'a{{{selected}, vserver=~"$vserver", role="guest"}} / b{{{selected}, app=~"$app"}}'
    assert unfiltered(ratio).expr == f'a{{{host}, role="guest"}} / b{{{host}}}'


def test_a_fixed_query_has_no_other_scope() -> None:
    """The panel would show other series than it says."""

    def highest(signal: Signal) -> Signal:
        return of_highest(signal, "most_used")

    for change in (unfiltered, across_hosts, highest, beside.relative):
        with pytest.raises(ValueError, match="has only one scope"):
            change(FIXED)

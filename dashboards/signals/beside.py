"""Virtual servers of any hosts side by side, and as multiples of one of them."""

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, across_hosts, events, highest, neighbours, vserver

_BASELINE = 'host="$base_host", vserver="$base_vserver"'


CPU, WAIT, MEMORY, NETWORK, DISK, LLC_MISSES, IPC = (
    across_hosts(signal, "{{host}}: {{vserver}}")
    for signal in (
        *(vserver.CPU, vserver.WAIT, vserver.MEMORY, vserver.NETWORK, vserver.DISK),
        *(events.LLC_MISSES, events.IPC),
    )
)
WAIT_BY_REASON, WAIT_BY_WHO, WAIT_FOR_OWN = (
    across_hosts(signal, signal.legend) for signal in (neighbours.BY_REASON, neighbours.WHO, neighbours.OWN)
)


def relative(signal: Signal, *, of_highest: bool = False) -> Signal:
    """The signal, or its highest series, divided by the baseline's at the same moment, as load varies over time."""
    # The baseline may exist on two platforms, as a machine with containers does: both agree except for a moment.
    baseline = signal.scoped(hosts=_BASELINE, chosen=False).expr
    whole = highest(signal) if of_highest else signal
    return replace(
        whole,
        name=f"{signal.name} / baseline",
        query=f"({whole.expr}) / on () group_left () (max({baseline}) > 0)",
        unit=units.NoUnit,
        description=(
            f"{whole.description} Divided by the value of $base_vserver on $base_host at the same moment: 2 is twice "
            "as much."
        ),
        absent="The baseline has no value, or it is 0: choose another under Baseline.",
    )

"""Virtual servers of any hosts side by side, and as multiples of one of them."""

from dataclasses import replace

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal, across_hosts, events, highest, neighbours, vserver

_LEGEND = "{{host}}: {{vserver}}"
_BASELINE = 'host="$base_host", vserver="$base_vserver"'


def _beside(signal: Signal, name: str) -> Signal:
    """The signal of the chosen virtual servers of all chosen hosts."""
    return replace(across_hosts(signal, _LEGEND), name=name)


CPU = _beside(vserver.CPU, "CPU used")
WAIT = _beside(vserver.WAIT, "CPU wait")
WAIT_BY_REASON = across_hosts(neighbours.BY_REASON, neighbours.BY_REASON.legend)
WAIT_BY_WHO = across_hosts(neighbours.WHO, neighbours.WHO.legend)
WAIT_FOR_OWN = across_hosts(neighbours.OWN, neighbours.OWN.legend)
MEMORY = _beside(vserver.MEMORY, "Memory")
NETWORK = _beside(vserver.NETWORK, "Network")
DISK = _beside(vserver.DISK, "Disk")
LLC_MISSES = _beside(events.LLC_MISSES, "LLC misses per 1,000 instructions")
IPC = _beside(events.IPC, "Instructions per cycle")


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

"""What resctrl measures as metric families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prometheus_client import Metric

from virtscope.perf.source.resctrl import Monitored, NoFigure
from virtscope.toolkit.families import family

# By the file that each is in.
_FAMILIES = {
    "llc_occupancy": (
        "resctrl_llc_occupancy_bytes",
        "Last-level cache that the group's tasks fill now, those of its monitoring groups too, in bytes.",
    ),
    "mbm_total_bytes": (
        "resctrl_memory_bytes_total",
        "Bytes moved between this cache and memory for the group's tasks, those of its monitoring groups too.",
    ),
    "mbm_local_bytes": (
        "resctrl_local_memory_bytes_total",
        "Bytes of resctrl_memory_bytes_total that were moved to or from memory of the cache's own node.",
    ),
}


def families(monitored: Sequence[Monitored]) -> list[Metric]:
    """Return what the processor measures of each resctrl group, and how much of it is missing now.

    resctrl_llc_occupancy_bytes{group="/web",cache="0"} 1835008
    resctrl_memory_bytes_total{group="/web",cache="0"} 73400320
    resctrl_missing_figures{reason="unassigned"} 2
    """
    labelled = [({"group": each.group, "cache": each.cache}, each.figures) for each in monitored]
    made = []
    for figure, (name, documentation) in _FAMILIES.items():
        values = [(labels, figures.get(figure)) for labels, figures in labelled]
        made.append(
            family(name, documentation, [(labels, value) for labels, value in values if isinstance(value, int)])
        )
    missing = Counter(value for _, figures in labelled for value in figures.values() if isinstance(value, NoFigure))
    made.append(
        family(
            "resctrl_missing_figures",
            "Figures that have no sample now, as the kernel said Unavailable (none at this moment), Error (not "
            "measurable here) or Unassigned (the group has no counter).",
            [({"reason": word.value.lower()}, missing[word]) for word in NoFigure],
        )
    )
    return made

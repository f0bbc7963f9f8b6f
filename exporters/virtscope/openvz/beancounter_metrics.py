"""The beancounters as metric families: amounts in bytes, numbers as they are, refusals as counters."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Metric

from virtscope.openvz.beancounters import Beancounter, Beancounters, Usage
from virtscope.toolkit.blocks import Block, Blocks, Series
from virtscope.toolkit.families import gauge, info

_HELP = {
    "held": "{} of this resource that the container holds now{}.",
    "maxheld": "{} of this resource that the container has held at most{}, since its start or the last reset.",
    "barrier": "{} of this resource above which only urgent requests are met{}; absent where there is no barrier.",
    "limit": "{} of this resource that the container may hold at most{}; absent where there is no limit.",
}
_FAMILIES = {
    **{f"openvz_beancounter_{column}_bytes": text.format("Amount", ", in bytes") for column, text in _HELP.items()},
    **{f"openvz_beancounter_{column}": text.format("Number", "") for column, text in _HELP.items()},
    "openvz_beancounter_failures_total": (
        "Requests for this resource that the kernel has refused the container; its programs saw errors or waited."
    ),
}


class _Shown(NamedTuple):
    """A container, and its block in each of _FAMILIES."""

    beancounter: Beancounter
    blocks: tuple[Block, ...]


class Families:
    """Makes the families of one host, read after read, from the same blocks where the beancounters are the same."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}  # of the last read, by ctid

    def of(self, beancounters: Beancounters) -> list[Metric]:
        """Return every container's beancounters; the host's are ctid="0".

        See the same figures by hand, pages not yet in bytes, with `cat /proc/bc/resources`.

            openvz_beancounters_info{version="2.5"} 1
            openvz_beancounters_refused_containers 0
            openvz_beancounters_unknown_columns 0
            openvz_beancounter_held_bytes{ctid="101",resource="privvmpages"} 7409664
            openvz_beancounter_limit_bytes{ctid="101",resource="privvmpages"} 219443200
            openvz_beancounter_held{ctid="101",resource="numproc"} 7
            openvz_beancounter_limit{ctid="101",resource="numproc"} 65
            openvz_beancounter_failures_total{ctid="101",resource="tcprcvbuf"} 163

        Likewise `maxheld` and `barrier`.
        """
        made: list[Metric] = [
            gauge(
                "openvz_beancounters_refused_containers",
                "Containers whose beancounters could not be understood at this read, and are missing here.",
                beancounters.refused,
            ),
            gauge(
                "openvz_beancounters_unknown_columns",
                "Columns of the beancounters that this exporter doesn't know, and passes over.",
                beancounters.unknown_columns,
            ),
        ]
        if beancounters.version is not None:
            version = {"version": beancounters.version}
            made.insert(0, info("openvz_beancounters", "Version of the beancounters.", [version]))
        self._shown = {each.ctid: _show(each, self._shown.get(each.ctid)) for each in beancounters.containers}
        blocks_of_containers = [shown.blocks for shown in self._shown.values()]
        for number, (name, help_text) in enumerate(_FAMILIES.items()):
            made.append(Blocks(name, help_text, [blocks[number] for blocks in blocks_of_containers]))
        return made


def _show(beancounter: Beancounter, last: _Shown | None) -> _Shown:
    if last and last.beancounter is beancounter:
        return last
    in_bytes, in_counts = beancounter.bytes, beancounter.counts
    columns = [*_gauges(in_bytes), *_gauges(in_counts), in_bytes.failures + in_counts.failures]
    if last and last.beancounter.printed.layout == beancounter.printed.layout:
        blocks = [
            block if block.values == values else Block(block.series, values)  # equal ints are written alike
            for block, values in zip(last.blocks, columns)
        ]
    else:
        # Label sets are made once, and shared by a resource's series.
        labels_bytes, labels_counts = (
            [{"ctid": beancounter.ctid, "resource": resource} for resource in usage.resources]
            for usage in (in_bytes, in_counts)
        )
        labels = [labels_bytes] * len(_HELP) + [labels_counts] * len(_HELP) + [labels_bytes + labels_counts]
        blocks = [Block(Series(name, each), values) for name, each, values in zip(_FAMILIES, labels, columns)]
    return _Shown(beancounter, tuple(blocks))


def _gauges(usage: Usage) -> tuple[tuple[int | None, ...], ...]:
    return usage.held, usage.maxheld, usage.barrier, usage.limit

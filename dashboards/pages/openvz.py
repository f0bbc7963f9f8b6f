"""OpenVZ: what only a host of OpenVZ or Virtuozzo containers has, in its kernel's own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, panels, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, highest, openvz
from dashboards.variables import Platform

_TALL = 10  # ten names in the legend of half a page's width: four lines of it
_NARROW = 76  # pixels: "1.23 GiB", five of which fit beside a resource in half a page


def make() -> dashboard.Dashboard:
    """The dashboard of one host's containers, beyond what all platforms have."""
    return page(
        uid="virtscope-openvz",
        title="OpenVZ",
        question="What does OpenVZ itself report of this host's containers?",
        answer=(
            "Their beancounters, disk I/O accounting, waits and quotas, in the kernel's own words. Overhead and CPU "
            "wait, which all platforms have, are on the page Host."
        ),
        platform=Platform("openvz", "Container", "openvz_container_uptime_seconds", "ctid"),
        own_variables=[variables.container()],
        annotations=[marks.changes()],
        rows=[
            Row(
                "",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (
                            openvz.FAILURES,
                            openvz.LONGEST_OF_ALL,
                            openvz.ALL_DIRTY,
                            openvz.ALL_PROCESSES,
                        )
                    ),
                    _containers(),
                ],
            ),
            Row(
                "Beancounters of one container",
                [
                    _beancounters("Memory of $ctid", "Resources counted in bytes", openvz.BYTES),
                    _beancounters("Numbers of $ctid", "Resources counted by number", openvz.NUMBERS),
                ],
            ),
            Row(
                "CPU and waits",
                [
                    _half(openvz.CPU_BY_MODE),
                    _half(openvz.LONGEST_WAIT),
                    _half(openvz.SCHEDULINGS),
                    panels.lines(openvz.HOST_WAIT).span(12).height(_TALL),
                    panels.lines(openvz.HOST_WAITS).span(12).height(8),
                    panels.lines(openvz.HOST_LONGEST).span(12).height(8),
                ],
                collapsed=True,
            ),
            Row(
                "Disk I/O (container 0 is the host)",
                [
                    _half(openvz.VFS_READS),
                    _half(openvz.VFS_WRITES),
                    _half(openvz.VFS_READ_BYTES),
                    _half(openvz.VFS_WRITTEN_BYTES),
                    _several(openvz.SYNCS),
                    _several(openvz.SYNCS_ACTIVE).axis_soft_max(1),
                    _several(openvz.WRITE_BACK),
                    _half(openvz.DIRTY).title("Dirty memory over time").axis_soft_max(2**20).span(24),
                    _half(openvz.FUSE_REQUESTS).axis_soft_max(1),
                    _half(openvz.FUSE_BYTES).axis_soft_max(2**10),
                    _unknown(),
                ],
                collapsed=True,
            ),
            Row("Disk quotas", [_quotas(), _grace()], collapsed=True),
            Row("Kernel", [_files()], collapsed=True),
        ],
    )


def _half(signal: Signal) -> timeseries.Panel:
    return panels.lines(highest(signal)).span(12).height(_TALL)


def _several(signals: Sequence[Signal]) -> timeseries.Panel:
    """What belongs together, in the graph of the first: the highest of all, as the legend has no room for each kind."""
    kinds = [(signal.expr, signal.legend.removeprefix("{{ctid}} ")) for signal in signals]
    each = " or ".join(f'label_replace({expr}, "kind", "{kind}", "", "")' for expr, kind in kinds)
    return _half(replace(signals[0], query=each, legend="{{ctid}} {{kind}}")).span(24)


def _containers() -> table.Panel:
    return (
        panels.columns(
            "Containers",
            "Every running container chosen, those with most processes first. Name, host name and template: only where "
            "vestat-exporter reads vzlist (docs/vestat-exporter.md).",
            {"ctid": "CTID", "name": "Name", "hostname": "Host name", "template": "Template"},
            openvz.CONTAINERS,
        )
        .span(24)
        .height(9)
    )


def _beancounters(title: str, what: str, signals: Sequence[Signal]) -> table.Panel:
    panel = panels.columns(
        title,
        f"{what}: requests refused in the time shown, held now, held at most, the barrier above which only urgent "
        "requests are met, and the limit. A dash: there is none. Choose the container at the top.",
        {"resource": "Resource"},
        signals,
    )
    for signal in signals[1:]:
        panel.override_by_name(signal.name, panels.as_wide(_NARROW))
    return panel.span(12).height(12)


def _unknown() -> table.Panel:
    return (
        panels.columns(
            "Unknown values of ioacct",
            "Values that this version of vestat-exporter does not know, in whatever unit the kernel prints them.",
            {"ctid": "CTID", "field": "Field"},
            [openvz.UNKNOWN],
        )
        .span(24)
        .height(6)
    )


def _quotas() -> table.Panel:
    return (
        panels.columns(
            "Quotas",
            "Disk space and inodes that each container uses, and its limits. A dash: there is no limit.",
            {"ctid": "CTID"},
            openvz.QUOTAS,
        )
        .span(24)
        .height(8)
    )


def _grace() -> table.Panel:
    return (
        panels.columns(
            "Grace periods",
            "For how long each container may exceed a soft limit, and when it will be held to one that it exceeds "
            "(below 0: it is). A dash: it exceeds none.",
            {"ctid": "CTID", "limit": "Limit of"},
            openvz.GRACE,
        )
        .span(24)
        .height(6)
    )


def _files() -> table.Panel:
    return (
        panels.columns(
            "Versions and units of the host's kernel",
            "Versions of the kernel and of its files, what /proc/vz/vestat counts in, the jiffies in a second, and the "
            "file that decided it.",
            {"file": "File", "version": "Version", "unit": "Unit", "hz": "Hz", "decided_by": "Decided by"},
            [openvz.FILES],
        )
        .span(24)
        .height(7)
    )

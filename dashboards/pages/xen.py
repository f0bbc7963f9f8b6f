"""Xen: what only a Xen host has, in the hypervisor's own words."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards import marks, panels
from dashboards.layout import Row, page
from dashboards.signals import Signal, highest, xen
from dashboards.variables import Platform

_TALL = 10  # ten names in the legend of half a page's width: four lines of it


def make() -> dashboard.Dashboard:
    """The dashboard of one Xen host's domains and devices, beyond what all platforms have."""
    return page(
        uid="virtscope-xen",
        title="Xen",
        question="What does Xen itself report of this host's domains?",
        answer=(
            "Their vCPUs, scheduler parameters, virtual interfaces and block devices, in Xen's own words. Overhead and "
            "CPU wait, which all platforms have, are on the page Host."
        ),
        platform=Platform("xen", "Domain", "domain:vserver:info", "vserver"),
        annotations=[marks.changes()],
        rows=[
            Row(
                "",
                [
                    *(
                        panels.number(signal).span(6).height(3)
                        for signal in (xen.DOMAINS, xen.FREE_MEMORY, xen.PACKETS_LOST, xen.ALL_OUT_OF_REQUESTS)
                    ),
                    _domains(),
                ],
            ),
            Row("vCPUs", [_half(xen.VCPU_USED), _vcpus()]),
            Row(
                "Scheduler and CPU pools",
                [
                    _scheduling(),
                    _pools(),
                    _rare(xen.MISSED_CHANGES).span(10).height(8),
                    panels.lines(xen.TRACED).span(12).height(7),
                    _rare(xen.TRACE_LOST).span(12).height(7),
                ],
                collapsed=True,
            ),
            Row(
                "Network",
                [
                    _half(xen.PACKETS_RECEIVED),
                    _half(xen.PACKETS_SENT),
                    _rare(xen.DROPS_RECEIVED),
                    _rare(xen.DROPS_SENT),
                    _rare(xen.ERRORS_RECEIVED),
                    _rare(xen.ERRORS_SENT),
                ],
                collapsed=True,
            ),
            Row(
                "Block devices",
                [_half(xen.READS), _half(xen.WRITES), _rare(xen.OUT_OF_REQUESTS).span(24).height(7), _devices()],
                collapsed=True,
            ),
            Row(
                "Cache and memory bandwidth",
                [_half(xen.CACHE), _half(xen.BANDWIDTH)],
                collapsed=True,
            ),
            Row("Hypervisor", [_hypervisor()], collapsed=True),
        ],
    )


def _half(signal: Signal) -> timeseries.Panel:
    return panels.lines(highest(signal)).span(12).height(_TALL)


def _rare(signal: Signal) -> timeseries.Panel:
    """What is 0 as long as all is well, on a scale that does not run to 100 then."""
    return _half(signal).axis_soft_max(1)


def _domains() -> table.Panel:
    return (
        panels.columns(
            "Domains",
            "Every domain chosen, those with most vCPUs first. A dash: neither the toolstack nor the guest says.",
            {"domain": "Name", "domid": "ID", "type": "Type", "os": "OS", "cpupool": "CPU pool", "uuid": "UUID"},
            [xen.VCPUS, xen.MEMORY],
        )
        .span(24)
        .height(9)
    )


def _vcpus() -> table.Panel:
    return (
        panels.columns(
            "vCPUs",
            "Each vCPU, the busiest first: the physical CPU it was last on, those it may run on (hard affinity) and is "
            "best run on (soft affinity).",
            {"domain": "Name", "vcpu": "vCPU", "hard": "Hard", "soft": "Soft"},
            [xen.VCPU_PLACED, xen.VCPU_ON],
        )
        .span(12)
        .height(_TALL)
    )


def _scheduling() -> table.Panel:
    return (
        panels.columns(
            "Scheduler parameters",
            "Weight and cap (credit, credit2), or budget and period (rtds), and how often weight or cap were changed "
            "in the time shown. A dash: the scheduler has no such parameter, or the domain has none set.",
            {"domain": "Name", "domid": "ID"},
            [xen.CHANGES, xen.WEIGHT, xen.CAP, xen.BUDGET, xen.PERIOD],
        )
        .span(24)
        .height(8)
    )


def _pools() -> table.Panel:
    return (
        panels.columns(
            "CPU pools of the host",
            "The scheduler of each CPU pool, its physical CPUs, how long a vCPU runs while others wait, and at least.",
            {"cpupool": "CPU pool", "scheduler": "Scheduler"},
            [xen.POOL_CPUS, xen.POOL_TIMESLICE, xen.POOL_RATELIMIT],
        )
        .span(14)
        .height(8)
    )


def _devices() -> table.Panel:
    return (
        panels.columns(
            "Virtual block devices",
            "Each device with its back end and its number in hex (major:minor), those first that ran out of requests.",
            {"domain": "Name", "vbd": "Device", "type": "Back end", "device": "Number"},
            xen.DEVICES,
        )
        .span(24)
        .height(8)
    )


def _hypervisor() -> table.Panel:
    return (
        panels.columns(
            "Hypervisor of the host",
            "Version of Xen, and what it manages.",
            {"host": "Host", "version": "Version"},
            [xen.HOST_CPUS, xen.HOST_CLOCK, xen.HOST_MEMORY],
        )
        .span(24)
        .height(4)
    )

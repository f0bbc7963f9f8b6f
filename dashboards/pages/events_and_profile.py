"""Events and profile: who loses the cache to whom, and which code the misses belong to."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import dashboard

from dashboards import panels, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, events, profile


def events_and_profile() -> dashboard.Dashboard:
    """The dashboard of one host's events, with its profile beside another host's or time's."""
    return page(
        uid="virtscope-events-and-profile",
        title="Events and profile",
        question="Who loses the cache to whom on this host?",
        answer=(
            "Misses per 1,000 instructions of each virtual server, what came of its cycles, how much of that was "
            "measured, and which program and symbol an event falls on."
        ),
        own_variables=[
            variables.profiled_event(),
            variables.other_host(),
            variables.other_event(),
            variables.other_time(),
        ],
        rows=[
            Row(
                "Caches",
                [
                    panels.number(events.HOST_LLC_MISSES).span(6).height(3),
                    panels.number(events.HOST_IPC).span(6).height(3),
                    panels.number(events.COVERED).span(6).height(3),
                    panels.number(events.MEASURED_LEAST).span(6).height(3),
                    panels.lines(events.LLC_MISSES)
                    .title("LLC misses per 1,000 instructions, over time")
                    .span(12)
                    .height(8),
                    panels.lines(events.IPC).title("Instructions per cycle, over time").span(12).height(8),
                    _virtual_servers(),
                ],
            ),
            Row(
                "Profile",
                [
                    _profile("$event on $host", profile.SHARE),
                    _profile("Beside it: $other_event on $other_host", profile.OTHER_SHARE),
                ],
            ),
            Row("What is missing, and why", [_unsupported()]),
        ],
    )


def _virtual_servers() -> table.Panel:
    return (
        panels.columns(
            "Misses per 1,000 instructions",
            "Of each virtual server, the worst first: misses of the last-level cache and what is usual for it, IPC, "
            "misses of the TLBs, how much it does, and how much of the time was measured; the rest is estimated.",
            {"vserver": "Virtual server"},
            [
                events.LLC_MISSES,
                events.LLC_MISSES_USUAL,
                events.IPC,
                events.CACHE_MEASURED,
                events.DTLB_MISSES,
                events.ITLB_MISSES,
                events.TLB_MEASURED,
                events.INSTRUCTIONS,
            ],
        )
        .span(24)
        .height(8)
    )


def _unsupported() -> table.Panel:
    return (
        panels.columns(
            "Events that can't be counted",
            events.UNSUPPORTED.description,
            {"event": "Event", "group": "Group", "pmu": "PMU", "vserver": "Guest", "reason": "Reason"},
            [events.UNSUPPORTED],
        )
        .span(24)
        .height(8)
    )


def _profile(title: str, share: Signal) -> table.Panel:
    return (
        panels.columns(title, share.description, profile.PLACE, [share])
        .filterable(True)  # by a domain, or to the kernel alone
        .span(12)
        .height(12)
    )

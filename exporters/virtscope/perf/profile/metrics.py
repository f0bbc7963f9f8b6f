"""Profiles as metric families."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Metric

from virtscope.perf.profile.samples import Profile
from virtscope.toolkit.families import family, info


class Profiled(NamedTuple):
    """What all rounds have found so far."""

    profile: Profile
    lost: int  # samples
    seconds: float  # how long was sampled
    events: list[tuple[str, str, str]]  # name, pace and scope


def live_families(profiled: Profiled) -> list[Metric]:
    """Return what was found, and how.

    perf_profile_info{event="cache-misses",pace="99 Hz",scope="this kernel"} 1
    perf_profile_seconds_total 85
    perf_profile_lost_samples_total 0
    """
    events = [{"event": event, "pace": pace, "scope": scope} for event, pace, scope in profiled.events]
    return [
        *families(profiled.profile),
        info("perf_profile", "How each event is sampled on every CPU, and what of: this kernel, or more.", events),
        family(
            "perf_profile_seconds_total", "Time in which the CPUs were sampled, in seconds.", [({}, profiled.seconds)]
        ),
        family("perf_profile_lost_samples_total", "Samples that perf came too late to keep.", [({}, profiled.lost)]),
    ]


def families(profile: Profile) -> list[Metric]:
    """Return what fell on each place; events only where a report tells what its samples stand for.

    perf_profile_samples_total{event="cache-misses",image="[kernel.kallsyms]",symbol="copy_page",space="kernel",
      domain=""} 1873
    perf_profile_events_total{...} 4.1e+07
    """
    labelled = [(place._asdict(), hits) for place, hits in profile.items()]
    unknown = {place.event for place, hits in profile.items() if hits.events is None}
    return [
        family(
            "perf_profile_samples_total",
            "Samples of the event that fell on this symbol; the symbol (other) has those of all without a series.",
            [(labels, hits.samples) for labels, hits in labelled],
        ),
        family(
            "perf_profile_events_total",
            "Events that these samples stand for; seconds of those that count time. Take shares of these: perf varies "
            "the period between samples to keep to its frequency.",
            [(labels, hits.events) for labels, hits in labelled if labels["event"] not in unknown],
        ),
    ]

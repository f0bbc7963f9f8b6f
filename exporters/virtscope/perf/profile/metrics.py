"""Profiles as metric families."""

from __future__ import annotations

from prometheus_client import Metric

from virtscope.perf.profile.samples import Profile
from virtscope.shell.families import family


def families(profile: Profile) -> list[Metric]:
    """Return the samples by place.

    perf_profile_samples_total{event="cache-misses",image="[kernel.kallsyms]",symbol="copy_page",space="kernel",
      domain=""} 1873
    """
    return [
        family(
            "perf_profile_samples_total",
            "Samples that fell on this symbol, by the event that is sampled; the rest are in the symbol (other).",
            [(place._asdict(), samples) for place, samples in profile.items()],
        )
    ]

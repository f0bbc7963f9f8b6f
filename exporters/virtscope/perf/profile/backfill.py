"""A profile of old as OpenMetrics, for `promtool tsdb create-blocks-from openmetrics`."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.samples import Sample

from virtscope.perf.profile.metrics import families
from virtscope.perf.profile.samples import Profile
from virtscope.perf.profile.top import Top
from virtscope.toolkit.exposition import Encoder

_STEP = 60.0  # seconds from one sample to the next: rate() over a few minutes has enough of them
_MOST_STEPS = 1440
_MOST_PLACES = 1000  # of an event; the rest is in one series


def openmetrics(profile: Profile, begin: float, end: float, labels: Mapping[str, str]) -> bytes:
    """Return the profile as counters that rise evenly from 0 at `begin` to all it has at `end`, in Unix seconds.

    A report says nothing of the time in between. `labels` are added to each series.
    """
    top = Top(_MOST_PLACES, 0)
    top.add(profile)
    steps = min(max(round((end - begin) / _STEP), 1), _MOST_STEPS)
    times = [begin + (end - begin) * step / steps for step in range(steps)] + [end]
    return Encoder().openmetrics([_over_time(each, times, labels) for each in families(top.counts())])


def _over_time(family: Metric, times: list[float], labels: Mapping[str, str]) -> Metric:
    last = len(times) - 1
    samples = []
    for sample in family.samples:
        every = {**sample.labels, **labels}
        samples += [
            Sample(sample.name, every, sample.value * step / last, round(time, 3)) for step, time in enumerate(times)
        ]
    family.samples = samples
    return family

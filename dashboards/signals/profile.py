"""Where an event fell, as in the studies: the share of each place in all of it in the same domain.

From the exporter's own series, not the vocabulary: an imported study lies in the past, where rules record nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal

_OF = {"vserver": "Guest", "domain": "Domain"}
"""A profile taken inside a guest has its name, one taken from outside (Xenoprof) the domain's number; neither: the
host itself."""

PLACE = {"symbol": "Symbol", "image": "Image", "space": "Space", **_OF}
"""Labels that distinguish places, and their headers in a table."""

IMAGE = {"image": "Image", **_OF}
"""The same of a program, library or kernel as a whole."""

_ROWS = 40  # of each domain; the exporter has about as many
_LINES = 5  # of all domains together: a legend of long names has room for one a line


def _fell(chosen: str, window: str) -> str:
    """How many of the event fell on each place within a range (and offset)."""
    # Events where they are known: perf varies the period, so that samples stand for more of them here than there. A
    # report of fixed periods has samples alone.
    selected = f"{{{chosen}}}{window}"
    return f"increase(perf_profile_events_total{selected}) or increase(perf_profile_samples_total{selected})"


def _share(by: Iterable[str], chosen: str, window: str) -> str:
    """The part of each place in all of the event in its domain, within a range (and offset)."""
    fell = _fell(chosen, window)
    return (
        f"sum by ({', '.join(by)}) ({fell})"
        f" / on (vserver, domain) group_left () (sum by (vserver, domain) ({fell}) > 0) > 0"
    )


def _most(by: Iterable[str], chosen: str, offset: str) -> str:
    return f"topk by (vserver, domain) ({_ROWS}, {_share(by, chosen, f'[$__range]{offset}')})"


def _most_over_time(chosen: str, offset: str) -> str:
    """Shares over time of the places that most of the whole time fell on (topk alone would choose others at each step),
    with their rank among these as label `_rank`, which sorts before all others.

    The rank of a place follows from how many of "the first", "the first two", ... it is among. All of them are the same
    at each step, so Prometheus finds them once.
    """
    place = ", ".join(PLACE)
    whole_time = f"sum by ({place}) ({_fell(chosen, f'[$__range] @ end(){offset}')})"
    among = " or ".join(
        f'label_replace(topk({count}, {whole_time}), "among", "{count}", "", "")' for count in range(1, _LINES + 1)
    )
    ranks = f'count_values by ({place}) ("_rank", {_LINES + 1} - count by ({place}) ({among}))'
    return f"({_share(PLACE, chosen, f'[$__rate_interval]{offset}')}) * on ({place}) group_left (_rank) {ranks}"


# The host's own samples have no guest's name, and are shown whichever guests are chosen.
_CHOSEN = 'host="$host", event="$event", vserver=~"$vserver|"'
_BESIDE = 'host="$other_host", event="$other_event", vserver=~"$other_vserver|"'
_EARLIER = " offset $other_time"

_LEGEND = "{{_rank}}. {{vserver}}{{domain}} {{symbol}} {{image}}"
_NONE = "No profile of this host and event in this time range: docs/profiles.md."
_NONE_BESIDE = 'No profile of that host and event at that time: choose another under "Compare".'
_SAME_BESIDE = 'The same of the host, event and time that are chosen under "Compare".'

SHARE = Signal(
    "Share",
    _most(PLACE, _CHOSEN, ""),
    units.PercentUnit,
    "Share of each image and symbol in all samples of the chosen event in the same domain, over the time shown. The "
    "symbol (other) stands for those without a series.",
    _NONE,
    decimals=2,
)

OTHER_SHARE = Signal(
    "Share", _most(PLACE, _BESIDE, _EARLIER), units.PercentUnit, _SAME_BESIDE, _NONE_BESIDE, decimals=2
)

IMAGE_SHARE = Signal(
    "Share",
    _most(IMAGE, _CHOSEN, ""),
    units.PercentUnit,
    "Share of each program, library or kernel in all samples of the event in the same domain.",
    _NONE,
    decimals=2,
)

OTHER_IMAGE_SHARE = Signal(
    "Share", _most(IMAGE, _BESIDE, _EARLIER), units.PercentUnit, _SAME_BESIDE, _NONE_BESIDE, decimals=2
)

TOP = Signal(
    "Share over time",
    _most_over_time(_CHOSEN, ""),
    units.PercentUnit,
    f"The {_LINES} symbols with most samples of the event in the time shown, and the share of each in all of the "
    "same domain. A line that steps up is code that began to miss the cache then.",
    _NONE,
    legend=_LEGEND,
)

OTHER_TOP = Signal(
    "Share over time",
    _most_over_time(_BESIDE, _EARLIER),
    units.PercentUnit,
    f"{_SAME_BESIDE} An earlier time is shifted to now.",
    _NONE_BESIDE,
    legend=_LEGEND,
)

_OF_HOST = 'host="$host", vserver=~"$vserver|"'
_NOT_LIVE = "Not sampled now: no perf-exporter profiles here, or the profile was imported (docs/profiles.md)."

SAMPLED = Signal(
    "Sampled now",
    f"max by (vserver, event, pace, scope) (perf_profile_info{{{_OF_HOST}}})",
    units.BoolYesNo,
    "How each event is sampled on every CPU, and what of. Without a guest: on the host itself.",
    _NOT_LIVE,
)


def _by_guest(counter: str) -> str:
    """How fast it grows for each guest, and for the host itself, which has no name there."""
    grown = f"sum by (vserver) (rate({counter}{{{_OF_HOST}}}[$__rate_interval]))"
    return f'label_replace({grown}, "vserver", "(host)", "vserver", "")'


SAMPLED_CPUS = Signal(
    "Time sampled on $host",
    _by_guest("perf_profile_seconds_total"),
    units.PercentUnit,
    "Share of the time in which the CPUs were sampled; a round takes a part of each minute.",
    _NOT_LIVE,
    legend="{{vserver}}",
)

LOST = Signal(
    "Lost samples on $host",
    _by_guest("perf_profile_lost_samples_total"),
    "suffix:/s",
    "Samples that perf came too late to keep: lower the frequency if there are many.",
    _NOT_LIVE,
    legend="{{vserver}}",
)

"""Where an event occurred, as in the studies: each place's share of the event in the same domain.

From the exporter's series, not the vocabulary: an imported study is in the past, where rules don't record.
Events are counted where known ($kind, $other_kind): perf varies the period, so a sample doesn't always represent the
same number of events. A report with fixed periods only has samples.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal

_OF = {"vserver": "Guest", "domain": "Domain"}
"""A profile taken inside a guest has its name; one taken from outside (Xenoprof) has the domain's number; without
either it is the host's own."""

PLACE = {"symbol": "Symbol", "image": "Image", "space": "Space", **_OF}
"""Labels that identify places, and their table headers."""

IMAGE = {"image": "Image", **_OF}
"""The same for a whole program, library or kernel."""

_ROWS = 40  # per domain; the exporter has about as many
_LINES = 5  # for all domains together: with long names the legend fits one per line

# The host's own samples have no guest name, and are shown for any choice of guests.
_CHOSEN = '{__name__="$kind", host="$host", event="$event", vserver=~"$vserver|"}'
_BESIDE = '{__name__="$other_kind", host="$other_host", event="$other_event", vserver=~"$other_vserver|"}'
_EARLIER = " offset $other_time"


def _share(by: Iterable[str], fell: str) -> str:
    """Each place's share of the event in its domain."""
    return f"sum by ({', '.join(by)}) ({fell}) / on (vserver, domain) group_left () sum by (vserver, domain) ({fell})"


def _highest_shares(by: Iterable[str], chosen: str, offset: str) -> str:
    return f"topk by (vserver, domain) ({_ROWS}, {_share(by, f'increase({chosen}[$__range]{offset})')} > 0)"


def _over_time(chosen: str, offset: str) -> str:
    """Shares of the places with most events over the whole time range: plain topk would select others at each step."""
    whole_time = f"sum by ({', '.join(PLACE)}) (increase({chosen}[$__range] @ end(){offset}))"
    return f"{_share(PLACE, f'increase({chosen}[$__rate_interval]{offset})')} and topk({_LINES}, {whole_time})"


_of_chosen = partial(
    Signal, unit=units.PercentUnit, absent="No profile of this host and event in this time range: docs/profiles.md."
)
_of_other = partial(
    Signal,
    unit=units.PercentUnit,
    absent='No profile of that host and event at that time: choose another under "Compare".',
)
_SAME_BESIDE = 'The same of the host, event and time that are chosen under "Compare".'

SHARE = _of_chosen(
    "Share",
    _highest_shares(PLACE, _CHOSEN, ""),
    description=(
        "Share of each image and symbol in all samples of the chosen event in the same domain, over the time shown. "
        "The symbol (other) stands for those without a series."
    ),
    decimals=2,
)
IMAGE_SHARE = replace(
    SHARE,
    query=_highest_shares(IMAGE, _CHOSEN, ""),
    description="Share of each program, library or kernel in all samples of the event in the same domain.",
)
OTHER_SHARE = _of_other("Share", _highest_shares(PLACE, _BESIDE, _EARLIER), description=_SAME_BESIDE, decimals=2)
OTHER_IMAGE_SHARE = replace(OTHER_SHARE, query=_highest_shares(IMAGE, _BESIDE, _EARLIER))

_LEGEND = "{{vserver}}{{domain}} {{symbol}} {{image}}"
TOP = _of_chosen(
    "Share over time",
    _over_time(_CHOSEN, ""),
    description=(
        f"The {_LINES} symbols with most samples of the event in the time shown, and the share of each in all of the "
        "same domain. A line that steps up is code that began to miss the cache then."
    ),
    legend=_LEGEND,
)
OTHER_TOP = _of_other(
    "Share over time",
    _over_time(_BESIDE, _EARLIER),
    description=f"{_SAME_BESIDE} An earlier time is shifted to now.",
    legend=_LEGEND,
)

_OF_HOST = 'host="$host", vserver=~"$vserver|"'
_NOT_LIVE = "Not sampled now: no perf-exporter profiles here, or the profile was imported (docs/profiles.md)."
SAMPLED = Signal(
    "Sampled now",
    f"max by (vserver, event, pace, scope) (perf_profile_info{{{_OF_HOST}}})",
    units.BoolYesNo,
    absent=_NOT_LIVE,
)


def _by_guest(counter: str) -> str:
    """The counter's rate for each guest, and for the host itself, which has no name there."""
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

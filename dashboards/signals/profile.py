"""Where an event fell, as in the studies: the share of each symbol in all of it in the same domain.

From the exporter's own series, not the vocabulary: an imported study lies in the past, where rules record nothing.
"""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from dashboards.signals import Signal

PLACE = {"symbol": "Symbol", "image": "Image", "space": "Space", "vserver": "Guest", "domain": "Domain"}
"""What tells one place from another, and what it is called in a table. A profile taken inside a guest bears its name,
one taken from outside (Xenoprof) the domain's number; neither: the host itself."""

_ROWS = 40  # of each domain; the exporter has about as many


def _share(host: str, event: str, offset: str) -> str:
    # Events where they are known: perf varies the period, so that samples stand for more of them here than there. A
    # report of fixed periods has samples alone.
    chosen = f'{{host="{host}", event="{event}"}}[$__range]{offset}'
    fell = f"increase(perf_profile_events_total{chosen}) or increase(perf_profile_samples_total{chosen})"
    return (
        f"topk by (vserver, domain) ({_ROWS}, sum by ({', '.join(PLACE)}) ({fell})"
        f" / on (vserver, domain) group_left () (sum by (vserver, domain) ({fell}) > 0) > 0)"
    )


SHARE = Signal(
    name="Share",
    expr=_share("$host", "$event", ""),
    unit=units.PercentUnit,
    description=(
        "Which image and symbol the chosen event fell on, in the time that the dashboard shows: their share in all of "
        "it in the same domain, as far as samples tell. The symbol (other) stands for those without a series."
    ),
    absent=(
        "No profile of this host in this time. It takes a perf-exporter and perf there, or an imported report "
        "(perf-exporter import) and a time range around its date."
    ),
    decimals=2,
)

OTHER_SHARE = Signal(
    name="Share",
    expr=_share("$other_host", "$other_event", " offset $other_time"),
    unit=units.PercentUnit,
    description='The same of the host, event and time that are chosen under "Beside it".',
    absent='No profile of that host and event at that time: choose another under "Beside it".',
    decimals=2,
)

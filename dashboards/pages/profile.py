"""Profile: event share of each program and symbol, compared with another host, event or time."""

from collections.abc import Mapping

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import palette, panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import Signal, profile

_CHOSEN = "$event on $host"
_BESIDE = "$other_event on $other_host, ${other_time:text}"


def _over_time(of: str, top: Signal) -> timeseries.Panel:
    return _rounds(top).title(f"Top: {of}").span(12).height(12)


def _rounds(signal: Signal) -> timeseries.Panel:
    # The profiler runs once a minute, its scrape interval; within less time most places have no sample.
    rounds = panels.query(signal).range().interval("1m")
    return panels.lines(signal).targets([rounds]).span(12).height(8)


def _shares(title: str, labels: Mapping[str, str], share: Signal, *, width: int, height: int) -> table.Panel:
    return (
        tables.columns(title, share.description, labels, [share], width=width, height=height)
        .override_by_name(share.name, tables.as_bar(palette.GUESTS, 180))
        .filterable(True)  # by domain, or only the kernel
    )


def _by_symbol(of: str, share: Signal) -> table.Panel:
    return _shares(f"Symbols: {of}", profile.PLACE, share, width=24, height=12)


def _by_image(of: str, share: Signal) -> table.Panel:
    return _shares(f"Images: {of}", profile.IMAGE, share, width=12, height=8)


PAGE = page(
    uid="virtscope-profile",
    title="Profile",
    question="Which code do the misses belong to?",
    answer=(
        "The share of each program and symbol in an event, and below or beside it that of another host, event or "
        "time: base shows what a hypervisor adds, the day before what a change did."
    ),
    variables=[*variables.of_one_host("perf_profile_samples_total"), *variables.profiles()],
    rows=[
        Row("", _over_time(_CHOSEN, profile.TOP), _over_time(_BESIDE, profile.OTHER_TOP)),
        Row("By symbol", _by_symbol(_CHOSEN, profile.SHARE), _by_symbol(_BESIDE, profile.OTHER_SHARE)),
        Row("By image", _by_image(_CHOSEN, profile.IMAGE_SHARE), _by_image(_BESIDE, profile.OTHER_IMAGE_SHARE)),
        Row(
            "Sampling",
            tables.columns(
                "Sampled events on $host",
                "How each event is sampled on every CPU, and what of. Without a guest: on the host itself.",
                {"vserver": "Guest", "event": "Event", "pace": "Pace", "scope": "Scope"},
                [profile.SAMPLED],
                height=6,
            ),
            _rounds(profile.SAMPLED_CPUS),
            _rounds(profile.LOST).axis_soft_max(1),
            collapsed=True,
        ),
    ],
)

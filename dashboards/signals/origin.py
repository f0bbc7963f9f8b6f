"""Origin of the data: a monitored host, a simulated one from `make demo`, or a recording."""

from grafana_foundation_sdk.models import units

from dashboards.signals import ANY_HOSTS, KNOWN_HOSTS, ONE_HOST, Signal, of_exporters

WORDS = ("live", "DEMO, not live", "REPLAYED, not live")
"""Words for 0, 1 and 2."""


def _demo_hosts(chosen: str, within: str = "") -> Signal:
    """Hosts that exist now, or existed within a time."""

    def known(hosts: str) -> str:
        series = f"{{{KNOWN_HOSTS}, {hosts}}}"
        return f"group by (host) ({f'last_over_time({series}[{within}])' if within else series})"

    shown, played = known(chosen), known(f'{chosen}, host=~"demo-.+"')
    recordings = of_exporters("source_info", f'{chosen}, detail=~"replay:.+"')
    return Signal(
        "Data",
        f"clamp_max(count({played}), 1) or 2 * clamp_max(count({recordings}), 1) or 0 * count({shown})",
        units.NoUnit,
        "Hosts called demo-* don't exist: `make demo` plays them, after a study of 2007. Replayed: an exporter reads "
        "at least one of the hosts from a recording.",
        "No records of the chosen hosts in this time range: see Prometheus, Status, Targets.",
    )


# Includes hosts that have ended, such as a finished lab. With many hosts the query would be too expensive.
OF_ONE_HOST = _demo_hosts(ONE_HOST, "$__range")
OF_ANY_HOSTS = _demo_hosts(ANY_HOSTS)

"""What is chosen at the top of a dashboard. Every one has data source, platform and host, each narrowing the next."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import CustomVariable, DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableOption, VariableRefresh, VariableSort

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


# A host whose exporter runs but has nothing to say is known by the monitor's cost alone. It can be chosen too: that is
# when someone looks.
_HOSTS = '__name__=~"vserver:cpu_usage:rate|monitor:cpu_usage:rate"'


def datasource() -> DatasourceVariable:
    """Offer every Prometheus data source of the Grafana that shows the dashboard, whatever its name or UID."""
    return DatasourceVariable("datasource").label("Data source").type("prometheus")


def platform() -> QueryVariable:
    """Choose any set of platforms, all at first."""
    return (
        _label_values("platform", "Platform", f"label_values({{{_HOSTS}}}, platform)")
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def host() -> QueryVariable:
    """Choose one host of the chosen platforms: shares and capacities of several do not add up to anything."""
    return _label_values("host", "Host", f'label_values({{{_HOSTS}, platform=~"$platform"}}, host)')


def profiled_event() -> QueryVariable:
    """Choose one of the events that the host's profiles are of."""
    return _label_values("event", "Profiled event", 'label_values(perf_profile_samples_total{host="$host"}, event)')


def other_host() -> QueryVariable:
    """Choose the host whose profile stands beside, which may be the same."""
    return _label_values("other_host", "Beside it: host", "label_values(perf_profile_samples_total, host)")


def other_event() -> QueryVariable:
    """Choose one of that host's events: an old study calls it otherwise than perf does."""
    return _label_values("other_event", "event", 'label_values(perf_profile_samples_total{host="$other_host"}, event)')


def other_time() -> CustomVariable:
    """Choose how much earlier than the dashboard's time that profile was taken."""
    # PromQL refuses an offset of 0.
    choices = {"same time": "1ms", "an hour earlier": "1h", "a day earlier": "1d", "a week earlier": "1w"}
    options = [VariableOption(selected=value == "1ms", text=text, value=value) for text, value in choices.items()]
    return (
        CustomVariable("other_time")
        .label("time")
        .values(", ".join(f"{text} : {value}" for text, value in choices.items()))
        .options(options)
        .current(options[0])
    )


def _label_values(name: str, label: str, query: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
    )

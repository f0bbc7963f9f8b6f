"""The variables that every dashboard shares. Each narrows the next: data source, platform, host."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable
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
        _from_vocabulary("platform", "Platform", f"label_values({{{_HOSTS}}}, platform)")
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def host() -> QueryVariable:
    """Choose one host of the chosen platforms: shares and capacities of several do not add up to anything."""
    return _from_vocabulary("host", "Host", f'label_values({{{_HOSTS}, platform=~"$platform"}}, host)')


def _from_vocabulary(name: str, label: str, query: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
    )

"""What is chosen at the top of a dashboard, narrowing the next: platform, host, then application or virtual server.

Links between dashboards hand a choice on by its variable's name, so that a name means the same on all of them: `host`
is always one host, `hosts` any set of them.
"""

from __future__ import annotations

from typing import NamedTuple

from grafana_foundation_sdk.builders.dashboard import CustomVariable, DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.signals import ANY_HOSTS, KNOWN_HOSTS, LINES, ONE_HOST, Signal

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

_KNOWN_VSERVERS = '__name__=~"vserver:cpu_usage:rate|vserver:instructions:rate"'
_SCORES = 'host:severity:score{platform=~"$platform"}'
_KNOWN_APPS = '__name__=~"vserver:app:info|app:requests:rate"'


class Platform(NamedTuple):
    """A platform that has a page in its own words, and how these name a virtual server."""

    name: str
    """The label `platform` of its hosts."""

    vserver: str
    """What it calls a virtual server."""

    metric: str
    """Has a series for each, with its name in `label`."""

    label: str


def of_one_host(measured: str = "") -> list[DatasourceVariable | QueryVariable]:
    """The variables of a dashboard that shows one host at a time, at first one that has this series, if any has."""
    return [_datasource(), _platform(), _host(measured), _host_platform(), _app(ONE_HOST), _vserver(ONE_HOST)]


def of_any_hosts(*, below_hosts: bool = True) -> list[DatasourceVariable | QueryVariable]:
    """The variables of a dashboard that shows hosts beside each other; the one host is for the way back.

    below_hosts: with those of applications and virtual servers. Grafana asks for hidden variables too, and a fleet has
    half a million virtual servers.
    """
    return [
        _datasource(),
        _platform(),
        _any(_asked("hosts", "Hosts", f'label_values({{{KNOWN_HOSTS}, platform=~"$platform"}}, host)'), ".+"),
        _severest_host(f"max by (host) ({_SCORES})"),
        *([_app(ANY_HOSTS), _vserver(ANY_HOSTS)] if below_hosts else []),
    ]


def highest(name: str, signal: Signal) -> QueryVariable:
    """The hosts on which a signal of all hosts is highest, by its mean over the time that is shown.

    A graph that asks for these alone reads ten series, and not ten thousand to draw ten of them.
    """
    # The mean chooses hosts alone, and is shown nowhere. ${__range_s}00ms is a tenth of the range; what began after the
    # last of these has a value at the end alone.
    mean = f"avg_over_time(({signal.expr})[$__range:${{__range_s}}00ms])"
    at_the_end = f"last_over_time(({signal.expr})[1m:20s])"
    return (
        _asked(name, signal.name, f"query_result(topk({LINES}, {mean} or {at_the_end}))")
        .regex('/host="([^"]+)"/')
        .sort(VariableSort.DISABLED)
        .multi(True)
        .include_all(True)
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
        .hide(VariableHide.HIDE_VARIABLE)
    )


def of_one_host_of(platform: Platform) -> list[DatasourceVariable | QueryVariable]:
    """The same variables of a dashboard that is for one platform's hosts alone, with that platform's own names."""
    its_hosts = f'platform="{platform.name}"'
    as_its_own = _asked(
        "host_platform", "Platform of the host", f"label_values({{{KNOWN_HOSTS}, {its_hosts}}}, platform)"
    )
    names = f"label_values({platform.metric}{{{ONE_HOST}}}, {platform.label})"
    return [
        _datasource(),
        _platform(),
        _host(platforms=its_hosts),
        as_its_own.hide(VariableHide.HIDE_VARIABLE),
        _app(ONE_HOST),
        _any(_asked("vserver", platform.vserver, names), ".*"),
    ]


def container() -> QueryVariable:
    """Choose one of the containers for the table of its beancounters, at first the one with most failed requests."""
    failures = f'openvz_beancounter_failures_total{{{ONE_HOST}, ctid=~"$vserver"}}'
    return (
        _asked("ctid", "Beancounters of", f"query_result(sort_desc(sum by (ctid) ({failures})))")
        .regex('/ctid="([^"]+)"/')
        .sort(VariableSort.DISABLED)  # Prometheus has done so
    )


def base_host() -> QueryVariable:
    """Choose the host of the virtual server that others are divided by."""
    return _asked("base_host", "Baseline", f'label_values({{{_KNOWN_VSERVERS}, host=~"$hosts"}}, host)')


def base_platform() -> QueryVariable:
    """Choose one of two, where a machine with containers is the host that others are divided by."""
    query = f'label_values({{{_KNOWN_VSERVERS}, host="$base_host"}}, platform)'
    return _asked("base_platform", "Platform of the baseline", query).hide(VariableHide.HIDE_LABEL)


def base_time() -> CustomVariable:
    """Choose how much earlier the baseline is taken, as to compare a host with itself."""
    return _earlier("base_time", "Baseline's time")


def base_vserver() -> QueryVariable:
    """Choose the virtual server that others are divided by."""
    query = f'label_values({{{_KNOWN_VSERVERS}, host="$base_host"}}, vserver)'
    return _asked("base_vserver", "Virtual server of the baseline", query).hide(VariableHide.HIDE_LABEL)


def profiled_event() -> QueryVariable:
    """Choose one of the events that the host's profiles are of."""
    return _asked("event", "Profiled event", 'label_values(perf_profile_samples_total{host="$host"}, event)')


def other_host() -> QueryVariable:
    """Choose the host whose profile is compared, which may be the same."""
    return _asked("other_host", "Compare: host", "label_values(perf_profile_samples_total{}, host)")


def other_event() -> QueryVariable:
    """Choose one of that host's events: an old study names it otherwise than perf does."""
    return _asked("other_event", "event", 'label_values(perf_profile_samples_total{host="$other_host"}, event)')


def other_vserver() -> QueryVariable:
    """Choose those of that host's guests that were profiled inside."""
    query = 'label_values(perf_profile_samples_total{host="$other_host"}, vserver)'
    return _any(_asked("other_vserver", "guest", query), ".*")


def other_time() -> CustomVariable:
    """Choose how much earlier than the dashboard's time that profile was taken."""
    return _earlier("other_time", "time")


# The machine itself is what others are compared with at first.
_BASE = 'label_replace(vector(1), "environment", "base", "", "")'


def lab_run() -> QueryVariable:
    """Choose some of the lab's runs."""
    return _any(_asked("run", "Run", f"label_values(lab_run_info{{{ANY_HOSTS}}}, run)"), ".+")


def lab_test() -> QueryVariable:
    """Choose some of the tests that these runs have measurements of."""
    return _any(_asked("test", "Test", f'label_values(lab_measurement{{{ANY_HOSTS}, run=~"$run"}}, test)'), ".+")


def lab_baseline() -> QueryVariable:
    """Choose the environment that others are divided by."""
    known = f'group by (environment) (last_over_time(lab_measurement{{{ANY_HOSTS}, run=~"$run"}}[$__range]))'
    base_first = f"sort_desc(2 * group by (environment) ({known} and on (environment) {_BASE}) or {known})"
    return (
        _asked("baseline", "Baseline", f"query_result({base_first})")
        .regex('/environment="([^"]+)"/')
        .sort(VariableSort.DISABLED)  # Prometheus has done so
    )


def prometheus() -> QueryVariable:
    """Find the address by which the Prometheus with our rules scrapes itself, under which it serves the runbooks."""
    # By its rules and not by its job: that may be called otherwise, and others may be scraped too.
    ours = 'prometheus_rule_group_interval_seconds{rule_group=~".+;derived"}'
    return _asked("prometheus", "Prometheus", f"label_values({ours}, instance)").hide(VariableHide.HIDE_VARIABLE)


def _host_platform() -> QueryVariable:
    """The platform that the host is shown as: of two chosen ones, the one that it has its guests by."""
    known = 'last_over_time({__name__=~"host:cpu_capacity:cpus|monitor:cpu_usage:rate", host="$host"%s}[$__range])'
    chosen = ', platform=~"$platform"'
    virtual, either = known % (chosen + ', platform!="base"'), known % chosen
    return (
        _asked(
            "host_platform",
            "Platform of the host",
            f"query_result(topk(1, group by (platform) ({virtual}) or 0 * group by (platform) ({either})))",
        )
        .regex('/platform="([^"]+)"/')
        .hide(VariableHide.HIDE_VARIABLE)
    )


def _datasource() -> DatasourceVariable:
    """Offer every Prometheus data source of the Grafana that shows the dashboard; its default is taken at first."""
    # Grafana has an option of this value where its default fits; without it, the first one by name would be taken.
    default = VariableOption(selected=True, text="default", value="default")
    return DatasourceVariable("datasource").label("Data source").type("prometheus").current(default)


def _platform() -> QueryVariable:
    return _any(_asked("platform", "Platform", f"label_values({{{KNOWN_HOSTS}}}, platform)"), ".+")


def _host(measured: str = "", platforms: str = 'platform=~"$platform"') -> QueryVariable:
    """One host of these platforms, at first the one with the severest alerts; of equal ones that with more overhead.

    measured: those with this series come before all others.

    One: shares and capacities of several do not add up to anything.
    """
    # A host that is gone since has no alerts any more.
    score = f"host:severity:score{{{platforms}}}"
    scores = f"max by (host) ({score}) or 0 * group by (host) (last_over_time({score}[$__range]))"
    if measured:
        scores = f"1e6 + max by (host) ({score} and on (host) {measured}) or {scores}"
    return _severest_host(scores)


def _severest_host(scores: str) -> QueryVariable:
    return (
        _asked("host", "Host", f"query_result(sort_desc({scores}))")
        .regex('/host="([^"]+)"/')
        .sort(VariableSort.DISABLED)  # Prometheus has done so
    )


def _app(hosts: str) -> QueryVariable:
    return _any(_asked("app", "Application", f"label_values({{{_KNOWN_APPS}, {hosts}}}, app)"), ".*")


def _vserver(hosts: str) -> QueryVariable:
    return _any(_asked("vserver", "Virtual server", f"label_values({{{_KNOWN_VSERVERS}, {hosts}}}, vserver)"), ".*")


def _earlier(name: str, label: str) -> CustomVariable:
    # PromQL refuses an offset of 0.
    choices = {"same time": "1ms", "an hour earlier": "1h", "a day earlier": "1d", "a week earlier": "1w"}
    options = [VariableOption(selected=value == "1ms", text=text, value=value) for text, value in choices.items()]
    return (
        CustomVariable(name)
        .label(label)
        .values(", ".join(f"{text} : {value}" for text, value in choices.items()))
        .options(options)
        .current(options[0])
    )


def _any(variable: QueryVariable, everything: str) -> QueryVariable:
    """Let any set be chosen, all at first: `everything` is the regular expression that stands for all.

    Without it Grafana would spell all out, and a name with a quote in it would break every query.
    """
    return (
        variable.multi(True)
        .include_all(True)
        .all_value(everything)
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _asked(name: str, label: str, query: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
    )

"""Variables at the top of a dashboard, each narrowing the next: platform, host, then application or virtual server.

Links pass a choice on by the variable's name, so names mean the same on all dashboards: `host` is always one host,
`hosts` any set of hosts.
"""

from grafana_foundation_sdk.builders.dashboard import CustomVariable, DatasourceVariable, QueryVariable
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.signals import ANY_HOSTS, KNOWN_HOSTS, ONE_HOST, Signal, top

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

_KNOWN_VSERVERS = '__name__=~"vserver:cpu_usage:rate|vserver:events_enabled:rate"'
_SCORES = 'host:severity:score{platform=~"$platform"}'
_KNOWN_APPS = '__name__=~"vserver:app:info|app:requests:rate"'


_Variables = list[DatasourceVariable | QueryVariable | CustomVariable]


def of_one_host(measured: str = "") -> _Variables:
    """The variables of a dashboard that shows one host at a time; prefers hosts with the series `measured`."""
    return [*_choice(), _host(measured), _host_platform(), _app(ONE_HOST), _vserver(ONE_HOST)]


def of_one_application() -> _Variables:
    """The same variables for a page that begins with the application: hosts that have it come first."""
    its_hosts = f'{{{_KNOWN_APPS}, app=~"$app"}}'
    return [*_choice(), _app('platform=~"$platform"'), _host(its_hosts), _host_platform(), _vserver(ONE_HOST)]


def of_any_hosts(*, below_hosts: bool = True) -> _Variables:
    """The variables of a dashboard that shows hosts side by side; `host` is for the way back.

    below_hosts: include applications and virtual servers. Grafana also queries hidden variables, and a fleet has half a
    million virtual servers.
    """
    return [
        *_choice(),
        _any(_values("hosts", "Hosts", f'{{{KNOWN_HOSTS}, platform=~"$platform"}}', "host"), ".+"),
        _first("host", "Host", f"sort_desc(max by (host) ({_SCORES}))"),
        *([_app(ANY_HOSTS), _vserver(ANY_HOSTS)] if below_hosts else []),
    ]


def of_platform(platform: str, vserver: str, metric: str, label: str) -> _Variables:
    """The same variables for hosts of one platform, with its own term for a virtual server.

    metric: has a series for each virtual server, named by `label`.
    """
    its_hosts = f'platform="{platform}"'
    names = _values("vserver", vserver, f"{metric}{{{ONE_HOST}}}", label)
    as_its_own = _values("host_platform", "Platform of the host", f"{{{KNOWN_HOSTS}, {its_hosts}}}", "platform")
    return [
        *_choice(),
        _host(platforms=its_hosts),
        as_its_own.hide(VariableHide.HIDE_VARIABLE),
        _app(ONE_HOST),
        _any(names, ".*"),
    ]


def highest(name: str, signal: Signal) -> QueryVariable:
    """The hosts with a signal's highest means over the time range.

    A graph limited to these hosts reads ten series instead of ten thousand.
    """
    return _all_at_first(_first(name, signal.name, top(signal), label="host")).hide(VariableHide.HIDE_VARIABLE)


def container() -> QueryVariable:
    """Choose a container for the table of beancounters; by default the one with most failed requests."""
    failures = f'openvz_beancounter_failures_total{{{ONE_HOST}, ctid=~"$vserver"}}'
    return _first("ctid", "Beancounters of", f"sort_desc(sum by (ctid) ({failures}))")


def resource(hosts: str = 'host="$host"') -> QueryVariable:
    """Choose the resource that virtual servers of these hosts wait for: the CPU at first."""
    return _values("for", "Waits for", f"vserver:delay:rate{{{hosts}}}", "resource")


def baseline(*labels: str) -> _Variables:
    """Choose the host of the baseline; then its virtual server, or one of two platforms if it runs containers."""
    host = _values("base_host", "Baseline", f'{{{_KNOWN_VSERVERS}, host=~"$hosts"}}', "host")
    titles = {"platform": "Platform of the baseline", "vserver": "Virtual server of the baseline"}
    of_host = f'{{{_KNOWN_VSERVERS}, host="$base_host"}}'
    return [
        host,
        *(_values(f"base_{label}", titles[label], of_host, label).hide(VariableHide.HIDE_LABEL) for label in labels),
    ]


def earlier(name: str, label: str) -> CustomVariable:
    """Choose the baseline's offset into the past, for example to compare a host with itself."""
    # PromQL rejects an offset of 0.
    choices = {"same time": "1ms", "an hour earlier": "1h", "a day earlier": "1d", "a week earlier": "1w"}
    options = [VariableOption(selected=value == "1ms", text=text, value=value) for text, value in choices.items()]
    return (
        CustomVariable(name)
        .label(label)
        .values(", ".join(f"{text} : {value}" for text, value in choices.items()))
        .options(options)
        .current(options[0])
    )


def profiles() -> _Variables:
    """Choose an event of the host's profiles; then another profile, perhaps of the same host, at another time.

    An old study's event names differ from perf's. The kind is the unit of counting: events are preferred to samples.
    """

    def of(host: str, event: str, kind: str, title: str) -> list[QueryVariable]:
        samples = f'perf_profile_samples_total{{host="${host}"}}'
        kinds = f'__name__=~"perf_profile_events_total|perf_profile_samples_total", host="${host}", event="${event}"'
        counted = _values(kind, "Counted by", f"{{{kinds}}}", "__name__").hide(VariableHide.HIDE_VARIABLE)
        return [_values(event, title, samples, "event"), counted]

    guests = _values("other_vserver", "guest", 'perf_profile_samples_total{host="$other_host"}', "vserver")
    return [
        *of("host", "event", "kind", "Profiled event"),
        _values("other_host", "Compare: host", "perf_profile_samples_total{}", "host"),
        *of("other_host", "other_event", "other_kind", "event"),
        _any(guests, ".*"),
        earlier("other_time", "time"),
    ]


def lab() -> _Variables:
    """Choose lab runs, tests measured in them, and the baseline environment."""
    measured = f'lab_measurement{{{ANY_HOSTS}, run=~"$run"}}'
    known = f"group by (environment) (last_over_time({measured}[$__range]))"
    # The machine itself is the default baseline.
    base = 'label_replace(vector(1), "environment", "base", "", "")'
    base_first = f"sort_desc(2 * group by (environment) ({known} and on (environment) {base}) or {known})"
    return [
        _any(_values("run", "Run", f"lab_run_info{{{ANY_HOSTS}}}", "run"), ".+"),
        _any(_values("test", "Test", measured, "test"), ".+"),
        _first("baseline", "Baseline", base_first, label="environment"),
    ]


def prometheus() -> QueryVariable:
    """Find the address by which the Prometheus with our rules scrapes itself; it serves the runbooks there."""
    # Found by rules, not by job: the job's name may differ, and other servers may be scraped too.
    ours = 'prometheus_rule_group_interval_seconds{rule_group=~".+;derived"}'
    return _values("prometheus", "Prometheus", ours, "instance").hide(VariableHide.HIDE_VARIABLE)


def _choice() -> _Variables:
    """Every Prometheus data source of this Grafana, the default first; and the platforms."""
    # Grafana has an option of this value if its default fits; without it, the alphabetically first one is chosen.
    default = VariableOption(selected=True, text="default", value="default")
    source = DatasourceVariable("datasource").label("Data source").type("prometheus").current(default)
    return [source, _any(_values("platform", "Platform", f"{{{KNOWN_HOSTS}}}", "platform"), ".+")]


def _host(measured: str = "", platforms: str = 'platform=~"$platform"') -> QueryVariable:
    """One host of these platforms, by default the one with the severest alerts; ties are broken by overhead.

    measured: hosts with this series come first.

    Only one: shares and capacities of several hosts don't add up.
    """
    # Hosts that are gone have no alerts any more.
    score = f"host:severity:score{{{platforms}}}"
    scores = f"max by (host) ({score}) or 0 * group by (host) (last_over_time({score}[$__range]))"
    if measured:
        scores = f"1e6 + max by (host) ({score} and on (host) {measured}) or {scores}"
    return _first("host", "Host", f"sort_desc({scores})")


def _host_platform() -> QueryVariable:
    """The platform that the host is shown as: if two are chosen, the one with its guests."""

    def known(matcher: str = "") -> str:
        chosen = f'host="$host", platform=~"$platform"{matcher}'
        series = f'{{__name__=~"host:cpu_capacity:cpus|monitor:cpu_usage:rate", {chosen}}}'
        return f"group by (platform) (last_over_time({series}[$__range]))"

    virtual = known(', platform!="base"')
    found = _first("host_platform", "Platform of the host", f"topk(1, {virtual} or 0 * {known()})", label="platform")
    return found.hide(VariableHide.HIDE_VARIABLE)


def _app(hosts: str) -> QueryVariable:
    return _any(_values("app", "Application", f"{{{_KNOWN_APPS}, {hosts}}}", "app"), ".*")


def _vserver(hosts: str) -> QueryVariable:
    return _any(_values("vserver", "Virtual server", f"{{{_KNOWN_VSERVERS}, {hosts}}}", "vserver"), ".*")


def _any(variable: QueryVariable, everything: str) -> QueryVariable:
    """Allow any set of values, all by default: `everything` is the regular expression for all.

    Without it Grafana would list all values, and a name with a quote would break every query.
    """
    return _all_at_first(variable).all_value(everything)


def _all_at_first(variable: QueryVariable) -> QueryVariable:
    everything = VariableOption(selected=True, text=["All"], value=["$__all"])
    return variable.multi(True).include_all(True).current(everything)


def _first(name: str, title: str, expr: str, *, label: str = "") -> QueryVariable:
    """Values of a label (by default the variable's name) in the order of a query's results."""
    asked = _asked(name, title, f"query_result({expr})")
    return asked.regex(f'/{label or name}="([^"]+)"/').sort(VariableSort.DISABLED)


def _values(name: str, title: str, series: str, label: str) -> QueryVariable:
    return _asked(name, title, f"label_values({series}, {label})").sort(VariableSort.NATURAL_ASC)


def _asked(name: str, title: str, query: str) -> QueryVariable:
    found = QueryVariable(name).label(title).datasource(DATASOURCE).query(query)
    return found.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)

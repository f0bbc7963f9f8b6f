"""Summaries and descriptions of the objectives' alerts, in Prometheus's template language.

`@NAME` is filled in here; lines are folded as in YAML, and `{{-` removes the space before it.
"""

from __future__ import annotations

import string
from dataclasses import dataclass


@dataclass(frozen=True)
class Judged:
    """An objective with a budget, and its wording.

    share: of the requests (0..1) that must be good. "shop `headline`: 20% of its `requests` `broken`; objective: at
      most 1%."
    """

    objective: str
    share: float
    headline: str
    requests: str
    broken: str

    @property
    def budget(self) -> float:
        """The share of the requests that may be bad (0..1): 0.001 for 0.999, not 0.0010000000000000009."""
        return round(1 - self.share, 12)


@dataclass(frozen=True)
class Windows:
    """The windows in an alert about a budget, in PromQL's form and in words.

    since: range and step of the search for the last time that the short window kept the objective.
    """

    short: tuple[str, str]
    long: tuple[str, str]
    since: tuple[str, str]


DASHBOARD = "d/virtscope-applications?" + "&".join(
    f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in ("host", "platform", "app")
)
"""The application's dashboard, below Grafana's address, which Alertmanager's templates know."""

PAGE = Windows(("5m", "five minutes"), ("1h", "hour"), ("6h:30s", "six hours"))
TICKET = Windows(("2h", "two hours"), ("1d", "day"), ("3d:10m", "three days"))


@dataclass(frozen=True)
class Text:
    """An alert's annotations."""

    summary: str
    description: str


_CAUSE_QUERY = """
with printf "app:objective_cause:info{host=%q,platform=%q,app=%q,objective=%q}"
$labels.host $labels.platform $labels.app $labels.objective | query
"""

CAUSE = " ".join(
    f'{{{{ {_CAUSE_QUERY} }}}}{{{{ . | first | label "cause" }}}}{{{{ else }}}}unknown{{{{ end }}}}'.split()
)
"""The cause when the alert is evaluated, as one word. Alertmanager's templates put it into words."""

CAUSE_OF_PAGE = Text(
    "{{ $labels.app }} on host {{ $labels.host }} breaks an objective. Most likely cause: {{ $labels.cause }}.",
    "Never sent: Alertmanager uses it to inhibit alerts that the page about {{ $labels.app }} already covers.",
)


class _Words(string.Template):
    delimiter = "@"

    def filled(self, **values: object) -> str:
        return " ".join(self.substitute(values).split())


# $value, a share, with three digits: humanizePercentage would give four, and templates can't multiply.
_PERCENT = '{{ printf "100 * %g" $value | query | first | value | printf "%.3g" }}%'

_BURNS = _Words("""
{{ $labels.app }} on host {{ $labels.host }} @headline:
@percent of its @requests @broken; objective: at most @allowed.
""")

_ABOUT_BUDGET = _Words("""
{{ $of := printf "host=%q,platform=%q,app=%q" $labels.host $labels.platform $labels.app -}}
{{ $judged := printf "%s,objective=%q" $of $labels.objective -}}
@about
{{ $last := printf "100 * slo:sli_error:ratio_rate@short{%s}" $judged | query -}}
{{ if $last -}}
Of the @requests of {{ $labels.app }} on host {{ $labels.host }},
{{ range $last -}}
  {{ .Value | printf "%.3g" }}% of the last @short_words{{ end }}
{{- range printf "100 * slo:sli_error:ratio_rate@long{%s}" $judged | query }}
  and {{ .Value | printf "%.3g" }}% of the last @long_words{{ end }}
@broken; its objective allows @allowed
{{- range printf "vector(%g) / @budget" $value | query -}}
  , a burn rate of {{ .Value | printf "%.1f" }}{{ end }}.
{{- else -}}
No requests of {{ $labels.app }} on host {{ $labels.host }} were counted in the last @short_words. Before that,
@percent of its @requests @broken; its objective allows @allowed.
{{- end }}
{{ with printf "max_over_time(timestamp(slo:sli_error:ratio_rate@short{%s} <= @budget)[@since])" $judged | query -}}
  It last met its objective at @moment.
{{- else -}}
  It has not met its objective in the last @since_words.
{{- end }}
{{- range printf "round(100 * slo:period_error_budget_remaining:ratio{%s}, 0.1)" $judged | query }}
  {{ if gt .Value 0.0 }}{{ .Value | printf "%.1f" }}%{{ else }}Nothing{{ end }}
  is left of its 30-day error budget.
{{- end }}
@evidence
""")

_OVER_CEILING = _Words("""
{{ $labels.app }} on host {{ $labels.host }}: mean response of {{ $value | printf "%.3f" }} s exceeds its limit of
@ceiling s.
""")

_ABOUT_MEAN = _Words("""
{{ $of := printf "host=%q,platform=%q,app=%q" $labels.host $labels.platform $labels.app -}}
@about
The mean response of {{ $labels.app }} on host {{ $labels.host }} was {{ $value | printf "%.3f" }} s
over the last five minutes, and has exceeded its limit of @ceiling s for five minutes.
{{- with printf "max_over_time(timestamp(app:response_seconds:mean{tier='web',%s} <= @ceiling)[6h:30s])" $of | query }}
  It was last within it at @moment.
{{- end }}
@evidence
""")

# The value of a query's only sample as a time, to the minute: "2026-03-02 08:11 UTC".
_MOMENT = '{{ . | first | value | humanizeTimestamp | reReplaceAll ":[0-9.]+ .0000 UTC$" " UTC" }}'

# The same of today without the date, "08:11 UTC".
_CLOCK = '{{ . | first | value | humanizeTimestamp | reReplaceAll "^.* ([0-9]+:[0-9]+):.*$" "$1 UTC" }}'

# The value of a query's only sample in CPUs: 0.4, or 0.04.
_CPUS = """
{{ $cpus := . | first | value }}{{ if lt $cpus 0.095 }}{{ $cpus | printf "%.2f" }}
{{- else }}{{ $cpus | printf "%.1f" }}{{ end }} CPUs
"""

# Who was waited for, where that is measured (prometheus/rules/waits.yml). Names are text, not labels: an alert whose
# labels change is a new one. What moving one of them would give back is a bound, as another may take its place.
_NEIGHBOURS = """
  {{- range printf "sum(app:cpu_wait_caused:rate{reason='neighbour',%s}) > 0.005" $of | query }}
    {{ $labels.app }} waits @its_cpus for its neighbours
    {{- with printf "sort_desc(100 * app:neighbour:ratio{%s})" $of | query -}}
      {{- range $place, $named := . -}}
        ; {{ $named.Value | printf "%.0f" }} %{{ if not $place }} of that{{ end }} while {{ $named.Labels.by }} ran
        {{- with printf "app:neighbour_since:seconds{by=%q,%s} > time() - 43200" $named.Labels.by $of | query -}}
          , since @clock
        {{- else }}
          {{- with printf "app:neighbour_since:seconds{by=%q,%s}" $named.Labels.by $of | query -}}
            , since @moment
          {{- end }}
        {{- end }}
      {{- end }}.
      {{- range $place, $named := printf
          "sort_desc(app:cpu_wait_caused:rate{reason='neighbour',%s} and on (by) app:neighbour:ratio{%s})"
          $of $of | query }}
        {{- if $place }}, {{ $named.Labels.by }} at most {{ $named.Value | printf "%.2f" }}
        {{- else }} Moving or capping {{ $named.Labels.by }} would give back at most
          {{ $named.Value | printf "%.2f" }} CPUs of waiting
        {{- end }}
      {{- end }}.
    {{- else }}
      {{- with printf "sort_desc(@shares unless on () max(@shares) >= 50)" $of $of $of $of | query -}}
        , mostly
        {{- range $place, $some := . }}
          {{- if $place }},{{ end }} {{ $some.Labels.by }} ({{ $some.Value | printf "%.0f" }} %)
        {{- end -}}
        : no one of them for half of that.
      {{- else -}}
        , too little to name one of them.
      {{- end }}
    {{- end }}
  {{- end }}
"""
_NEIGHBOURS = _NEIGHBOURS.replace("@its_cpus", _CPUS.replace(". | first | value", ".Value").strip())
_NEIGHBOURS = _NEIGHBOURS.replace("@clock", _CLOCK).replace("@moment", _MOMENT)
_NEIGHBOURS = _NEIGHBOURS.replace(
    "@shares",
    "topk(2, 100 * app:cpu_wait_caused:rate{reason='neighbour',%s}"
    " / scalar(sum(app:cpu_wait_caused:rate{reason='neighbour',%s})))",
)

# What else it waited for: the host, and itself.
_HOST = """
  {{- range printf "100 * sum(app:cpu_wait_caused:rate{reason='host',%s}) / @all >= 10" $of $of | query }}
    {{ $labels.app }} waits {{ with printf "@all" $of | query }}@cpus{{ end }};
    {{ .Value | printf "%.0f" }} % of that while the host itself ran
    {{- with printf "topk(1, app:cpu_wait_caused:rate{reason='host',by!='host',%s})
        >= 0.5 * scalar(sum(app:cpu_wait_caused:rate{reason='host',%s}))" $of $of | query -}}
      , mostly {{ . | first | label "by" }}
    {{- end }}.
  {{- end }}
"""
_ITSELF = """
  {{- range printf "100 * sum(app:cpu_wait_caused:rate{reason='self',%s}) / (@all > 0.1) >= 50" $of $of | query }}
    It waits {{ with printf "@all" $of | query }}@cpus{{ end }} in all, {{ .Value | printf "%.0f" }} % of its waiting
    while its own other threads ran: it has more threads than CPUs.
  {{- end }}
"""
_WAITED_IN_ALL = "sum(app:cpu_wait_caused:rate{reason!='cap',%s})"
_HOST = _HOST.replace("@all", _WAITED_IN_ALL).replace("@cpus", _CPUS.strip())
_ITSELF = _ITSELF.replace("@all", _WAITED_IN_ALL).replace("@cpus", _CPUS.strip())

# The evidence for the cause, in numbers, if the platform has them. Alertmanager's templates put the cause into words.
# vserver:app:info maps virtual servers to applications. Where it isn't measured who was waited for, the busiest
# neighbour is named beside the waiting; misses alone name nobody.
_EVIDENCE = """
{{- $cause := "" }}{{ @cause }}{{ $cause = . | first | label "cause" }}{{ end }}
{{- if eq $cause "self" }}
  {{- with printf "topk(1, (vserver:cpu_throttled:rate @its) > 0.01)" $of | query }}
    {{ . | first | label "vserver" }} is throttled by its CPU limit for
    {{ . | first | value | printf "%.2f" }} seconds per second, summed over its CPUs.
  {{- else }}
    {{- range printf "topk(1, 100 * vserver:cpu_usage:rate / vserver:cpu_limit:cpus @its)" $of | query }}
      {{ .Labels.vserver }} uses {{ .Value | printf "%.0f" }}% of its CPU limit.
    {{- end }}
  {{- end }}
{{- else if eq $cause "neighbour" }}
@neighbours
  {{- if not (printf "app:cpu_wait_caused:rate{%s}" $of | query) }}
    {{- range printf "topk(1, (vserver:cpu_wait:rate @its) > 0.01)" $of | query }}
      {{ .Labels.vserver }} wants {{ .Value | printf "%.2f" }} CPUs more than it gets.
      {{- range printf "topk(1, vserver:cpu_usage:rate{role='guest',host=%q,platform=%q} @others)
          unless on () app:cpu_wait_per_cpu:ratio{%s} < 0.5" $labels.host $labels.platform $of $of | query }}
        Its neighbour {{ .Labels.vserver }} uses {{ .Value | printf "%.2f" }} CPUs.
      {{- end }}
    {{- end }}
  {{- end }}
  {{- range printf "topk(1, (vserver:llc_misses_per_instruction:ratio
      / (vserver:llc_misses_per_instruction:ratio_median1w > 0) @its) >= 1.5)" $of | query }}
    {{ .Labels.vserver }} misses the cache {{ .Value | printf "%.1f" }} times as often as usual; who takes it isn't
    measured.
  {{- end }}
{{- else if eq $cause "hypervisor" }}
@host
  {{- range printf "host:overhead_cpu:rate{host=%q,platform=%q}" $labels.host $labels.platform | query }}
    The host itself uses {{ .Value | printf "%.2f" }} CPUs.
  {{- end }}
{{- else if eq $cause "load" }}
  {{- range printf "app:requests:rate{tier='web',%s}" $of | query }}
    It gets {{ .Value | printf "%.1f" }} requests per second
    {{- range printf "app:requests:rate_max1w{%s} or app:requests:rate_max1h{%s}" $of $of | query -}}
      , previously at most {{ .Value | printf "%.1f" }}
    {{- end }}.
  {{- end }}
{{- end }}
{{- if ne $cause "self" }}
@own_threads
{{- end }}
"""
_EVIDENCE = _EVIDENCE.replace("@neighbours", _NEIGHBOURS).replace("@host", _HOST).replace("@own_threads", _ITSELF)
_EVIDENCE = _EVIDENCE.replace("@cause", _CAUSE_QUERY)
_EVIDENCE = _EVIDENCE.replace("@its", "and on (host, platform, vserver, role) vserver:app:info{%s}")
_EVIDENCE = _EVIDENCE.replace("@others", "unless on (host, platform, vserver, role) vserver:app:info{%s}")


def burning(about: str, judged: Judged, windows: Windows) -> Text:
    """An error budget that burns too fast; about: what the application is."""
    words = {
        "about": _sentence(about),
        "percent": _PERCENT,
        "moment": _MOMENT,
        "requests": judged.requests,
        "broken": judged.broken,
        "budget": judged.budget,
        "allowed": f"{judged.budget * 100:.4g}%",
        "short": windows.short[0],
        "short_words": windows.short[1],
        "long": windows.long[0],
        "long_words": windows.long[1],
        "since": windows.since[0],
        "since_words": windows.since[1],
        "evidence": _EVIDENCE,
    }
    return Text(_BURNS.filled(headline=judged.headline, **words), _ABOUT_BUDGET.filled(**words))


def over_ceiling(about: str, ceiling: float) -> Text:
    """A mean response above its ceiling, in seconds."""
    words = {"about": _sentence(about), "ceiling": ceiling, "moment": _MOMENT, "evidence": _EVIDENCE}
    return Text(_OVER_CEILING.filled(**words), _ABOUT_MEAN.filled(**words))


def _sentence(about: str) -> str:
    return about if about.endswith((".", "!", "?")) else f"{about}."

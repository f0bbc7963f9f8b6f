"""What the objectives' alerts say, in Prometheus' template language.

`@NAME` is filled in here; lines are folded as in YAML, and `{{-` takes the blank before it away.
"""

from __future__ import annotations

import string
from dataclasses import dataclass


@dataclass(frozen=True)
class Judged:
    """An objective with a budget, and how it is put into words.

    share: of the requests (0..1) that must be good. "shop `headline`: 20% of its `requests` `broken`, 1% may."
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
    """Which windows an alert about a budget tells of, in PromQL's form and in words.

    since: range and step of the search for the last time that the short window kept the objective.
    """

    short: tuple[str, str]
    long: tuple[str, str]
    since: tuple[str, str]


DASHBOARD = "d/virtscope-applications?" + "&".join(
    f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in ("host", "platform", "app")
)
"""Where an application's objectives are to be seen, below Grafana's address, which Alertmanager's templates know."""

PAGE = Windows(("5m", "five minutes"), ("1h", "hour"), ("6h:30s", "six hours"))
TICKET = Windows(("2h", "two hours"), ("1d", "day"), ("3d:10m", "three days"))


@dataclass(frozen=True)
class Told:
    """What an alert says: one line, and the rest."""

    summary: str
    description: str


_CAUSE_QUERY = """
with printf "app:objective_cause:info{host=%q,platform=%q,app=%q,objective=%q}"
$labels.host $labels.platform $labels.app $labels.objective | query
"""

CAUSE = " ".join(
    f'{{{{ {_CAUSE_QUERY} }}}}{{{{ . | first | label "cause" }}}}{{{{ else }}}}unknown{{{{ end }}}}'.split()
)
"""The cause that stands when the alert is evaluated, as one word. Alertmanager's templates put it into words."""

CAUSE_OF_PAGE = Told(
    "{{ $labels.app }} on host {{ $labels.host }} breaks an objective. Most likely cause: {{ $labels.cause }}.",
    "Nobody is told of this alert: Alertmanager holds back by it what the page about {{ $labels.app }} tells already.",
)


class _Words(string.Template):
    delimiter = "@"

    def filled(self, **values: object) -> str:
        return " ".join(self.substitute(values).split())


# $value, a share, with three digits: humanizePercentage would give four, and templates can't multiply.
_PERCENT = '{{ printf "100 * %g" $value | query | first | value | printf "%.3g" }}%'

_BURNS = _Words("""
{{ $labels.app }} on host {{ $labels.host }} @headline:
@percent of its @requests @broken, @allowed may.
""")

_ABOUT_BUDGET = _Words("""
{{ $of := printf "host=%q,platform=%q,app=%q" $labels.host $labels.platform $labels.app -}}
{{ $judged := printf "%s,objective=%q" $of $labels.objective -}}
@about
Of the @requests of {{ $labels.app }} on host {{ $labels.host }},
{{ range printf "100 * slo:sli_error:ratio_rate@short{%s}" $judged | query -}}
  {{ .Value | printf "%.3g" }}% of the last @short_words{{ end }}
{{- range printf "100 * slo:sli_error:ratio_rate@long{%s}" $judged | query }}
  and {{ .Value | printf "%.3g" }}% of the last @long_words{{ end }}
@broken; its objective allows @allowed
{{- range printf "vector(%g) / @budget" $value | query -}}
  , so its error budget burns {{ .Value | printf "%.1f" }} times as fast as it may{{ end }}.
{{ with printf "max_over_time(timestamp(slo:sli_error:ratio_rate@short{%s} <= @budget)[@since])" $judged | query -}}
  It kept its objective until @moment.
{{- else -}}
  It has broken its objective for as long as is known, or for more than @since_words.
{{- end }}
{{- range printf "round(100 * slo:period_error_budget_remaining:ratio{%s}, 0.1)" $judged | query }}
  {{ if gt .Value 0.0 }}{{ .Value | printf "%.1f" }}%{{ else }}Nothing{{ end }}
  is left of its error budget for 30 days.
{{- end }}
@evidence
""")

_OVER_CEILING = _Words("""
{{ $labels.app }} on host {{ $labels.host }} takes {{ $value | printf "%.3f" }} s to answer on average;
its ceiling is @ceiling s.
""")

_ABOUT_MEAN = _Words("""
{{ $of := printf "host=%q,platform=%q,app=%q" $labels.host $labels.platform $labels.app -}}
@about
The mean response of {{ $labels.app }} on host {{ $labels.host }} was {{ $value | printf "%.3f" }} s
over the last five minutes, and above its ceiling of @ceiling s for five minutes.
{{- with printf "max_over_time(timestamp(app:response_seconds:mean{tier='web',%s} <= @ceiling)[6h:30s])" $of | query }}
  It was last below it at @moment.
{{- end }}
@evidence
""")

# Of the one sample of a query: to the minute, as "2026-03-02 08:11 UTC".
_MOMENT = '{{ . | first | value | humanizeTimestamp | reReplaceAll ":[0-9.]+ .0000 UTC$" " UTC" }}'

# What speaks for the cause, in numbers, where the platform gives them. The cause in words is in Alertmanager's message.
# A virtual server is the application's if vserver:app:info says so.
_EVIDENCE = """
{{- $cause := "" }}{{ @cause }}{{ $cause = . | first | label "cause" }}{{ end }}
{{- if eq $cause "self" }}
  {{- with printf "topk(1, (vserver:cpu_throttled:rate @its) > 0.01)" $of | query }}
    {{ . | first | label "vserver" }} is stopped by its CPU limit for
    {{ . | first | value | printf "%.2f" }} seconds of each, over all its CPUs.
  {{- else }}
    {{- range printf "topk(1, 100 * vserver:cpu_usage:rate / vserver:cpu_limit:cpus @its)" $of | query }}
      {{ .Labels.vserver }} uses {{ .Value | printf "%.0f" }}% of the CPU that its limit allows.
    {{- end }}
  {{- end }}
{{- else if eq $cause "neighbour" }}
  {{- range printf "topk(1, (vserver:cpu_wait:rate @its) > 0.01)" $of | query }}
    {{ .Labels.vserver }} wants {{ .Value | printf "%.2f" }} CPUs more than it gets.
  {{- end }}
  {{- range printf "topk(1, vserver:cpu_usage:rate{role='guest',host=%q,platform=%q} @others)"
      $labels.host $labels.platform $of | query }}
    {{ .Labels.vserver }} beside it uses {{ .Value | printf "%.2f" }} CPUs.
  {{- end }}
{{- else if eq $cause "hypervisor" }}
  {{- range printf "host:overhead_cpu:rate{host=%q,platform=%q}" $labels.host $labels.platform | query }}
    The host itself uses {{ .Value | printf "%.2f" }} CPUs.
  {{- end }}
{{- else if eq $cause "load" }}
  {{- range printf "app:requests:rate{tier='web',%s}" $of | query }}
    It gets {{ .Value | printf "%.1f" }} requests a second
    {{- range printf "app:requests:rate_max1w{%s} or app:requests:rate_max1h{%s}" $of $of | query -}}
      , after {{ .Value | printf "%.1f" }} at most before
    {{- end }}.
  {{- end }}
{{- end }}
"""
_EVIDENCE = _EVIDENCE.replace("@cause", _CAUSE_QUERY)
_EVIDENCE = _EVIDENCE.replace("@its", "and on (host, platform, vserver, role) vserver:app:info{%s}")
_EVIDENCE = _EVIDENCE.replace("@others", "unless on (host, platform, vserver, role) vserver:app:info{%s}")


def burning(about: str, judged: Judged, windows: Windows) -> Told:
    """Of a budget that burns too fast; about: what the application is."""
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
    return Told(_BURNS.filled(headline=judged.headline, **words), _ABOUT_BUDGET.filled(**words))


def over_ceiling(about: str, ceiling: float) -> Told:
    """Of a mean response above its ceiling, in seconds."""
    words = {"about": _sentence(about), "ceiling": ceiling, "moment": _MOMENT, "evidence": _EVIDENCE}
    return Told(_OVER_CEILING.filled(**words), _ABOUT_MEAN.filled(**words))


def _sentence(about: str) -> str:
    return about if about.endswith((".", "!", "?")) else f"{about}."

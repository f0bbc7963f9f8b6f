"""Summaries and descriptions of the objectives' alerts, in Prometheus's template language.

A description only looks up single records, so dashboards show the same values; it computes only which disk it is.
Lines are folded as in YAML, and `{{-` removes the space before it.
"""

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
        """The share of requests that may be bad (0..1): 0.001 for 0.999, not 0.0010000000000000009."""
        return round(1 - self.share, 12)


@dataclass(frozen=True)
class Text:
    """An alert's annotations."""

    summary: str
    description: str


DASHBOARD = "d/virtscope-applications?" + "&".join(
    f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in ("host", "platform", "app")
)
"""The application's dashboard, relative to Grafana's address, which is in Alertmanager's templates."""


@dataclass(frozen=True)
class Burning:
    """An alert about an error budget; its short window in PromQL and in words."""

    record: str
    alert: str
    severity: str
    keep_firing_for: str
    window: str
    in_words: str


PAGE = Burning("objective:burns_fast:ratio", "ObjectiveBurnsFast", "critical", "5m", "5m", "five minutes")
TICKET = Burning("objective:burns_slowly:ratio", "ObjectiveBurnsSlowly", "warning", "1h", "2h", "two hours")

CAUSE_OF_PAGE = Text(
    "{{ $labels.app }} on host {{ $labels.host }} breaks an objective. Most likely cause: {{ $labels.cause }}.",
    "Never sent: Alertmanager uses it to inhibit alerts that the page about {{ $labels.app }} already covers.",
)

_OF = '{{ $of := printf "host=%q,platform=%q,app=%q" $labels.host $labels.platform $labels.app -}}'
_CAUSE_QUERY = 'with printf "app:objective_cause:info{host=%q,platform=%q,app=%q,objective=%q}" $labels.host\
 $labels.platform $labels.app $labels.objective | query'

CAUSE = f'{{{{ {_CAUSE_QUERY} }}}}{{{{ . | first | label "cause" }}}}{{{{ else }}}}unknown{{{{ end }}}}'
"""The cause at the alert's evaluation, as one word. Alertmanager's templates have its wording."""


def _waits(reason: str, words: str) -> str:
    """The application's wait for a CPU for a reason of app:delay:rate, if any."""
    return f"""
{{{{- range printf "sum(app:delay:rate{{resource='cpu',reason='{reason}',%s}}) > 0.005" $of | query }}}}
  {{{{ $labels.app }}}} waits {{{{ .Value | printf "%.2f" }}}} CPUs {words}.
{{{{- end }}}}"""


# The disk where other virtual servers, not its own, are most in its way. Records have no devices.
_MOSTLY = (
    '{{- range printf "topk(1, sum by (device) ('
    "rate(blk_delay_seconds_total{host=%q}[2m]) and on (host, cgroup)"
    " (waits:vserver:info and on (host, platform, vserver) vserver:app:info{%s})"
    " and on (host, by) label_join(waits:running:info{reason='neighbour'}, 'by', '', 'running')"
    " unless on (host, by) label_join("
    "waits:vserver:info and on (host, platform, vserver) vserver:app:info{%s}, 'by', '', 'cgroup')"
    ') > 0)" $labels.host $of $of | query }} (mostly {{ .Labels.device }}){{ end }}'
)

# By resource, the largest first, with those who are named for it.
_FOR_NEIGHBOURS = (
    """
{{- range printf "sort_desc(sum by (resource) (app:delay:rate{reason='neighbour',%s}) > 0.005)" $of | query }}
  {{ $labels.app }} waits {{ .Value | printf "%.2f" }}
  {{ if eq .Labels.resource "cpu" }}CPUs for its neighbours
  {{- else if eq .Labels.resource "interrupts" }}CPUs for its neighbours' interrupts
  {{- else if eq .Labels.resource "memory" }}seconds per second for memory that its neighbours evicted (estimated)
  {{- else }}seconds per second for disks that serve its neighbours
  """
    + _MOSTLY
    + """
  {{- end }}
  {{- range $place, $named := printf "sort_desc(app:neighbour:ratio{resource=%q,%s})" .Labels.resource $of | query }}
    {{- if $place }} and{{ else }},{{ end }} {{ $named.Value | humanizePercentage }}{{ if not $place }} of that{{ end }}
    because of {{ $named.Labels.by }}
  {{- end }}.
{{- end }}"""
)

# The evidence for each cause, in numbers, if the platform has it.
_EVIDENCE = f"""
{{{{- $cause := "" }}}}{{{{ {_CAUSE_QUERY} }}}}{{{{ $cause = . | first | label "cause" }}}}{{{{ end }}}}
{{{{- if eq $cause "self" }}}}{_waits("cap", "at its CPU limit")}
{{{{- else if eq $cause "neighbour" }}}}{_FOR_NEIGHBOURS}
{{{{- else if eq $cause "hypervisor" }}}}
  {{{{- range printf "host:overhead_cpu:rate{{host=%q,platform=%q}}" $labels.host $labels.platform | query }}}}
    The host itself uses {{{{ .Value | printf "%.2f" }}}} CPUs.
  {{{{- end }}}}
{{{{- else if eq $cause "load" }}}}
  {{{{- range printf "app:requests:rate{{tier='web',%s}}" $of | query }}}}
    {{{{ $labels.app }}}} gets {{{{ .Value | printf "%.1f" }}}} requests per second.
  {{{{- end }}}}
{{{{- else }}}}{_waits("self", "while its own other threads run")}
{{{{- end }}}}"""


def burning(about: str, judged: Judged, alert: Burning) -> Text:
    """An error budget that burns too fast, by its short window; about: the application's description."""
    return Text(
        _fold(f"""
{{{{ $labels.app }}}} on host {{{{ $labels.host }}}} {judged.headline}: {{{{ $value | humanizePercentage }}}} of its
{judged.requests} {judged.broken}; objective: at most {judged.budget * 100:.4g}%.
"""),
        _fold(f"""
{_OF}
{_sentence(about)}
{{{{- if not (printf "slo:sli_error:ratio_rate{alert.window}{{%s,objective=%q}}" $of $labels.objective | query) }}}}
  No requests were counted in the last {alert.in_words}: the numbers are those of before.
{{{{- end }}}}
{{{{- range printf "slo:period_error_budget_remaining:ratio{{%s,objective=%q}}" $of $labels.objective | query }}}}
  {{{{ if gt .Value 0.0 }}}}{{{{ .Value | humanizePercentage }}}}{{{{ else }}}}Nothing{{{{ end }}}}
  is left of its 30-day error budget.
{{{{- end }}}}
{_EVIDENCE}
"""),
    )


def over_ceiling(about: str, ceiling: float) -> Text:
    """A mean response above its ceiling, in seconds."""
    return Text(
        _fold(f"""
{{{{ $labels.app }}}} on host {{{{ $labels.host }}}}: mean response of {{{{ $value | printf "%.3f" }}}} s exceeds its
limit of {ceiling} s.
"""),
        _fold(f"""
{_OF}
{_sentence(about)} The mean over five minutes has exceeded the limit for five minutes.
{_EVIDENCE}
"""),
    )


def _fold(text: str) -> str:
    return " ".join(text.split())


def _sentence(about: str) -> str:
    return about if about.endswith((".", "!", "?")) else f"{about}."

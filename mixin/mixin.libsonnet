// Rules, alerts and dashboards for your own Prometheus and Grafana: the stack's files with `_config` applied.
// How to use it: docs/mixin.md.
local stack = import 'stack.libsonnet';

local groups(files) = std.flattenArrays([std.parseYaml(file).groups for file in files]);

// A replacement that finds nothing to replace would leave a setting without effect: it fails instead.
local replaced(text, old, new) =
  assert std.length(std.findSubstr(old, text)) > 0 : 'nothing reads %s in %s' % [old, text];
  std.strReplace(text, old, new);

(import 'config.libsonnet') + {
  local config = self._config,

  local onOwnTargets(expr, old, new) =
    if config.targetSelector == '' then expr else replaced(expr, old, new % config.targetSelector),

  local onPrometheus(expr) = replaced(expr, 'job="prometheus"', config.prometheusSelector),
  local onAlertmanager(expr) = replaced(expr, 'job="alertmanager"', config.alertmanagerSelector),

  local rule(rule) =
    if std.get(rule, 'record') == 'monitor:cpu_usage:rate'
    then rule { expr: onOwnTargets(super.expr, 'process_cpu_seconds_total{', 'process_cpu_seconds_total{%s, ') }
    else if std.get(rule, 'record') == 'target:process:info'
    then rule { expr: onOwnTargets(super.expr, '{host!=""}', '{%s, host!=""}') }
    else if !std.objectHas(rule, 'alert') then rule
    else rule {
      expr:
        if rule.alert == 'ExporterDown' then onOwnTargets(super.expr, 'up{', 'up{%s, ')
        else if rule.alert == 'HostDown' then onOwnTargets(super.expr, '(up)', '(up{%s})')
        else if rule.alert == 'HostsUnreachable'
        then onPrometheus(onOwnTargets(super.expr, 'up{host!=""}', 'up{%s, host!=""}'))
        else if std.member(
          ['RulesFailing', 'RuleEvaluationsMissed', 'AlertmanagerNotReached', 'StorageFailing', 'DiskFillsUp'], rule.alert
        ) then onPrometheus(super.expr)
        else if rule.alert == 'NotificationsFailing' then onAlertmanager(super.expr)
        else if rule.alert == 'ConfigurationRejected' then onPrometheus(onAlertmanager(super.expr))
        else super.expr,
      annotations+: {
        runbook_url: config.runbookURLPattern % rule.alert,
        [if std.objectHas(rule.annotations, 'dashboard') then 'dashboard']: config.grafanaURL + super.dashboard,
      },
    },
  local configured(groups) = [
    group {
      rules: [rule(each) for each in super.rules if !std.member(config.alertsLeftOut, std.get(each, 'alert'))],
    }
    for group in groups
  ],

  local alerts = groups(stack.alerts + std.objectValues(stack.objectives)),
  local names = std.set([rule.alert for group in alerts for rule in group.rules if std.objectHas(rule, 'alert')]),
  local misspelt = std.setDiff(std.set(config.alertsLeftOut), names),

  prometheusRules+:: { groups+: configured(groups(stack.rules)) },
  prometheusAlerts+:: {
    assert misspelt == [] : 'alertsLeftOut: no such alerts: %s; there are %s' % [misspelt, names],
    groups+: configured(groups(stack.alerts + [stack.objectives[name] for name in config.objectives])),
  },

  local inJson(text) = local quoted = std.escapeStringJson(text); std.substr(quoted, 1, std.length(quoted) - 2),
  // Prometheus' own address for the runbooks, which dashboards find out, is known to alerts as $externalURL.
  local runbook(pattern) = inJson(pattern % '${__data.fields["Alert"]}'),
  local runbooks(json) =
    if std.startsWith(config.runbookURLPattern, '{{ $externalURL }}') then json
    else std.strReplace(json, runbook('http://${prometheus}/user/runbooks/%s.md'), runbook(config.runbookURLPattern)),
  local dashboard(json) = std.parseJson(
    runbooks(std.strReplace(json, inJson('job="prometheus"'), inJson(config.prometheusSelector)))
  ) {
    title: config.dashboardNamePrefix + super.title,
    tags: config.dashboardTags,
    timezone: config.dashboardTimezone,
    refresh: config.dashboardRefresh,
    links: [if link.type == 'dashboards' then link { tags: config.dashboardTags[:1] } else link for link in super.links],
    templating+: {
      list: [
        if variable.type == 'datasource' && config.datasourceFilterRegex != ''
        then variable { regex: config.datasourceFilterRegex }
        else variable
        for variable in super.list
      ],
    },
  },
  grafanaDashboards+:: {
    ['virtscope-%s.json' % name]: dashboard(stack.dashboards[name])
    for name in std.objectFields(stack.dashboards)
  },
}

// Rules, alerts and dashboards for your own Prometheus and Grafana: the stack's files with `_config` applied.
// How to use it: docs/mixin.md.
local stack = import 'stack.libsonnet';

local defaults = (import 'config.libsonnet')._config;

local groups(files) = std.flattenArrays([std.parseYaml(file).groups for file in files]);

// A replacement that finds nothing to replace would leave a setting without effect: it fails instead.
local replaced(text, old, new) =
  assert std.strReplace(text, old, '') != text : 'nothing reads %s in %s' % [old, text];
  std.strReplace(text, old, new);

// A rule's lines end with the names of their thresholds, `> 0.25  # hostOverheadHighShare`, or not.
local withThresholds(expr, config) =
  local withThreshold(line) =
    local parts = std.splitLimit(line, '  # ', 1);
    if std.length(parts) == 1 then line
    else
      local words = std.split(parts[0], ' ');
      std.join(' ', words[:std.length(words) - 1] + ['%.12g' % config[parts[1]]]) + '  # ' + parts[1];
  std.join('\n', std.map(withThreshold, std.split(expr, '\n')));

// With a label for clusters: every aggregation and join is by it too. Those of rules have a list for it, `by ()` as well; a
// join with a constant, which is no cluster's, is written `on(`, as Sloth does.
local byCluster(expr, label) =
  std.foldl(function(expr, list) std.strReplace(expr, list + ' (', '%s (%s, ' % [list, label]), ['by', 'on'], expr);

// What templates print into queries about a host, which follows the query.
local aboutCluster(text, label) =
  std.strReplace(std.strReplace(text, 'host=%q', label + '=%q,host=%q'), '" $labels.host', '" $labels.%s $labels.host' % label);

// Every selector of a query in dashboards has braces; Grafana's variables have them, too.
local ofCluster(query, label) =
  local variable = '\u0000';
  local selectors = std.strReplace(std.strReplace(query, '${', variable), '{', '{%s="$cluster", ' % label);
  std.strReplace(selectors, variable, '${');

// Alerts that judge the last minutes.
local overWindow = [
  'OvercommitBeyondObjective',
  'CacheMissesUnusual',
  'EventsMostlyEstimated',
  'HostOverheadHigh',
  'OverheadOutgrowsLoad',
  'VirtualServerStarved',
  'CapBindsLong',
];

(import 'config.libsonnet') + (import 'operator.libsonnet') + {
  local config = self._config,

  local clustered(rule) =
    local label = config.clusterLabel;
    if label == '' then rule
    else rule {
      expr: byCluster(super.expr, label),
      [if std.objectHas(rule, 'annotations') then 'annotations']:
        std.mapWithKey(function(_, text) aboutCluster(text, label), rule.annotations) {
          summary+: '{{ with $labels.%s }} (%s {{ . }}){{ end }}' % [label, label],
          [if std.objectHas(rule.annotations, 'dashboard') then 'dashboard']:
            std.strReplace(super.dashboard, '?', '?var-cluster={{ $labels.%s | urlquery }}&' % label),
        },
    },

  local withWindow(rule) =
    if config.alertWindow == defaults.alertWindow || !std.member(overWindow, std.get(rule, 'alert')) then rule
    else rule { expr: replaced(super.expr, '[5m]', '[%s]' % config.alertWindow) },
  local withFor(rule) =
    if !std.objectHas(config.alertFor, std.get(rule, 'alert', '')) then rule else rule { 'for': config.alertFor[rule.alert] },

  local onOwnTargets(expr, old, new) =
    if config.targetSelector == '' then expr else replaced(expr, old, new % config.targetSelector),

  local onPrometheus(expr) = replaced(expr, 'job="prometheus"', config.prometheusSelector),
  local onAlertmanager(expr) = replaced(expr, 'job="alertmanager"', config.alertmanagerSelector),

  local rule(rule) =
    if std.get(rule, 'record') == 'monitor:cpu_usage:rate'
    then rule { expr: onOwnTargets(super.expr, 'process_cpu_seconds_total{', 'process_cpu_seconds_total{%s, ') }
    else if std.get(rule, 'record') == 'container:name:info'
    then rule { expr: replaced(super.expr, 'job="kube-state-metrics"', config.kubeStateMetricsSelector) }
    else if std.get(rule, 'record') == 'target:process:info'
    then rule { expr: onOwnTargets(super.expr, '{host!=""}', '{%s, host!=""}') }
    else if !std.objectHas(rule, 'alert') then rule
    else rule {
      expr:
        if rule.alert == 'ExporterDown' then onOwnTargets(super.expr, 'up{', 'up{%s, ')
        else if rule.alert == 'HostDown' then onOwnTargets(super.expr, 'up{host!=""', 'up{%s, host!=""')
        else if rule.alert == 'TargetFlapping' then onOwnTargets(super.expr, '(up[', '(up{%s}[')
        else if rule.alert == 'ScrapedTooSeldom' then onOwnTargets(super.expr, 'up{', 'up{%s, ')
        else if rule.alert == 'CertificateExpires' then onOwnTargets(super.expr, 'cert_expiry[', 'cert_expiry{%s}[')
        else if rule.alert == 'HostsUnreachable'
        then onPrometheus(onOwnTargets(super.expr, 'up{host!=""}', 'up{%s, host!=""}'))
        else if std.member(
          [
            'ObjectiveRulesFailing',
            'RulesFailing',
            'RuleEvaluationsMissed',
            'AlertmanagerNotReached',
            'StorageFailing',
            'DiskFillsUp',
            'InodesRunOut',
            'RemoteWriteBehind',
            'RemoteWriteRefused',
            'ScrapeLimitExceeded',
          ],
          rule.alert
        ) then onPrometheus(super.expr)
        else if rule.alert == 'NotificationsFailing' then onAlertmanager(super.expr)
        else if std.member(['ConfigurationRejected', 'FileDescriptorsRunOut'], rule.alert) then onPrometheus(onAlertmanager(super.expr))
        else super.expr,
      annotations+: {
        runbook_url: config.runbookURLPattern % rule.alert,
        [if std.objectHas(rule.annotations, 'dashboard') then 'dashboard']: config.grafanaURL + super.dashboard,
      },
    },
  local configuredRule(each) = rule(withFor(withWindow(clustered(each)))) { expr: withThresholds(super.expr, config) },
  local configured(groups) = [
    group {
      rules: [configuredRule(each) for each in super.rules if !std.member(config.alertsLeftOut, std.get(each, 'alert'))],
    }
    for group in groups
  ],

  local rules = groups(stack.rules),
  local alerts = groups(stack.alerts),
  local objectives = std.mapWithKey(function(_, file) std.parseYaml(file).groups, stack.objectives),
  local every = alerts + std.flattenArrays(std.objectValues(objectives)),
  local names = std.set([rule.alert for group in every for rule in group.rules if std.objectHas(rule, 'alert')]),
  local known(setting, alerts) =
    local misspelt = std.setDiff(std.set(alerts), names);
    misspelt == [] || error '%s: no such alerts: %s; there are %s' % [setting, misspelt, names],

  prometheusRules+:: { groups+: configured(rules) },
  prometheusAlerts+:: {
    local unknown = std.setDiff(std.set(config.objectives), std.objectFields(objectives)),
    assert unknown == [] : 'objectives: no such files: %s; there are %s' % [unknown, std.objectFields(objectives)],
    assert known('alertsLeftOut', config.alertsLeftOut),
    assert known('alertFor', std.objectFields(config.alertFor)),
    groups+: configured(alerts + std.flattenArrays([objectives[name] for name in config.objectives])),
  },

  local inJson(text) = local quoted = std.escapeStringJson(text); std.substr(quoted, 1, std.length(quoted) - 2),
  // Prometheus' own address for the runbooks, which dashboards find out, is known to alerts as $externalURL.
  local runbook(pattern) = inJson(pattern % '${__data.fields["Alert"]}'),
  local runbooks(json) =
    if std.startsWith(config.runbookURLPattern, '{{ $externalURL }}') then json
    else std.strReplace(json, runbook('http://${prometheus}/user/runbooks/%s.md'), runbook(config.runbookURLPattern)),
  local cluster(variables) =
    local platforms = [variable for variable in variables if variable.name == 'platform'][0];
    {
      [key]: platforms[key]
      for key in ['datasource', 'refresh', 'skipUrlSync', 'sort', 'type']
      if std.objectHas(platforms, key)
    } + {
      name: 'cluster',
      label: 'Cluster',
      query: std.strReplace(platforms.query, ', platform)', ', %s)' % config.clusterLabel),
    },
  // Limits queries and links in a part of a dashboard.
  local limited(part) =
    if std.isArray(part) then std.map(limited, part)
    else if !std.isObject(part) then part
    else std.mapWithKey(
      function(key, value)
        if key == 'expr' && std.isString(value) then ofCluster(value, config.clusterLabel)
        else if key == 'query' && std.get(part, 'type') == 'query' then ofCluster(value, config.clusterLabel)
        else if key == 'url' && std.isString(value)
        then std.strReplace(value, '${datasource:queryparam}', '${datasource:queryparam}&${cluster:queryparam}')
        else limited(value),
      part
    ),
  local clusteredDashboard(dashboard) =
    if config.clusterLabel == '' then dashboard
    else
      local variables = dashboard.templating.list;
      limited(dashboard) {
        templating+: { list: super.list[:1] + [cluster(variables)] + super.list[1:] },
      },
  local dashboard(json) = clusteredDashboard(std.parseJson(
    runbooks(std.strReplace(json, inJson('job="prometheus"'), inJson(config.prometheusSelector)))
  )) {
    title: config.dashboardNamePrefix + super.title,
    tags: config.dashboardTags,
    timezone: config.dashboardTimezone,
    [if config.dashboardRefresh != null then 'refresh']: config.dashboardRefresh,
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
  // A page of Prometheus itself, which its flag --web.console.templates has it serve. It is for hosts of one cluster.
  prometheusConsoles+:: if config.clusterLabel != '' then {} else {
    'index.html':
      if std.startsWith(config.runbookURLPattern, '{{ $externalURL }}') then stack.overview
      else std.foldl(
        function(page, name) replaced(page, '{{ pathPrefix }}/user/runbooks/%s.md' % name, config.runbookURLPattern % name),
        ['{{ label "alertname" . }}', 'SamplesNotStored', 'Watchdog'],
        stack.overview,
      ),
  },
  grafanaDashboards+:: {
    ['virtscope-%s.json' % name]: dashboard(stack.dashboards[name])
    for name in std.objectFields(stack.dashboards)
  },
}

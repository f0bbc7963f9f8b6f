// Rules, alerts and dashboards for your own Prometheus and Grafana: the stack's files with `_config` applied.
// How to use it: docs/mixin.md.
local stack = import 'stack.libsonnet';

local defaults = (import 'config.libsonnet')._config;

local groups(files) = std.flattenArrays([std.parseYaml(file).groups for file in files]);

// Functions that understand PromQL (deploy/go/mixin), which Jsonnet alone hasn't.
local native(name) =
  local function_ = std.native(name);
  assert function_ != null : 'clusterLabel: Jsonnet alone cannot rewrite PromQL; render it with `make mixin`';
  function_;

// A replacement that finds nothing to replace would leave a setting without effect: it fails instead.
local replaced(text, old, new) =
  assert std.strReplace(text, old, '') != text : 'nothing reads %s in %s' % [old, text];
  std.strReplace(text, old, new);

// Where thresholds are: a rule's text, in which %.12g is the value. As all defaults are looked for, none can differ from what
// the rules have.
local thresholds = {
  OvercommitBeyondObjective: { overcommitBeyondObjectiveCpuUsed: ['[3m]) > %.12g\n'] },
  HeadroomEndsSoon: { headroomEndsSoonApps: ['host:headroom_in_a_week:apps < %.12g\n', '[2w:6h]) >= %.12g\n'] },
  CacheMissesUnusual: { cacheMissesUnusualTimes: ['\n> %.12g\nand'] },
  EventsMostlyEstimated: { eventsMostlyEstimatedShare: [') < %.12g\n'] },
  HostsUnreachable: { hostsUnreachableShare: ['>= %.12g\n'] },
  SeriesChurnHigh: { seriesChurnHighSeries: ['> %.12g\n'] },
  ClockSkewed: { clockSkewedSeconds: ['> %.12g\n'] },
  HostOverheadHigh: { hostOverheadHighShare: [' > 0) > %.12g\n'], hostOverheadHighCpus: ['rate[5m]) > %.12g\nand'] },
  OverheadOutgrowsLoad: {
    overheadOutgrowsLoadTimes: ['\n> %.12g\nand'],
    overheadOutgrowsLoadCpuTimes: ['> %.12g * host:overhead_cpu:rate_median1w'],
    overheadOutgrowsLoadCpus: ['rate[5m]) > %.12g\n'],
  },
  DiskFillsUp: { diskFillsUpFree: ['\n    < %.12g\n    and'], diskFillsUpNearlyFull: ['\n    < %.12g\n  )'] },
  InodesRunOut: { inodesRunOutFree: ['\n  < %.12g\n'] },
  FileDescriptorsRunOut: {
    fileDescriptorsRunOutShare: [
      'process_max_fds{job="prometheus"}[3m]) > %.12g\n',
      'process_max_fds{job="alertmanager"}[3m]) > %.12g\n',
      ')\n> %.12g\n',
    ],
  },
  RemoteWriteBehind: { remoteWriteBehindSeconds: ['> %.12g\n'] },
  TargetFlapping: { targetFlappingShare: ['< %.12g and'] },
  CertificateExpires: { certificateExpiresDays: ['< %.12g * 86400'] },
  VirtualServerStarved: {
    virtualServerStarvedShare: [' > 0) > %.12g\n'],
    virtualServerStarvedWait: ['cpu_wait:rate[5m]) > %.12g\n'],
  },
  GuestFlapping: { guestFlappingStarts: ['>= %.12g'] },
  'app:cause:score of neighbour': { cacheMissesUnusualTimes: ['/ (%.12g * vserver:llc_misses'] },
  'app:cause:score of hypervisor': {
    hostOverheadHighShare: ['median1w > %.12g or', '0 * host:overhead:ratio + %.12g)'],
    hostOverheadHighCpus: ['host:overhead_cpu:rate > %.12g\n'],
  },
};

// What alerts say of them in words.
local words = {
  HeadroomEndsSoon: {
    headroomEndsSoonApps: ['will have no room for one more application', 'will have room for less than %.12g applications'],
  },
  HostsUnreachable: { hostsUnreachableShare: ['at least three quarters of all', 'a share of at least %.12g'] },
  VirtualServerStarved: { virtualServerStarvedShare: ['It runs at less than half of its speed.', 'It is slowed down.'] },
};

// A duration as Prometheus writes it, in words.
local durations = {
  '1m': 'a minute',
  '2m': 'two minutes',
  '5m': 'five minutes',
  '10m': 'ten minutes',
  '15m': 'fifteen minutes',
  '30m': 'half an hour',
  '1h': 'an hour',
};
local inWords(duration) = std.get(durations, duration, duration);

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

  local clustered(groups) =
    if config.clusterLabel == '' then groups else native('rulesWithLabel')(groups, config.clusterLabel),

  local inTexts(rule, change) =
    local texts = rule.annotations;
    rule { annotations: texts { summary: change(texts.summary), description: change(texts.description) } },

  local withThresholds(rule) =
    local name =
      if std.objectHas(rule, 'alert') then rule.alert
      else rule.record + ' of ' + std.get(std.get(rule, 'labels', {}), 'cause', '');
    local own = thresholds[name];
    local said = std.get(words, name, {});
    local changed = [setting for setting in std.objectFields(said) if config[setting] != defaults[setting]];
    local expr = std.foldl(
      function(expr, setting) std.foldl(
        function(expr, text) replaced(expr, text % defaults[setting], text % config[setting]), own[setting], expr
      ),
      std.objectFields(own),
      rule.expr
    );
    local reworded = inTexts(rule, function(text) std.foldl(
      function(text, setting)
        local instead = said[setting][1];
        local arguments = if std.member(instead, '%') then [config[setting]] else [];
        std.strReplace(text, said[setting][0], instead % arguments),
      changed,
      text
    ));
    if !std.objectHas(thresholds, name) then rule else (if changed == [] then rule else reworded) { expr: expr },

  local withWindow(rule) =
    if config.alertWindow == defaults.alertWindow || !std.member(overWindow, std.get(rule, 'alert')) then rule
    else rule { expr: replaced(super.expr, '[5m]', '[%s]' % config.alertWindow) },
  local withFor(rule) =
    if !std.objectHas(config.alertFor, std.get(rule, 'alert', '')) then rule
    else
      local new = config.alertFor[rule.alert];
      local changed = rule { 'for': new };
      if !std.objectHas(rule, 'for') then changed
      else inTexts(
        changed,
        function(text) std.foldl(
          function(text, around) std.strReplace(text, around % inWords(rule['for']), around % inWords(new)),
          ['for %s', 'For %s'],
          text
        )
      ),

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
  local configured(groups) = [
    group {
      rules: [rule(withFor(withWindow(withThresholds(each)))) for each in super.rules if !std.member(config.alertsLeftOut, std.get(each, 'alert'))],
    }
    for group in groups
  ],

  local rules = groups(stack.rules),
  local alerts = groups(stack.alerts),
  local objectives = std.mapWithKey(function(_, file) std.parseYaml(file).groups, stack.objectives),
  // All together, as rules read each other's records.
  local withLabel = clustered(rules + alerts + std.flattenArrays(std.objectValues(objectives))),
  local included = std.set([
    group.name
    for group in alerts + std.flattenArrays([objectives[name] for name in config.objectives])
  ]),
  local names = std.set([rule.alert for group in withLabel for rule in group.rules if std.objectHas(rule, 'alert')]),
  local known(setting, alerts) =
    local misspelt = std.setDiff(std.set(alerts), names);
    misspelt == [] || error '%s: no such alerts: %s; there are %s' % [setting, misspelt, names],

  prometheusRules+:: { groups+: configured(withLabel[:std.length(rules)]) },
  prometheusAlerts+:: {
    assert known('alertsLeftOut', config.alertsLeftOut),
    assert known('alertFor', std.objectFields(config.alertFor)),
    groups+: configured([group for group in withLabel[std.length(rules):] if std.setMember(group.name, included)]),
  },

  local inJson(text) = local quoted = std.escapeStringJson(text); std.substr(quoted, 1, std.length(quoted) - 2),
  // Prometheus' own address for the runbooks, which dashboards find out, is known to alerts as $externalURL.
  local runbook(pattern) = inJson(pattern % '${__data.fields["Alert"]}'),
  local runbooks(json) =
    if std.startsWith(config.runbookURLPattern, '{{ $externalURL }}') then json
    else std.strReplace(json, runbook('http://${prometheus}/user/runbooks/%s.md'), runbook(config.runbookURLPattern)),
  local clusteredDashboard(dashboard) =
    if config.clusterLabel == '' then dashboard else native('dashboardWithLabel')(dashboard, config.clusterLabel),
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

// Settings for your own stack. The defaults are this repository's stack.
local stack = import 'stack.libsonnet';

{
  _config+:: {
    // PromQL label matcher for virtscope's targets, in a Prometheus that has others, such as 'platform!=""'. Without it,
    // alerts on silent targets and on processes scraped twice, and the cost of monitoring, include all targets.
    targetSelector: '',
    // PromQL label matchers for Prometheus and Alertmanager themselves, for the alerts on them and the dashboard on the
    // monitor.
    prometheusSelector: 'job="prometheus"',
    alertmanagerSelector: 'job="alertmanager"',

    // Applications in alerts/objectives/ to include.
    objectives: std.objectFields(stack.objectives),

    // Alerts to omit because the other stack has its own, such as 'Watchdog'.
    alertsLeftOut: [],
    // Where the runbooks are; %s is replaced with the alert's name. The stack's own Prometheus serves them.
    runbookURLPattern: '{{ $externalURL }}/user/runbooks/%s.md',
    // Prefix of the alerts' annotation `dashboard`, such as 'https://grafana.example.org/'. Not needed with the stack's
    // notification templates (alerts/templates/), which add it.
    grafanaURL: '',

    // Prefix of each dashboard's title, such as 'virtscope / '.
    dashboardNamePrefix: '',
    // The menu lists dashboards with the first of these.
    dashboardTags: ['virtscope'],
    // As in Grafana: 'browser', 'utc' or a time zone; the refresh interval, '' for never.
    dashboardTimezone: 'browser',
    dashboardRefresh: '10s',
    // Regular expression for the names of the data sources that dashboards offer.
    datasourceFilterRegex: '',
  },
}

// What a stack of one's own may have otherwise. As it stands, all is what this repository's own stack has.
local stack = import 'stack.libsonnet';

{
  _config+:: {
    // PromQL label matcher for the targets that are virtscope's, in a Prometheus that has others, such as
    // 'platform!=""'. Alerts on silent targets and on processes scraped twice, and the sum of what watching costs, would
    // take in all of them.
    targetSelector: '',
    // PromQL label matchers for Prometheus and Alertmanager themselves, for the alerts on them and the dashboard on the
    // monitor.
    prometheusSelector: 'job="prometheus"',
    alertmanagerSelector: 'job="alertmanager"',

    // Applications in alerts/objectives/ whose objectives are wanted.
    objectives: std.objectFields(stack.objectives),

    // Alerts that the other stack has of its own, such as 'Watchdog'.
    alertsLeftOut: [],
    // Where the runbooks are; %s becomes the alert's name. The stack's own Prometheus serves them.
    runbookURLPattern: '{{ $externalURL }}/user/runbooks/%s.md',
    // Put before the path in the alerts' annotation `dashboard`, such as 'https://grafana.example.org/'. The stack's
    // templates for messages (alerts/templates/) do so themselves.
    grafanaURL: '',

    // Put before each dashboard's title, such as 'virtscope / '.
    dashboardNamePrefix: '',
    // By the first of these, dashboards find each other for their menu.
    dashboardTags: ['virtscope'],
    // As Grafana names them: 'browser', 'utc' or a place; the refresh interval, '' for never.
    dashboardTimezone: 'browser',
    dashboardRefresh: '10s',
    // Regular expression for the names of the data sources that dashboards offer.
    datasourceFilterRegex: '',
  },
}

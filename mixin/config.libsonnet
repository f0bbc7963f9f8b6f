// Settings for your own stack. The defaults are this repository's stack.
local stack = import 'stack.libsonnet';

{
  // Thresholds, which are settings too, and all others.
  _config+:: std.parseYaml(stack.settings) + {
    // PromQL label matcher for virtscope's targets, in a Prometheus that has others, such as 'platform!=""'. Without it,
    // alerts on silent targets, certificates and processes scraped twice, and the cost of monitoring, include all targets.
    targetSelector: '',
    // PromQL label matchers for Prometheus and Alertmanager themselves, for the alerts on them and the dashboard on the
    // monitor.
    prometheusSelector: 'job="prometheus"',
    alertmanagerSelector: 'job="alertmanager"',
    // PromQL label matcher for kube-state-metrics, which names pods.
    kubeStateMetricsSelector: 'job="kube-state-metrics"',

    // Label by which clusters (sites, data centres) differ whose hosts may have the same names, such as 'cluster': every
    // target has it then, as each of Prometheus's external labels in Thanos or Mimir.
    clusterLabel: '',

    // Applications in alerts/objectives/ to include.
    objectives: std.objectFields(stack.objectives),

    // Alerts to omit because the other stack has its own, such as 'Watchdog'.
    alertsLeftOut: [],
    // `for` by alert, instead of its own, such as { VirtualServerStarved: '30m' }.
    alertFor: {},
    // The last minutes that alerts on virtual servers, overhead and caches judge.
    alertWindow: '5m',
    // Where the runbooks are; %s is replaced with the alert's name. The stack's own Prometheus serves them.
    runbookURLPattern: '{{ $externalURL }}/user/runbooks/%s.md',
    // Prefix of the alerts' annotation `dashboard`, such as 'https://grafana.example.org/'. Not needed with the stack's
    // notification templates (alerts/templates/), which add it.
    grafanaURL: '',

    // Prefix of each dashboard's title, such as 'virtscope / '.
    dashboardNamePrefix: '',
    // The menu lists dashboards with the first of these.
    dashboardTags: ['virtscope'],
    // As in Grafana: 'browser', 'utc' or a time zone; the refresh interval, '' for never, null for each page's own.
    dashboardTimezone: 'browser',
    dashboardRefresh: null,
    // Regular expression for the names of the data sources that dashboards offer.
    datasourceFilterRegex: '',

    // Labels of the objects for Prometheus Operator, such as { release: 'kube-prometheus-stack' }.
    objectLabels: {},
    // Of ScrapeConfigs: targets by their file in prometheus/targets/, and how often they are scraped, 15s at most: rules
    // take rates over a minute.
    targets: stack.targets,
    scrapeInterval: '5s',
  },
}

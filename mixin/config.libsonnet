// Settings for your own stack. The defaults are this repository's stack.
local stack = import 'stack.libsonnet';

{
  _config+:: {
    // PromQL label matcher for virtscope's targets, in a Prometheus that has others, such as 'platform!=""'. Without it,
    // alerts on silent targets, certificates and processes scraped twice, and the cost of monitoring, include all targets.
    targetSelector: '',
    // PromQL label matchers for Prometheus and Alertmanager themselves, for the alerts on them and the dashboard on the
    // monitor.
    prometheusSelector: 'job="prometheus"',
    alertmanagerSelector: 'job="alertmanager"',

    // Label by which clusters (sites, data centres) differ whose hosts may have the same names, such as 'cluster': every
    // target has it then, as each of Prometheus's external labels in Thanos or Mimir. Needs `make mixin`.
    clusterLabel: '',

    // Applications in alerts/objectives/ to include.
    objectives: std.objectFields(stack.objectives),

    // Alerts to omit because the other stack has its own, such as 'Watchdog'.
    alertsLeftOut: [],
    // `for` by alert, instead of its own, such as { VirtualServerStarved: '30m' }.
    alertFor: {},
    // The last minutes that alerts on virtual servers, overhead and caches judge.
    alertWindow: '5m',
    // Thresholds, by the name of their alert. Reasons for the defaults: alerts/rules/. The first of HostOverheadHigh, its
    // CPUs and CacheMissesUnusual's decide on causes, too.
    overcommitBeyondObjectiveCpuUsed: 0.9,  // share of the host's CPUs
    headroomEndsSoonApps: 1,  // applications
    cacheMissesUnusualTimes: 2,  // times the median of the past week
    eventsMostlyEstimatedShare: 0.2,  // of the time in which events are counted
    hostsUnreachableShare: 0.75,  // of all hosts
    clockSkewedSeconds: 5,
    seriesChurnHighSeries: 125000,  // in fifteen minutes, more than a target exposes
    hostOverheadHighShare: 0.25,  // of all CPU used
    hostOverheadHighCpus: 0.5,
    overheadOutgrowsLoadTimes: 2,  // times the median, per CPU of the guests
    overheadOutgrowsLoadCpuTimes: 1.5,  // times the median, in CPUs
    overheadOutgrowsLoadCpus: 0.25,
    diskFillsUpFree: 0.2,  // share of the disk that is free, for one full within a day
    diskFillsUpNearlyFull: 0.03,  // share that is free, for any
    inodesRunOutFree: 0.03,  // share of a disk's inodes that is free
    fileDescriptorsRunOutShare: 0.8,  // in use, of what is allowed
    remoteWriteBehindSeconds: 120,
    targetFlappingShare: 0.9,  // of the scrapes in half an hour that succeed
    certificateExpiresDays: 14,
    virtualServerStarvedShare: 0.5,  // waiting, of the time in which it wants a CPU
    virtualServerStarvedWait: 0.1,  // seconds per second
    guestFlappingStarts: 3,  // within an hour

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

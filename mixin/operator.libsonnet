// Objects for Prometheus Operator, by file name: rules, ScrapeConfigs as prometheus.yml's jobs, monitors for the exporters
// of the Helm chart and the kubelet, and dashboards as ConfigMaps, which Grafana's sidecar finds by their label.
local stack = import 'stack.libsonnet';

local prometheus = std.parseYaml(stack.prometheus);
local jobs = { [job.job_name]: job for job in prometheus.scrape_configs };

local renamed(names, from) = {
  [names[name]]: from[name]
  for name in std.objectFields(from)
  if std.objectHas(names, name)
};

// The Operator's names of prometheus.yml's fields. It has none for follow_redirects (docs/mixin.md).
local ofScrape = {
  body_size_limit: 'bodySizeLimit',
  honor_timestamps: 'honorTimestamps',
  label_limit: 'labelLimit',
  label_name_length_limit: 'labelNameLengthLimit',
  label_value_length_limit: 'labelValueLengthLimit',
  metrics_path: 'metricsPath',
  params: 'params',
  sample_limit: 'sampleLimit',
};
local ofRelabelling = {
  action: 'action',
  regex: 'regex',
  replacement: 'replacement',
  separator: 'separator',
  source_labels: 'sourceLabels',
  target_label: 'targetLabel',
};
local elsewhere = ['job_name', 'file_sd_configs', 'relabel_configs', 'metric_relabel_configs', 'follow_redirects'] +
                  ['scrape_interval', 'scrape_timeout'];

local relabelling(config) =
  local unknown = [name for name in std.objectFields(config) if !std.objectHas(ofRelabelling, name)];
  assert unknown == [] : 'operator.libsonnet: %s is not translated' % [unknown];
  // The Operator leaves an empty regex out, and all labels would match.
  renamed(ofRelabelling, config { [if std.get(config, 'regex') == '' then 'regex']: '^$' });

// `xentop` of ../local/targets/xentop.yml; '' for a job that has the stack's own addresses alone.
local targetsFile(job) =
  local file = job.file_sd_configs[0].files[0], own = '../local/targets/';
  if std.startsWith(file, own) then std.strReplace(std.substr(file, std.length(own), std.length(file)), '.yml', '') else '';

{
  local config = self._config,
  local mixin = self,

  local object(apiVersion, kind, name, content, labels={}) = {
    apiVersion: apiVersion,
    kind: kind,
    metadata: { name: 'virtscope-' + name, labels: { 'app.kubernetes.io/part-of': 'virtscope' } + labels + config.objectLabels },
  } + content,

  local scrapeConfig(job) =
    local unknown = [
      name
      for name in std.objectFields(job)
      if !std.objectHas(ofScrape, name) && !std.member(elsewhere, name)
    ];
    assert unknown == [] : 'operator.libsonnet: %s is not translated' % [unknown];
    local number = std.rstripChars(config.scrapeInterval, 's');
    local isNumber = std.all([std.member('0123456789', each) for each in std.stringChars(number)]);
    assert isNumber && number + 's' == config.scrapeInterval : 'scrapeInterval: %s is not in whole seconds, such as 15s' % config.scrapeInterval;
    local seconds = std.parseInt(number);
    assert seconds <= 15 : 'scrapeInterval: rules take rates over a minute, so at most 15s';
    local misspelt = std.setDiff(std.objectFields(config.targets), std.objectFields(stack.targets));
    assert misspelt == [] : 'targets: no such files: %s; there are %s' % [misspelt, std.objectFields(stack.targets)];
    local targets = std.get(config.targets, targetsFile(job), []);
    object('monitoring.coreos.com/v1alpha1', 'ScrapeConfig', std.strReplace(job.job_name, '_', '-'), {
      spec: renamed(ofScrape, job) + {
        jobName: job.job_name,
        scrapeInterval: std.get(job, 'scrape_interval', config.scrapeInterval),
        scrapeTimeout: std.get(job, 'scrape_timeout', '%ds' % std.max(1, seconds - 1)),
        honorLabels: false,
        relabelings: [relabelling(each) for each in job.relabel_configs],
        metricRelabelings: [relabelling(each) for each in job.metric_relabel_configs],
        [if targets != [] then 'staticConfigs']: targets,
      },
    }),

  // Scrapes the same job on each node, which is the host. Labels of the Operator's own are dropped: a pod's name would change
  // with each update, and hide the names in the kubelet's series.
  local monitor(kind, name, job, node, platform, endpoints, endpoint, content) =
    local scraped = scrapeConfig(jobs[job]).spec;
    object('monitoring.coreos.com/v1', kind, name, {
      spec: content {
        [limit]: scraped[limit]
        for limit in ['bodySizeLimit', 'labelLimit', 'labelNameLengthLimit', 'labelValueLengthLimit', 'sampleLimit']
      } + {
        [endpoints]: [{
          interval: scraped.scrapeInterval,
          honorLabels: false,
          followRedirects: false,
          relabelings: [
            { sourceLabels: [node], targetLabel: 'host' },
            { targetLabel: 'platform', replacement: platform },
            { targetLabel: 'job', replacement: job },
            { regex: 'container|endpoint|namespace|node|pod|service', action: 'labeldrop' },
          ],
          metricRelabelings: scraped.metricRelabelings,
        } + endpoint],
      },
    }),
  local podMonitor(job, platform) = monitor(
    'PodMonitor',
    job,
    job,
    '__meta_kubernetes_pod_node_name',
    platform,
    'podMetricsEndpoints',
    { port: job, honorTimestamps: false },
    { selector: { matchLabels: { 'app.kubernetes.io/name': 'virtscope' } } },
  ),
  // The kubelet reads its cgroups every ten seconds, so its timestamps make rates exact.
  local kubelet = monitor(
    'ServiceMonitor',
    'kubelet',
    'cadvisor',
    'node',
    'cgroup',
    'endpoints',
    {
      port: 'https-metrics',
      scheme: 'https',
      path: '/metrics/cadvisor',
      bearerTokenFile: '/var/run/secrets/kubernetes.io/serviceaccount/token',
      tlsConfig: { insecureSkipVerify: true },
      honorTimestamps: true,
      trackTimestampsStaleness: true,
    },
    { selector: { matchLabels: { 'k8s-app': 'kubelet' } }, namespaceSelector: { matchNames: ['kube-system'] } },
  ),

  prometheusOperator+:: {
    'prometheusRule-rules.yaml': object('monitoring.coreos.com/v1', 'PrometheusRule', 'rules', { spec: mixin.prometheusRules }),
    'prometheusRule-alerts.yaml': object('monitoring.coreos.com/v1', 'PrometheusRule', 'alerts', { spec: mixin.prometheusAlerts }),
  } + {
    ['scrapeConfig-%s.yaml' % std.strReplace(job.job_name, '_', '-')]: scrapeConfig(job)
    for job in prometheus.scrape_configs
    if std.objectHas(stack.targets, targetsFile(job))
  } + {
    'podMonitor-sched.yaml': podMonitor('sched', 'base'),
    'podMonitor-perf.yaml': podMonitor('perf', 'base'),
    'podMonitor-kvm.yaml': podMonitor('kvm', 'kvm'),
    'serviceMonitor-kubelet.yaml': kubelet,
  } + {
    ['configMap-dashboard-%s.yaml' % name]: object('v1', 'ConfigMap', 'dashboard-' + name, {
      local file = 'virtscope-%s.json' % name,
      data: { [file]: std.manifestJsonMinified(mixin.grafanaDashboards[file]) },
    }, { grafana_dashboard: '1' })
    for name in std.objectFields(stack.dashboards)
  },
}

// The stack's own files. Jsonnet can't list a folder: add new files of these folders here
// (tests/mixin/ finds what is missing).
{
  rules: [
    importstr '../prometheus/rules/base.yml',
    importstr '../prometheus/rules/cgroup.yml',
    importstr '../prometheus/rules/costs.yml',
    importstr '../prometheus/rules/derived.yml',
    importstr '../prometheus/rules/events.yml',
    importstr '../prometheus/rules/history.yml',
    importstr '../prometheus/rules/kvm.yml',
    importstr '../prometheus/rules/monitor.yml',
    importstr '../prometheus/rules/openvz.yml',
    importstr '../prometheus/rules/openvz_beancounters.yml',
    importstr '../prometheus/rules/xen.yml',
    importstr '../prometheus/rules/generated/requests.yml',
  ],
  alerts: [
    importstr '../alerts/rules/capacity.yml',
    importstr '../alerts/rules/events.yml',
    importstr '../alerts/rules/monitoring.yml',
    importstr '../alerts/rules/objectives.yml',
    importstr '../alerts/rules/openvz.yml',
    importstr '../alerts/rules/overhead.yml',
    importstr '../alerts/rules/stack.yml',
    importstr '../alerts/rules/virtual_servers.yml',
  ],
  // Rules and alerts of the applications' objectives, as `make rules` writes them.
  objectives: {
    auction: importstr '../alerts/generated/auction.yml',
    rubis: importstr '../alerts/generated/rubis.yml',
  },
  // What is scraped, and how.
  prometheus: importstr '../prometheus/prometheus.yml',
  targets: std.mapWithKey(function(_, file) local listed = std.parseYaml(file); if listed == null then [] else listed, {
    app: importstr '../prometheus/targets/app.yml',
    cadvisor: importstr '../prometheus/targets/cadvisor.yml',
    guest: importstr '../prometheus/targets/guest.yml',
    kvm: importstr '../prometheus/targets/kvm.yml',
    node: importstr '../prometheus/targets/node.yml',
    perf: importstr '../prometheus/targets/perf.yml',
    ssh: importstr '../prometheus/targets/ssh.yml',
    telegraf: importstr '../prometheus/targets/telegraf.yml',
    vestat: importstr '../prometheus/targets/vestat.yml',
    xentop: importstr '../prometheus/targets/xentop.yml',
  }),
  // Of Prometheus itself.
  overview: importstr '../prometheus/consoles/index.html',
  dashboards: {
    applications: importstr '../dashboards/json/applications.json',
    'caches-and-events': importstr '../dashboards/json/caches-and-events.json',
    consolidation: importstr '../dashboards/json/consolidation.json',
    costs: importstr '../dashboards/json/costs.json',
    experiments: importstr '../dashboards/json/experiments.json',
    fleet: importstr '../dashboards/json/fleet.json',
    host: importstr '../dashboards/json/host.json',
    kvm: importstr '../dashboards/json/kvm.json',
    monitor: importstr '../dashboards/json/monitor.json',
    openvz: importstr '../dashboards/json/openvz.json',
    profile: importstr '../dashboards/json/profile.json',
    'virtual-servers': importstr '../dashboards/json/virtual-servers.json',
    xen: importstr '../dashboards/json/xen.json',
  },
}

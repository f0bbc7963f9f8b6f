// The mixin as files that Prometheus and Grafana read: jsonnet --string --create-output-dirs --multi FOLDER
// render.jsonnet
function(config={})
  local settings = std.objectFieldsAll((import 'config.libsonnet')._config);
  local unknown = [name for name in std.objectFields(config) if !std.member(settings, name)];
  assert unknown == [] : 'no such settings: %s; there are %s' % [unknown, settings];
  local mixin = (import 'mixin.libsonnet') + { _config+:: config };
  {
    'rules.yml': std.manifestYamlDoc(mixin.prometheusRules, quote_keys=false),
    'alerts.yml': std.manifestYamlDoc(mixin.prometheusAlerts, quote_keys=false),
  } + {
    ['dashboards/' + name]: std.manifestJsonEx(mixin.grafanaDashboards[name], '  ')
    for name in std.objectFields(mixin.grafanaDashboards)
  } + {
    ['consoles/' + name]: std.rstripChars(mixin.prometheusConsoles[name], '\n')  // jsonnet ends each file with one
    for name in std.objectFields(mixin.prometheusConsoles)
  } + {
    ['prometheus-operator/' + name]: std.manifestYamlDoc(mixin.prometheusOperator[name], quote_keys=false)
    for name in std.objectFields(mixin.prometheusOperator)
  }

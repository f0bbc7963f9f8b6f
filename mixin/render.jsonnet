// The mixin as files that Prometheus and Grafana read: jsonnet --string --create-output-dirs --multi FOLDER
// render.jsonnet
function(config={})
  local defaults = (import 'config.libsonnet')._config;
  local settings = std.objectFieldsAll(defaults);
  assert std.isObject(config) : 'the settings must be an object, such as { objectives: [] }, not of type ' + std.type(config);
  local unknown = [name for name in std.objectFields(config) if !std.member(settings, name)];
  assert unknown == [] : 'no such settings: %s; there are %s' % [unknown, settings];
  local mistyped = [
    '%s must be of type %s, not %s' % [name, std.type(defaults[name]), std.type(config[name])]
    for name in std.objectFields(config)
    if defaults[name] != null && std.type(defaults[name]) != std.type(config[name])
  ];
  assert mistyped == [] : std.join('; ', mistyped);
  // != and = end alike.
  local isMatcher(text) =
    local quoted = std.strReplace(text, "'", '"');
    std.length(std.findSubstr('="', quoted) + std.findSubstr('=~"', quoted) + std.findSubstr('!~"', quoted)) > 0;
  local bad = [
    '%s: %s is not a label matcher, such as platform!=""' % [name, config[name]]
    for name in std.objectFields(config)
    if std.endsWith(name, 'Selector') && config[name] != '' && !isMatcher(config[name])
  ];
  assert bad == [] : std.join('; ', bad);
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

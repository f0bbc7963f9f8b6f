module tools/prometheus-operator

go 1.26.0

// For its CRDs alone, by which the mixin's manifests are validated: nothing of it is built.
require github.com/prometheus-operator/prometheus-operator v0.94.1

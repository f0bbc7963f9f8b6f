// Command otelcol is OpenTelemetry's Collector with what deploy/packages/push/otelcol.yml names, and no more.
//
// The releases' main.go is generated from a list of components by their own builder; this takes its place. Flags,
// subcommands and what a configuration may say of these components are the releases'. Built with the tag
// remove_all_sd, Prometheus's service discovery is static, by files, by HTTP, and Kubernetes's.
package main

import (
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusremotewriteexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/basicauthextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

var version = "unknown" // the linker sets it

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{
			Command:     "otelcol",
			Description: "OpenTelemetry Collector", // also its User-Agent
			Version:     version,
		},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{
					fileprovider.NewFactory(),
					envprovider.NewFactory(),
					yamlprovider.NewFactory(), // --set is made of it
				},
				DefaultScheme: "env", // of ${NAME}
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		os.Exit(1) // cobra has printed it
	}
}

// factories are what a configuration can name.
func factories() (otelcol.Factories, error) {
	made := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var err error
	if made.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](prometheusreceiver.NewFactory()); err != nil {
		return otelcol.Factories{}, err
	}
	if made.Processors, err = otelcol.MakeFactoryMap[processor.Factory](memorylimiterprocessor.NewFactory()); err != nil {
		return otelcol.Factories{}, err
	}
	made.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](prometheusremotewriteexporter.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	made.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](basicauthextension.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	return made, nil
}

"""Where perf-exporter's figures come from."""

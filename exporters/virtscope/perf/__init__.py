"""perf-exporter: the processor's event counters of a host and its control groups, and profiles by symbol."""

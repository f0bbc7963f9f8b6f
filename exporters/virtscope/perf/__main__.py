"""`python -m virtscope.perf` is perf-exporter."""

from virtscope.perf.cli import main

main()

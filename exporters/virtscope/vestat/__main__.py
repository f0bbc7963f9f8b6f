"""`python -m virtscope.vestat` is vestat-exporter."""

from virtscope.vestat.cli import main

main()

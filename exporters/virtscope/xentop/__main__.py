"""`python -m virtscope.xentop` is xentop-exporter."""

from virtscope.xentop.cli import main

main()

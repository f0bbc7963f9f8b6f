"""`python -m virtscope.perf` is perf-exporter."""

from __future__ import annotations

from virtscope.toolkit.starting import run


def main() -> None:
    """Run the exporter's command line."""
    run("virtscope.perf.exporter")


if __name__ == "__main__":
    main()

"""`python -m virtscope.vestat` is vestat-exporter."""

from __future__ import annotations

from virtscope.shell.starting import run


def main() -> None:
    """Run the exporter's command line."""
    run("virtscope.vestat.cli")


if __name__ == "__main__":
    main()

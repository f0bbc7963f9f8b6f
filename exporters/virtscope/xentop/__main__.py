"""`python -m virtscope.xentop` is xentop-exporter."""

from __future__ import annotations

from virtscope.shell.starting import run


def main() -> None:
    """Run the exporter's command line."""
    run("virtscope.xentop.cli")


if __name__ == "__main__":
    main()

"""`python -m virtscope.xen` is xentop-exporter."""

from __future__ import annotations

from virtscope.toolkit.starting import run


def main() -> None:
    """Run the exporter's command line."""
    run("virtscope.xen.exporter")


if __name__ == "__main__":
    main()

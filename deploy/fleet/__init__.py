"""A fleet: thousands of hosts, divided among pairs of Prometheus, with one store for all of them (docs/scale.md)."""

from deploy import StackError


class FleetError(StackError):
    """A fleet's command failed."""

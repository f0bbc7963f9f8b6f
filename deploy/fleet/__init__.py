"""A fleet: thousands of hosts, divided among pairs of Prometheus, with one store for all of them (docs/scale.md)."""


class FleetError(Exception):
    """A fleet's command failed. The message is one line for the user: the problem and the remedy."""

"""A fleet: thousands of hosts, divided among pairs of Prometheus, with one store for all of them (docs/scale.md)."""


class FleetError(Exception):
    """The fleet can't do what was asked. The message is one line for the user: what is wrong and what to do."""

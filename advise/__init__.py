"""Advice: where a guest may go, what a cap would do, and whether earlier predictions came true. It never acts."""


class AdviceError(Exception):
    """It can't be asked: no Prometheus, no such guest or host. The message is for the user."""

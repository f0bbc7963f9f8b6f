"""A clock that tests set."""


class Clock:
    """Replaces the module `time` in another module."""

    def __init__(self) -> None:
        self.now, self.cpu = 1000.0, 100.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.cpu

"""Counts failures of each part since `make up`, with the last time; in a file, to survive restarts."""

import contextlib
import json
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import datetime

from deploy import supervision

FILE = supervision.RUN / "failures.json"
REASONS = {"ended": "ended", "stopped": "was stopped (SIGSTOP)", "no_answer": "did not answer"}
RECENT_SECONDS = 3600


class Failures:
    """Counts by part and reason, continued from the file if it exists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = _read()

    def add(self, part: str, reason: str) -> None:
        """Note a failure, now."""
        with self._lock:
            count, _ = self._seen.get((part, reason), (0, 0.0))
            self._seen[part, reason] = count + 1, time.time()
            with contextlib.suppress(OSError):  # such as a full disk, which may be the failure; it is in memory anyway
                new = FILE.with_suffix(".new")
                new.write_text(json.dumps([[*key, *seen] for key, seen in self._seen.items()]))
                new.replace(FILE)

    def counts(self, parts: Iterable[str]) -> dict[tuple[str, str], int]:
        """Counts by part and reason, for all of these parts."""
        none = {(part, reason): 0 for part in parts for reason in REASONS}
        with self._lock:
            return {**none, **{key: count for key, (count, _) in self._seen.items()}}


def recent() -> Iterator[str]:
    """A line for each part and reason with failures within the past hour."""
    for (part, reason), (count, at) in _read().items():
        if time.time() - at < RECENT_SECONDS:
            when = f"{datetime.fromtimestamp(at).astimezone():%H:%M:%S}"
            times = f", {count} times since make up" if count > 1 else ""
            yield f"{part} {REASONS[reason]} at {when} and was started again{times}."


def _read() -> dict[tuple[str, str], tuple[int, float]]:
    try:
        return {(part, reason): (count, at) for part, reason, count, at in json.loads(FILE.read_text())}
    except (OSError, ValueError):
        return {}

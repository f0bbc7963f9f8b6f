"""Section `rate_limit`: a token bucket over all requests."""

from __future__ import annotations

import re
import threading
import time

from virtscope.toolkit.webconfig.document import Section

# Go's time.ParseDuration: "1.5h", "2h45m", "300ms".
DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION_PART = r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)"


def read_rate_limit(document: Section) -> TokenBucket | None:
    """Return a full bucket, None if there is no interval and so no limit."""
    section = document.section("rate_limit", ("interval", "burst"))
    interval = _seconds(section, "interval")
    burst = section.text("burst") or "0"
    if not re.fullmatch(r"[0-9]{1,9}", burst):
        raise section.error("burst", "expected a whole number of requests")
    if not interval:
        return None
    if int(burst) < 1:
        raise section.error("burst", "must be 1 or more, else every request would be refused")
    return TokenBucket(interval, int(burst))


def _seconds(section: Section, key: str) -> float:
    text = section.text(key) or "0"
    if text == "0":
        return 0.0
    if not re.fullmatch(f"(?:{DURATION_PART})+", text):
        raise section.error(key, "expected a duration with its unit, such as 1s or 500ms")
    return sum(float(number) * DURATION_UNITS[unit] for number, unit in re.findall(DURATION_PART, text))


class TokenBucket:
    """Lets `burst` requests through at once, and one more every `interval` seconds."""

    def __init__(self, interval: float, burst: int) -> None:
        self._interval = interval
        self._burst = burst
        self._tokens = float(burst)
        self._filled = time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token; False if there is none."""
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) / self._interval)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

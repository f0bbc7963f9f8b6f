"""Runs the stack for HOURS under churn, and prints what has grown: `make soak HOURS=2`.

Ends with status 1 if a slope would matter in a month, a process was restarted, or a target was down for more than one
scrape in a hundred. Slopes that the readings leave open are counted: a longer run decides.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import requests

from soak.guests import Containers, Domains, Host, Text, real
from soak.readings import BARS, Metric, read
from soak.slopes import MONTH, Slope, slope
from soak.stack import Stack, running

EVERY = 10.0  # seconds between two readings
SETTLING = 0.2  # of the time, which doesn't count: caches fill
_PROGRESS = 600.0  # seconds
_FIRED = "group by (alertname, host) (last_over_time(ALERTS{{alertstate='firing'}}[{seconds}s]))"
_DOWN = "sum by (job, instance) (1 - avg_over_time(up[{seconds}s])) > 0.01"


def main() -> None:
    """Run it, and print the table."""
    hours = float(os.environ.get("HOURS", "2"))
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, real() as cgroups:
        hosts: dict[str, Host] = {
            "domains": Domains(Path(folder, "domains")),
            "text": Text(Path(folder, "text")),
            "containers": Containers(Path(folder, "containers")),
        }
        with running(Path(folder), hosts, cgroups) as stack:
            soak = Soak(stack, hosts)
            soak.run(hours * 3600)
            good = soak.report()
    sys.exit(not good)


class Soak:
    """A run: what was read when, and which processes there were."""

    def __init__(self, stack: Stack, hosts: Mapping[str, Host]) -> None:
        self._stack = stack
        self._hosts = hosts
        self._readings: dict[Metric, list[tuple[float, float]]] = defaultdict(list)
        self._processes = stack.processes()
        self._failed = 0  # readings
        self._seconds = 0.0

    def run(self, seconds: float) -> None:
        """Let the guests come and go, a second after the other, and read."""
        begun = time.monotonic()
        due, shown = 0.0, _PROGRESS
        self._seconds = seconds
        while (now := time.monotonic() - begun) < seconds:
            for host in self._hosts.values():
                host.go_on()
            if now >= due:
                self._read(now)
                due += EVERY
            if now >= shown:
                print(f"{now / 60:.0f} minutes of {seconds / 60:.0f}", flush=True)
                shown += _PROGRESS
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun - now)))

    def _read(self, now: float) -> None:
        try:
            found = read(self._stack)
        except (OSError, requests.RequestException, LookupError) as error:
            self._failed += 1
            print(f"after {now:.0f} s: {error}", file=sys.stderr)
            return
        if now >= SETTLING * self._seconds:
            for metric, value in found.items():
                self._readings[metric].append((now, value))

    def report(self) -> bool:
        """Print what has grown; return whether all is well."""
        counted = (1 - SETTLING) * self._seconds
        print(f"\nSlopes over {counted / 3600:.2f} h, by 95 %, as what a month would add")
        print(f"{'':40} {'what':12} {'now':>10} {'a month adds':>22} {'most':>8}")
        verdicts = [self._show(metric, readings) for metric, readings in sorted(self._readings.items())]
        good = self._well(counted)
        open_ones = verdicts.count(None)
        print(
            f"{verdicts.count(False)} don't grow, {verdicts.count(True)} do, {open_ones} are open: a longer run decides"
        )
        return good and True not in verdicts

    def _show(self, metric: Metric, readings: list[tuple[float, float]]) -> bool | None:
        found: Slope = slope(readings)
        most = max(BARS[metric.what].least, found.level)
        grows = found.grows_by(most)
        adds = f"{found.low * MONTH:,.0f} to {found.high * MONTH:,.0f}"
        verdict = {True: "GROWS", False: "", None: "open"}[grows]
        what = f"{metric.what} {metric.unit}".strip()
        print(f"{metric.of:40} {what:12} {found.level:10,.1f} {adds:>22} {most:8,.0f} {verdict}")
        return grows

    def _well(self, seconds: float) -> bool:
        """Say which processes were restarted, which targets were down, what fires; return whether all ran."""
        now = self._stack.processes()
        restarted = [name for name, pid in self._processes.items() if now.get(name) != pid]
        down = self._stack.query(_DOWN.format(seconds=round(seconds)))
        targets = [f"{each['metric']['job']} {each['metric']['instance']}" for each in down]
        fired = self._stack.query(_FIRED.format(seconds=round(seconds)))
        alerts = {" of ".join(each["metric"].get(name, "") for name in ("alertname", "host")) for each in fired}
        print(f"\nrestarted: {', '.join(restarted) or 'none'}; readings that failed: {self._failed}")
        print(f"targets down for more than a scrape in a hundred: {', '.join(targets) or 'none'}")
        print(f"alerts that fired: {', '.join(sorted(alerts)) or 'none'}")
        return not restarted and not targets


if __name__ == "__main__":
    main()

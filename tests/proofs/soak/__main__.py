"""Runs the stack for HOURS under churn and prints the growth of each reading: `make soak HOURS=2`.

All readings are written to .stack/soak.csv. The exit status is 1 if a slope would matter in a month, a process was
restarted, or a target was down for more than one scrape in a hundred. Undecided slopes are counted: a longer run
decides them.
"""

import csv
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import requests

from tests.proofs.soak.guests import Containers, Domains, Host, Text, real
from tests.proofs.soak.readings import BARS, Metric, read
from tests.proofs.soak.slopes import MONTH, Slope, slope
from tests.proofs.soak.stack import Stack, running

EVERY = 10.0  # seconds between two readings
SHORTEST = 0.1  # hours
SETTLING = 0.25  # share of the time that is ignored: caches fill, and the number of blocks becomes constant
LOOK_BACK = 300.0  # seconds, far below Prometheus's retention here
_FIRED = "group by (alertname, host) (last_over_time(ALERTS{{alertstate='firing'}}[{seconds}s]))"
_DOWN = "sum by (job, instance) (1 - avg_over_time(up[{seconds}s])) * {seconds}"
_READINGS = Path(".stack/soak.csv")
_MAX_DOWN = 0.01  # of the time


def main() -> None:
    """Run the stack, and print the table."""
    hours = float(os.environ.get("HOURS", "2"))
    if hours < SHORTEST:
        sys.exit(f"error: HOURS={hours}: less than {SHORTEST} show no slope")
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
    """A run: readings with their times, and processes."""

    def __init__(self, stack: Stack, hosts: Mapping[str, Host]) -> None:
        self._stack = stack
        self._hosts = hosts
        self._readings: dict[Metric, list[tuple[float, float]]] = defaultdict(list)
        self._processes = stack.processes()
        self._failed = 0  # readings
        self._seconds = 0.0
        self._looked_back = 0.0
        self._fired: set[str] = set()
        self._down: dict[str, float] = defaultdict(float)  # seconds, by target

    def run(self, seconds: float) -> None:
        """Start and stop guests every second, and take readings."""
        begun = time.monotonic()
        due = 0.0
        self._seconds = seconds
        self._looked_back = SETTLING * seconds
        while (now := time.monotonic() - begun) < seconds:
            for host in self._hosts.values():
                host.go_on()
            if now >= due:
                self._read(now)
                due += EVERY
            if now >= self._looked_back + LOOK_BACK:
                self._look_back(now)
                print(f"{now / 60:.0f} minutes of {seconds / 60:.0f}", flush=True)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - begun - now)))
        self._look_back(seconds)

    def _read(self, now: float) -> None:
        try:
            found = read(self._stack)
        except (OSError, requests.RequestException, LookupError) as error:
            self._has_failed(now, error)
            return
        if now >= SETTLING * self._seconds:
            for metric, value in found.items():
                self._readings[metric].append((now, value))

    def _has_failed(self, now: float, error: Exception) -> None:
        self._failed += 1
        print(f"after {now:.0f} s: {error}", file=sys.stderr)

    def _look_back(self, now: float) -> None:
        """Record firing alerts and the down time of targets since the last call."""
        seconds = round(now - self._looked_back)
        try:
            fired = self._stack.query(_FIRED.format(seconds=seconds))
            down = self._stack.query(_DOWN.format(seconds=seconds))
        except (OSError, requests.RequestException) as error:
            self._has_failed(now, error)  # the next call looks further back
            return
        self._looked_back = now
        for each in fired:
            labels = each["metric"]
            self._fired.add(" of ".join(labels[name] for name in ("alertname", "host") if name in labels))
        for each in down:
            self._down[f"{each['metric']['job']} {each['metric']['instance']}"] += float(each["value"][1])

    def report(self) -> bool:
        """Print the growth; return whether everything is within its bounds."""
        self._write()
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

    def _write(self) -> None:
        _READINGS.parent.mkdir(exist_ok=True)
        with _READINGS.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("of", "what", "unit", "second", "value"))
            for metric, readings in sorted(self._readings.items()):
                rows.writerows((*metric, round(second), value) for second, value in readings)

    def _show(self, metric: Metric, readings: list[tuple[float, float]]) -> bool | None:
        what = f"{metric.what} {metric.unit}".strip()
        try:
            found: Slope = slope(readings)
        except ValueError as error:  # not available all the time
            print(f"{metric.of:40} {what:12} {error}")
            return None
        most = max(BARS[metric.what].least, found.level)
        grows = found.grows_by(most)
        adds = f"{found.low * MONTH:,.0f} to {found.high * MONTH:,.0f}"
        verdict = {True: "GROWS", False: "", None: "open"}[grows]
        print(f"{metric.of:40} {what:12} {found.level:10,.1f} {adds:>22} {most:8,.0f} {verdict}")
        return grows

    def _well(self, seconds: float) -> bool:
        """Print restarted processes, down targets and firing alerts; return whether everything ran."""
        now = self._stack.processes()
        restarted = [name for name, pid in self._processes.items() if now.get(name) != pid]
        targets = [target for target, down in self._down.items() if down > _MAX_DOWN * seconds]
        print(f"\nrestarted: {', '.join(restarted) or 'none'}; readings that failed: {self._failed}")
        print(f"targets down for more than a scrape in a hundred: {', '.join(targets) or 'none'}")
        print(f"alerts that fired: {', '.join(sorted(self._fired)) or 'none'}")
        return not restarted and not targets


if __name__ == "__main__":
    main()

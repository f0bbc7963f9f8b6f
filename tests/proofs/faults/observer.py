"""The effect of a fault: time to recovery, and what happened to samples, alerts and `make status`."""

import contextlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import requests

from tests.proofs.faults.stack import NO_DATA_HOST, PARTS, SCRAPE_SECONDS, HurtStack

LONGEST_SECONDS = 120.0  # maximum wait for recovery
POLL_SECONDS = 0.3
RAISED_SECONDS = 300.0  # from the start, for an alert with `for` of two minutes, with Prometheus restarts in between

OLD = "samples"  # among the problems: no recent sample is stored. Status tolerates a few seconds more

STANDING = f"SourceFailing of {NO_DATA_HOST}"
PERMANENT = {"Watchdog", STANDING}

Times = dict[str, list[float]]
"""When each target was scraped with success, by job and host."""


class Status(NamedTuple):
    """The output of `make status`, and the problems during that time, as in `Observer.wrong`."""

    code: int
    text: str
    wrong: frozenset[str]
    certain: bool  # the problems didn't change meanwhile

    def lie(self) -> str:
        """What is incorrect in it; empty if nothing."""
        if self.wrong - {OLD} and not self.code:
            return f"status says that all is well, without {', '.join(sorted(self.wrong))}"
        for part in PARTS:
            if part.name in self.wrong and re.search(rf"^{part.name} +running +\d", self.text, re.MULTILINE):
                return f"status says that {part.name} runs"
        if self.certain and not self.wrong and self.code:
            return f"status says that something is wrong, and nothing is: {self.complaint()}"
        return ""

    def complaint(self) -> str:
        """The most informative line about the problems."""
        lines = [" ".join(line.split()) for line in self.text.splitlines()]
        said = [line for line in lines if line.startswith("error:") or ": " in line or "not running" in line]
        return said[-1] if said else ""


class Alerts(NamedTuple):
    """Notifications, such as "HostDown of vz1"."""

    raised: frozenset[str]
    cleared: frozenset[str]


@dataclass
class Outcome:
    """The effect of one fault."""

    seconds: float | None  # until recovery; None if it never recovered
    lost: dict[str, int] = field(default_factory=dict)  # lost samples by target, without targets that lost none
    forgotten: int = 0  # samples stored before the fault and missing afterwards
    alerts: Alerts = field(default_factory=lambda: Alerts(frozenset(), frozenset()))
    statuses: list[Status] = field(default_factory=list)
    said_before: str = ""  # in the last status before the fault
    logged: str = ""


class Observer:
    """Observes the stack; `away` are the hosts that are expected to be away."""

    def __init__(self, stack: HurtStack) -> None:
        self.stack = stack
        self.began = time.time()
        self.away: set[str] = set()
        self._said = ""  # the last status

    # --- Samples ---

    def scraped(self, seconds: float) -> Times:
        """The successful scrapes of the past seconds."""
        found: Times = {}
        for series in self.stack.api("query", query=f"up[{int(seconds)}s]")["result"]:
            name = f"{series['metric']['job']} of {series['metric']['host']}"
            found[name] = [at for at, value in series["values"] if value == "1"]
        return found

    def last_scrapes(self) -> dict[str, float]:
        """The time of each target's last scrape if it was successful, else 0; without targets that are away."""
        found = self.stack.api("query", query="timestamp(up) * up")["result"]
        return {
            f"{series['metric']['job']} of {series['metric']['host']}": float(series["value"][1])
            for series in found
            if series["metric"]["host"] not in self.away
        }

    def expected(self) -> list[str]:
        """The targets that aren't expected to be away."""
        return [name for name in self.stack.targets() if name.rpartition(" ")[2] not in self.away]

    def is_well(self, since: float, targets: Iterable[str]) -> bool:
        """Whether all parts answer, and all targets have been scraped since then."""
        try:
            last = self.last_scrapes()
        except requests.RequestException:
            return False
        return (
            all(last.get(target, 0) > since for target in targets)
            and all(map(self.stack.answers, PARTS))
            and self.stack.running("supervisord") != 0
            and self.stack.has_data()
        )

    # --- Alerts ---

    def alerts(self, first: int) -> Alerts:
        """Notifications from this index on, without permanent ones."""
        notified = list(self._notified(first))
        raised = frozenset(name for name, status in notified if status == "firing")
        return Alerts(raised - PERMANENT, frozenset(name for name, status in notified if status == "resolved"))

    def _notified(self, first: int = 0) -> Iterator[tuple[str, str]]:
        """The name and status of each alert in notifications from this index on."""
        for message in self.stack.webhook.messages[first:]:
            for alert in message["alerts"]:
                named = (alert["labels"]["alertname"], alert["labels"].get("host"))
                yield " of ".join(filter(None, named)), alert["status"]

    def standing(self) -> list[str]:
        """What happened to the permanent alert that shouldn't have; after a short run, wait for it."""

        def statuses() -> list[str]:
            return [status for name, status in self._notified() if name == STANDING]

        while "firing" not in statuses() and time.time() < self.began + RAISED_SECONDS:
            time.sleep(1)
        return [
            *([] if "firing" in statuses() else ["never raised"]),
            *(["cleared"] if "resolved" in statuses() else []),
        ]

    # --- What a person sees ---

    def wrong(self) -> frozenset[str]:
        """The current problems, without the project's own programs."""
        found = {part.name for part in PARTS if not self.stack.answers(part)}
        if not self.stack.running("supervisord"):
            found.add("supervisord")
        with contextlib.suppress(requests.RequestException):
            targets = self.stack.api("targets", state="active")["activeTargets"]
            if any(target["health"] != "up" for target in targets):
                found.add("target")
            newest = self.stack.api("query", query="max(timestamp(up))")["result"]
            if not newest or time.time() - float(newest[0]["value"][1]) > 3 * SCRAPE_SECONDS:
                found.add(OLD)
        if "xentop-exporter" not in found and not self.stack.has_data():
            found.add("data")
        return frozenset(found)

    def ask_status(self) -> Status:
        before, processes = self.wrong(), self._processes()
        code, text = self.stack.status()
        after = self.wrong()
        return Status(code, text, before & after, before == after and processes == self._processes())

    def _processes(self) -> list[int]:
        """The process ids of all parts, to notice a part that was killed and is back within a moment."""
        return [self.stack.running(part) for part in (*PARTS, "supervisord")]

    def logged(self, sizes: Mapping[Path, int]) -> str:
        """The most informative line that the logs got since they had these sizes."""
        lines = []
        for file in self.stack.log_sizes():
            with file.open(errors="replace") as log:
                log.seek(sizes.get(file, 0))
                lines += [(file.stem, re.sub(r"^ts=\S+ |^[-\d]+ [\d:,]+ ", "", line.strip())) for line in log]
        for name, words in (
            ("liveness", ('msg="part failed', 'msg="supervisord')),
            ("supervisord", (" CRIT ", "WARN exited", "WARN received")),
            ("", ("level=warn", "level=error")),
        ):
            for stem, line in lines:
                if stem.startswith(name) and any(word in line for word in words):
                    return f"{stem}: {line.replace(str(self.stack.folder), '...')}"
        return ""

    # --- All together ---

    def observe(self, hurt: Callable[[], contextlib.AbstractContextManager[object]], seconds: float) -> Outcome:
        """Inject the fault for this long, wait until all is healthy, and return the effect."""
        targets = self.expected()
        before = self.scraped(time.time() - self.began)
        sizes, first = self.stack.log_sizes(), len(self.stack.webhook.messages)
        statuses: list[Status] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                statuses.append(self.ask_status())
                done.wait(1)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            begun = time.time()
            with hurt():
                time.sleep(seconds)
            ended = time.time()
            while not (well := self.is_well(ended, targets)) and time.time() < ended + LONGEST_SECONDS:
                time.sleep(POLL_SECONDS)
            outcome = Outcome(time.time() - ended if well else None)
        finally:
            done.set()
            asking.join()
        statuses.append(self.ask_status())
        if well:
            after = self.scraped(time.time() - self.began + SCRAPE_SECONDS)
            outcome.lost = {name: count for name in targets if (count := lost(after.get(name, []), begun))}
            outcome.forgotten = sum(len(set(times) - set(after.get(name, []))) for name, times in before.items())
        outcome.statuses = statuses
        outcome.said_before, self._said = self._said, statuses[-1].text
        outcome.alerts = self.alerts(first)
        outcome.logged = self.logged(sizes)
        return outcome


def lost(times: list[float], since: float) -> int:
    """The number of scrapes missing after this moment."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(times) if later > since]
    return sum(round(gap / SCRAPE_SECONDS) - 1 for gap in gaps if gap > 1.5 * SCRAPE_SECONDS)

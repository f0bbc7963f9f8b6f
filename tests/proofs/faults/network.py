"""The network between Prometheus and a host, cut for ten minutes during other faults."""

import time

import requests

from tests.proofs.faults.observer import Observer, lost
from tests.proofs.faults.table import Row

NAME = "network to a host cut for 10 minutes"
SECONDS = 600.0
HOST = "vz1"
TRUE = frozenset({"HostDown of vz1"})
ALSO_TRUE = frozenset({"ExporterDown of vz1"})  # only sent if it fires in an earlier evaluation
BACK_SECONDS = 30.0
CLEARED_SECONDS = 360.0  # until the resolved notification; HostDown fires for five minutes more


class Cut:
    """The cut, until `end`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._first = len(observer.stack.webhook.messages)
        self._began = time.time()
        observer.away.add(HOST)
        observer.stack.remote.cut()

    def end(self) -> Row:
        """Wait until it has lasted long enough, reconnect the network, and return the result."""
        time.sleep(max(0.0, self._began + SECONDS - time.time()))
        observer = self._observer
        shown = next((line for line in observer.stack.status()[1].splitlines() if f" {HOST} " in line), "")
        away = self._about()
        missed = [] if away[0] - ALSO_TRUE == TRUE else [f"raised {', '.join(sorted(away[0])) or 'nothing'}"]
        missed += [f"cleared {name} while it stood" for name in sorted(away[1])]
        observer.stack.remote.join()
        joined = time.time()
        observer.away.discard(HOST)
        while not self._is_back(joined) and time.time() < joined + BACK_SECONDS:
            time.sleep(0.3)
        seconds = time.time() - joined
        if seconds >= BACK_SECONDS:
            missed.append("is not back")
        while not self._about()[1] >= TRUE and time.time() < joined + CLEARED_SECONDS:
            time.sleep(1)
        raised, cleared = self._about()
        if not cleared >= TRUE:
            missed.append("HostDown was not cleared")
        counts = {
            name: lost(times, self._began)
            for name, times in observer.scraped(time.time() - self._began + 60).items()
            if name.endswith(f" of {HOST}")
        }
        return Row(
            NAME,
            f"{seconds:.0f} s",
            "; ".join(f"{count}: {name}" for name, count in counts.items()),
            "; ".join([*(f"raised {name}" for name in raised), *(f"cleared {name}" for name in cleared)]),
            " ".join(shown.split()),
            tuple(missed),
        )

    def _about(self) -> tuple[frozenset[str], frozenset[str]]:
        """Alerts about the host raised and cleared since the cut."""
        alerts = self._observer.alerts(self._first)
        raised, cleared = (frozenset(name for name in names if name.endswith(f" of {HOST}")) for names in alerts)
        return raised, cleared

    def _is_back(self, since: float) -> bool:
        try:
            last = self._observer.last_scrapes()
        except requests.RequestException:
            return False
        return all(last.get(f"{job} of {HOST}", 0) > since for job in self._observer.stack.remote.targets)

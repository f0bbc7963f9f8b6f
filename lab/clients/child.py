"""The lab's end of the clients' process, and their protocol: one JSON object per line, with an answer to each.

<- {"port": 40123}                                             first: the port of its metrics
-> {"seed": "2007/1x800-1", "think_seconds": 7.0, "timeout_seconds": 10.0,
    "clients": {"auction-1": 210}, "urls": {"auction-1": "http://127.0.0.1:40080"}}
<- {"answers": 0, "ended": {}}                                 after they have started, and earlier ones ended
-> null                                                        asks again
<- {"answers": 12, "ended": {"auction-1": [12.0, 0.8, 0.0]}}   by application, lab.clients.metrics.Ended
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.clients.metrics import Ended
from lab.processes import Process, beside

START_SECONDS = 60.0  # importing Locust takes two seconds on an idle machine


@dataclass(frozen=True)
class Order:
    """The clients of each application from now on, each with its own random sequence.

    The same order gives the same visits, however long the process has run.
    """

    seed: str
    think_seconds: float  # mean of an exponential distribution
    timeout_seconds: float  # after this a client stops waiting for an answer, and its session ends
    clients: Mapping[str, int]
    urls: Mapping[str, str]


class Clients(Process):
    def __init__(self, log: Path, cpus: str) -> None:
        """Start it. Raises `LabError` if it doesn't start."""
        command = beside(cpus, [sys.executable, "-m", "lab.clients"])
        super().__init__("the clients' process", command, log, talks=True)
        try:
            self.port = self._answer(START_SECONDS)["port"]
        except BaseException:
            self.stop()
            raise

    def carry_out(self, order: Order) -> None:
        """Carry out an order; returns after clients have started, and stopped ones have received their answers."""
        self.send(f"{json.dumps(asdict(order))}\n")
        self._answer(START_SECONDS + order.timeout_seconds)

    def answers(self) -> int:
        """The number of answers with any status so far."""
        found: int = self._ask()["answers"]
        return found

    def ended(self) -> dict[str, Ended]:
        """By application: requests that have ended so far, also without an answer."""
        return {app: Ended(*of) for app, of in self._ask()["ended"].items()}

    def _ask(self) -> dict[str, Any]:
        self.send("null\n")
        return self._answer(START_SECONDS)

    def _answer(self, seconds: float) -> dict[str, Any]:
        line = self.read_until(b"\n", seconds)
        if not line.endswith(b"\n"):
            self.check()
            raise self.failure(f"has not answered for {seconds:g} s")
        answer: dict[str, Any] = json.loads(line)
        return answer

"""A simulated OpenVZ host: /proc/vz/vestat, /proc/vz/veinfo and /proc/bc/resources."""

import random
from pathlib import Path

from tests.unit.openvz import fake_host

_NO_LIMIT = 2**63 - 1
# As printed by 2.6.32; varying values are at their maximum.
_RESOURCES = {
    "kmemsize": 60_000_000,
    "lockedpages": 100,
    "privvmpages": 400_000,
    "shmpages": 30_000,
    "numproc": 400,
    "physpages": 300_000,
    "vmguarpages": 0,
    "oomguarpages": 200_000,
    "numtcpsock": 300,
    "numflock": 120,
    "numpty": 4,
    "numsiginfo": 30,
    "tcpsndbuf": 4_000_000,
    "tcprcvbuf": 4_000_000,
    "othersockbuf": 500_000,
    "dgramrcvbuf": 100_000,
    "numothersock": 200,
    "dcachesize": 9_000_000,
    "numfile": 8_000,
    "numiptent": 40,
    "swappages": 100_000,
}
_SETTLED = {"vmguarpages", "numpty", "numiptent", "lockedpages"}  # hardly change in a running container


class Containers:
    """Writes the files of a host with `count` containers, by ids from `first`, and updates their counters.

    Half of the containers have a limit for everything, like OpenVZ's own configurations up to 2.6.18; half have limits
    for memory and swap only, like those of 2.6.32.
    """

    def __init__(self, procfs: Path, count: int, first: int = 101) -> None:
        self.procfs = procfs
        self._random = random.Random(count)
        self._seconds = 5_000_000
        self._ctids = [str(first + number) for number in range(count)]
        self._blocks = [self._block(ctid) for ctid in self._ctids]
        (procfs / "bc").mkdir(parents=True)
        fake_host.write(procfs, version="042stab145.3\n", stats=fake_host.stats(1_000_000, 1000))
        self._write()

    def run_on(self, busy: float) -> None:
        """Simulate 15 s in which a share `busy` (0..1) of the containers change their usage."""
        self._seconds += 15
        for index in self._random.sample(range(len(self._ctids)), round(busy * len(self._ctids))):
            self._blocks[index] = self._block(self._ctids[index])
        self._write()

    def _write(self) -> None:
        head = f"Version: 2.5\n{'uid':>10}  {'resource':12}" + "".join(
            f" {column:>20}" for column in ("held", "maxheld", "barrier", "limit", "failcnt")
        )
        (self.procfs / "bc/resources").write_text("\n".join([head, *self._blocks, ""]))
        rows = [
            fake_host.row(ctid, up := self._seconds - number, waits=800 * up) for number, ctid in enumerate(self._ctids)
        ]
        veinfo = "".join(f"{ctid:>10}     0 {40 + len(ctid):>5} {'203.0.113.7':>15}\n" for ctid in self._ctids)
        fake_host.write(self.procfs, vestat=fake_host.vestat(rows), veinfo=veinfo)

    def _block(self, ctid: str) -> str:
        limited = int(ctid) % 2
        of_this_one = random.Random(ctid)  # the container's size, the same in each run
        rows: list[str] = []
        for resource, most in _RESOURCES.items():
            limit = most * of_this_one.randrange(2, 5) + 8
            highest = most * of_this_one.randrange(50, 100) // 100
            held = highest if resource in _SETTLED else self._random.randint(highest // 2, highest)
            barrier = limit * 9 // 10
            if not limited and resource not in {"physpages", "swappages"}:
                barrier = limit = _NO_LIMIT
            uid = f"{ctid:>10}: " if not rows else " " * 12
            values = (held, highest, barrier, limit, 0)
            rows.append(f"{uid}{resource:12}" + "".join(f" {value:20}" for value in values))
        return "\n".join(rows)

"""The faults, and the maximum effect allowed for each.

Most run while one host's network is cut for ten minutes.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import requests

from deploy.parts import LIVENESS, PROMETHEUS, XENTOP_EXPORTER, Part
from deploy.privileges import NOBODY
from tests.proofs.faults import compaction
from tests.proofs.faults.stack import DISK_MEGABYTES, PARTS, SCRAPE_SECONDS, HurtStack
from tests.stack.conftest import ROOT
from tests.support.waiting import wait_for

JOBS = {part.name: part.name.removesuffix("-exporter").replace("node_exporter", "node") for part in PARTS}
JOBS[LIVENESS.name] = "stack"
CHILD = "xentop"
ALL = ".*"  # targets, because Prometheus itself was away
NONE = "(?!)"

Hurt = Callable[[HurtStack], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True)
class Fault:
    """`hurt` is a context manager: the fault begins when it is entered and, if it lasts, ends when it is left."""

    name: str
    hurt: Hurt
    seconds: float = 0.0  # duration
    within: float = 30.0  # seconds after its end until everything must be healthy
    loses: str = NONE  # pattern of targets that may lose two samples more than fall into its duration
    silent: bool = False  # detected by silence within `within`, for which samples may be lost
    raises: tuple[str, ...] = ()  # expected alerts
    says: str = ""  # pattern that `make status` must print during the fault
    check: Callable[[HurtStack], str] = lambda _: ""  # another problem once all is healthy again, or ""
    lacks: Callable[[HurtStack], str] = lambda _: ""  # why it can't be tried here, or ""


def of(part: Part | str) -> str:
    """The targets that may lose samples while this part is away."""
    if part in {PROMETHEUS, "supervisord"}:
        return ALL
    assert isinstance(part, Part)
    return f"{JOBS[part.name]} of dom0|{JOBS[part.name]} of (?!well|vz1)"


def sent(to: Part | str, number: signal.Signals) -> Hurt:
    """To a part, supervisord, or the child of xentop-exporter."""

    @contextlib.contextmanager
    def hurt(stack: HurtStack) -> Iterator[None]:
        os.kill(stack.xentop.child() if to == CHILD else stack.pid(to), number)
        yield

    return hurt


def held(part: Part) -> Hurt:
    """Until it is killed."""

    @contextlib.contextmanager
    def hurt(stack: HurtStack) -> Iterator[None]:
        command = [sys.executable, "-m", "tests.proofs.faults.hold", str(stack.pid(part))]
        holding = stack.closing.enter_context(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE))
        stack.closing.callback(holding.kill)
        assert holding.stdout is not None
        if not holding.stdout.readline():
            raise RuntimeError(f"{part.name} can't be held by ptrace")
        yield

    return hurt


@contextlib.contextmanager
def disk_full(stack: HurtStack) -> Iterator[None]:
    _remount(stack.data, f"size={shutil.disk_usage(stack.data).used}")
    try:
        yield
    finally:
        _remount(stack.data, f"size={DISK_MEGABYTES}m")


@contextlib.contextmanager
def disk_read_only(stack: HurtStack) -> Iterator[None]:
    """As after a disk error, for a restarted Prometheus: a running one has its files open."""

    def remount_read_only() -> bool:
        os.kill(stack.pid(PROMETHEUS), signal.SIGKILL)
        _remount(stack.data, "ro")
        return True

    wait_for(remount_read_only, 20, every=0, not_yet=(subprocess.CalledProcessError,))
    try:
        yield
    finally:
        _remount(stack.data, "rw")


def clock_jumps(seconds: int) -> Hurt:
    @contextlib.contextmanager
    def hurt(stack: HurtStack) -> Iterator[None]:
        stack.remote.set_clock(seconds)
        try:
            yield
        finally:
            stack.remote.set_clock(0)

    return hurt


def limited(part: Part, what: str, limit: Callable[[int], int], needs_more: Callable[[HurtStack], object]) -> Hurt:
    """`what` is an option of prlimit; `limit` gives its value for a process, which may die of it. Its successor is
    unlimited.

    `needs_more` makes the process need more than that.
    """

    @contextlib.contextmanager
    def hurt(stack: HurtStack) -> Iterator[None]:
        pid = stack.pid(part)
        before = _prlimit(pid, what)
        _prlimit(pid, what, str(limit(pid)))
        try:
            needs_more(stack)
            yield
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # already ended
                _prlimit(pid, what, before)

    return hurt


def _prlimit(pid: int, what: str, soft: str = "") -> str:
    """Read or set the soft limit, as the part's own user: even root may lack the capability."""
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    option = [f"--{what}={soft}:"] if soft else [f"--{what}", "--output=SOFT", "--noheadings"]
    command = ["setpriv", *user, "prlimit", f"--pid={pid}", *option]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def descriptors(pid: int) -> int:
    """As many descriptors as it has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def address_space(pid: int) -> int:
    """Its current use; any user may lower a limit."""
    [kilobytes] = re.findall(r"^VmSize:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


def nothing(_: HurtStack) -> None:
    """It needs more by itself."""


def scrapes_at_once(stack: HurtStack) -> None:
    """Thirty requests to xentop-exporter, a thread each."""
    with ThreadPoolExecutor(30) as scraping:
        list(scraping.map(lambda _: stack.has_data(), range(30)))


def kill_child(stack: HurtStack) -> None:
    """Make xentop-exporter start another xentop."""
    os.kill(stack.xentop.child(), signal.SIGKILL)


def large_query(stack: HurtStack) -> None:
    """Make Prometheus read all samples of all series several times."""
    with contextlib.suppress(requests.RequestException):
        stack.api("query_range", query='{__name__=~".+"}', start=time.time() - 1800, end=time.time(), step=1)


def source(word: str) -> Hurt:
    return lambda stack: stack.xentop.saying(word)


def target(manner: str) -> Hurt:
    @contextlib.contextmanager
    def hurt(stack: HurtStack) -> Iterator[None]:
        stack.odd.manner = manner
        try:
            yield
        finally:
            stack.odd.manner = "well"

    return hurt


@contextlib.contextmanager
def killed_amid_a_scrape(stack: HurtStack) -> Iterator[None]:
    """Kill Prometheus while a target sends its answer."""
    pid = stack.pid(PROMETHEUS)
    with target("slowly")(stack):
        time.sleep(0.1)
        stack.odd.asked.clear()
        if not stack.odd.asked.wait(3 * SCRAPE_SECONDS):
            raise RuntimeError("Prometheus does not scrape")
        time.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
    yield


@contextlib.contextmanager
def killed_amid_make_rules(stack: HurtStack) -> Iterator[None]:
    """Kill the program of `make rules` at several moments, then Prometheus, which restarts with those files."""
    for moment in (0.3, 0.6, 1.0, 1.5):
        with subprocess.Popen(
            [sys.executable, "-m", "alerts.generator.build"],
            cwd=stack.checkout.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        ) as making:
            time.sleep(moment)
            making.kill()
    os.kill(stack.pid(PROMETHEUS), signal.SIGKILL)
    yield


def counters_fell(stack: HurtStack) -> str:
    """A problem if a counter of the remote host has decreased within the past two minutes."""
    fell = stack.api("query", query='sum(resets(openvz_container_cpu_used_seconds_total{host="vz1"}[2m])) > 0')
    return "counters fell" if fell["result"] else ""


def no_clock(stack: HurtStack) -> str:
    return "" if stack.remote.has_a_clock else "libfaketime is missing: apt-get install faketime"


# Prometheus last, so that the permanent alert has started.
_KILLED = sorted(PARTS, key=lambda part: part is PROMETHEUS)

BEFORE_THE_CUT = tuple(
    Fault(f"a host's clock: {seconds:+d} s", clock_jumps(seconds), seconds=8, check=counters_fell, lacks=no_clock)
    for seconds in (3600, -3600)
)
DURING_THE_CUT = (
    *(Fault(f"{part.name}: kill -9", sent(part, signal.SIGKILL), loses=of(part)) for part in _KILLED),
    Fault("xentop, a child: kill -9", sent(CHILD, signal.SIGKILL)),
    Fault("supervisord: kill -9", sent("supervisord", signal.SIGKILL), loses=ALL),
    *(Fault(f"{part.name}: SIGSTOP", sent(part, signal.SIGSTOP), within=60, loses=of(part)) for part in _KILLED),
    Fault("xentop, a child: SIGSTOP", sent(CHILD, signal.SIGSTOP), within=60),
    Fault("supervisord: SIGSTOP", sent("supervisord", signal.SIGSTOP), within=60),
    *(
        Fault(f"{part.name}: deadlock", held(part), within=60, loses=of(part), silent=True)
        for part in (XENTOP_EXPORTER, PROMETHEUS)
    ),
    *(
        Fault(f"xentop {word}", source(word), seconds=15, says="xentop-exporter doesn't get data")
        for word in ("hangs", "trickles", "never ends", "malformed")
    ),
    *(
        Fault(f"a target: {manner}", target(manner), seconds=20, loses="app of odd", says="app +odd +down: ")
        for manner in ("hangs", "trickles", "never ends", "garbled")
    ),
    *(
        Fault(f"{part.name}: {name}", limited(part, what, limit, needs_more), seconds=12, loses=of(part))
        for part, name, what, limit, needs_more in (
            (XENTOP_EXPORTER, "no descriptor left", "nofile", descriptors, nothing),
            (XENTOP_EXPORTER, "no memory left", "as", address_space, scrapes_at_once),
            (XENTOP_EXPORTER, "no task left, and its child killed", "nproc", lambda _: 1, kill_child),
            (PROMETHEUS, "no descriptor left", "nofile", descriptors, nothing),
            (PROMETHEUS, "no memory left", "as", address_space, large_query),
        )
    ),
    Fault("prometheus: kill -9 amid a scrape", killed_amid_a_scrape, loses=ALL),
    Fault("prometheus: kill -9 amid compaction", compaction.killed_amid, loses=ALL, check=compaction.complaint),
    Fault("make rules: kill -9, and of prometheus", killed_amid_make_rules, loses=ALL),
)
AFTER_THE_CUT = (
    Fault("data disk read-only", disk_read_only, seconds=15, loses=ALL, says="^prometheus +(?!running )"),
    Fault(
        "data disk full",
        disk_full,
        seconds=130,
        loses=ALL,
        raises=("SamplesNotStored", "Watchdog"),  # the Watchdog stops
        says=r"the disk of .* is full \(0 MB free\)",
    ),
)


def _remount(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True, capture_output=True)

"""The stack under test: the project's own, started by `make up` in a checkout with its own data disk.

It takes this machine for a Xen host with a fake xentop. It watches its own parts, a remote OpenVZ host, four healthy
hosts, and an application that answers as a fault needs it. One alert is permanent: SourceFailing of a host that answers
without data.
"""

import contextlib
import os
import random
import shutil
import signal
import socketserver
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from deploy.parts import (
    ALERTMANAGER,
    LIVENESS,
    NODE_EXPORTER,
    PERF_EXPORTER,
    PROMETHEUS,
    SCHED_EXPORTER,
    XENTOP_EXPORTER,
    Part,
)
from tests.proofs.faults.remote import RemoteHost
from tests.stack.conftest import ROOT, Checkout
from tests.support.alertmanager import notifying
from tests.support.endpoints import BackgroundServer, Exposition, Webhook
from tests.support.ports import free_port
from tests.support.waiting import wait_for

PARTS = (PROMETHEUS, ALERTMANAGER, NODE_EXPORTER, XENTOP_EXPORTER, PERF_EXPORTER, SCHED_EXPORTER, LIVENESS)
SCRAPE_SECONDS = 5.0  # of prometheus.yml
NO_DATA_HOST = "nodata"
WELL = 4
DISK_MEGABYTES = 700  # `make up` requires 500 free
_AS_A_XEN_HOST = """\
from deploy import stack, targets
targets.this_machine = lambda *_: targets.Machine("dom0", "xen", "a test says so")
raise SystemExit(stack.main())
"""


class HurtStack:
    """The running stack. Needs root: for a disk, a network namespace and limits of other users' processes."""

    def __init__(self) -> None:
        self.webhook = Webhook()
        self.closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()

    def _start(self) -> None:
        self.folder = Path(self.closing.enter_context(tempfile.TemporaryDirectory(prefix="faults")))
        self.folder.chmod(0o755)  # parts run as nobody
        self.checkout = Checkout(self.folder / "checkout", ports=iter(free_port, 0))
        self.data = self.checkout.folder / ".stack/data/prometheus"
        self.data.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "faults", str(self.data))
        self.closing.callback(_run, "umount", "--lazy", str(self.data))
        self.xentop = FakeXentop(self.folder / "bin")
        self.closing.enter_context(self.webhook)
        self._notify()
        self.closing.callback(self.checkout.kill_all)
        self._up()
        node_exporter = self.checkout.folder / ".stack/bin/node_exporter"
        self.remote = self.closing.enter_context(RemoteHost(self.folder, node_exporter))
        self._watch()

    def _notify(self) -> None:
        """Send every notification to this webhook immediately."""
        configuration = notifying(self.webhook.url)
        (self.checkout.folder / "alerts/alertmanager.yml").write_text(yaml.safe_dump(configuration))

    def _up(self) -> None:
        path = f"{self.xentop.folder}{os.pathsep}{os.environ['PATH']}"
        self.checkout.environment["PATH"] = path
        up = self.checkout.python("-c", _AS_A_XEN_HOST, "up")
        if up.returncode:
            raise RuntimeError(f"the stack did not start:\n{up.stdout}")

    def _watch(self) -> None:
        """Make Prometheus scrape the additional targets."""
        well = [self.closing.enter_context(Exposition("node_boot_time_seconds 1\n")) for _ in range(WELL)]
        no_data = self.closing.enter_context(Exposition('vestat_source_up{source="vestat"} 0\n'))
        self.odd = self.closing.enter_context(OddTarget())
        remote = {"host": "vz1", "platform": "openvz"}
        self.write_targets(
            "vestat",
            {"targets": [self.remote.targets["vestat"]], "labels": remote},
            no_data.group(NO_DATA_HOST, "openvz"),
        )
        self.write_targets(
            "node",
            {"targets": [self.remote.targets["node"]], "labels": remote},
            *(exposition.group(f"well{number}", "base") for number, exposition in enumerate(well)),
        )
        self.write_targets("app", {"targets": [self.odd.address], "labels": {"host": "odd", "platform": "base"}})

    def write_targets(self, job: str, *groups: dict[str, Any]) -> None:
        """Replace a job's targets file atomically."""
        file = self.checkout.folder / f"prometheus/targets/{job}.yml"
        new = file.with_suffix(".new")
        new.write_text(yaml.safe_dump(list(groups)))
        new.replace(file)

    def targets(self) -> list[str]:
        """All watched targets, by job and host."""
        own = [f"{job} of dom0" for job in ("prometheus", "alertmanager", "node", "xentop", "perf", "sched", "stack")]
        well = [f"node of well{number}" for number in range(WELL)]
        return [*own, *well, f"vestat of {NO_DATA_HOST}", "vestat of vz1", "node of vz1", "app of odd"]

    # --- What is true of it ---

    def pid(self, part: Part | str) -> int:
        """The process of a part, or supervisord, once it exists; raises AssertionError if it doesn't."""
        return wait_for(lambda: self.running(part), 10, every=0.01, explain=lambda: f"{part} does not run")

    def running(self, part: Part | str) -> int:
        """The process of a part, or supervisord; 0 if there is none, or while it is being replaced."""
        text = {
            "supervisord": "supervisor.supervisord",
            PROMETHEUS.name: "bin/prometheus ",
            ALERTMANAGER.name: "--storage.path=.stack/data/alertmanager",
            NODE_EXPORTER.name: "--no-collector.systemd",
            XENTOP_EXPORTER.name: "virtscope.xen",
            PERF_EXPORTER.name: "virtscope.perf",
            SCHED_EXPORTER.name: "virtscope.sched",
            LIVENESS.name: "deploy.liveness",
        }[part if isinstance(part, str) else part.name]
        found = [pid for pid, command in self.checkout.processes().items() if text in command]
        return found[0] if len(found) == 1 else 0

    def answers(self, part: Part) -> bool:
        with contextlib.suppress(requests.RequestException):
            return requests.get(self.checkout.url(part.port_variable, part.health_path), timeout=2).ok
        return False

    def api(self, path: str, **parameters: str | float) -> Any:
        """Prometheus's answer to an API request; raises requests.RequestException if there is none."""
        answer = requests.get(self.checkout.url("PROMETHEUS_PORT", f"/api/v1/{path}"), params=parameters, timeout=10)
        answer.raise_for_status()
        return answer.json()["data"]

    def has_data(self) -> bool:
        """Whether xentop-exporter gets data from its sources."""
        with contextlib.suppress(requests.RequestException):
            return "\nxentop_up 1" in requests.get(self.checkout.url("XENTOP_PORT", "/metrics"), timeout=5).text
        return False

    def status(self) -> tuple[int, str]:
        """Exit status and output of `make status`."""
        made = self.checkout.python("-c", _AS_A_XEN_HOST, "status")
        return made.returncode, made.stdout

    def log_sizes(self) -> dict[Path, int]:
        return {file: file.stat().st_size for file in (self.checkout.folder / ".stack/log").glob("*.log")}


class FakeXentop:
    """A folder for PATH with a xentop that follows the last `say`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        folder.chmod(0o777)  # as nobody, it records its starts there
        shutil.copy(ROOT / "tests/e2e/fake_xentop.py", folder / "xentop")
        (folder / "xentop").chmod(0o755)
        self.say("counts")

    def say(self, word: str) -> None:
        (self.folder / "says").write_text(word)

    def child(self) -> int:
        """The process started last; 0 if it has ended."""
        with contextlib.suppress(OSError):
            pid = int((self.folder / "children").read_text().split("\n")[-2].split()[0])
            os.kill(pid, 0)
            return pid
        return 0

    @contextlib.contextmanager
    def saying(self, word: str) -> Iterator[None]:
        """From its next start, which happens now, until the end of the block."""
        self.say(word)
        self._restart()
        try:
            yield
        finally:
            self.say("counts")
            self._restart()

    def _restart(self) -> None:
        if child := self.child():
            os.kill(child, signal.SIGKILL)


class OddTarget(BackgroundServer):
    """A target that "hangs", "trickles", "never ends", answers "garbled" or "slowly"; `manner` is "well" at first.

    `asked` is set while it answers.
    """

    def __init__(self) -> None:
        self.manner = "well"
        self.asked = threading.Event()
        target = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.recv(65536)
                target.asked.set()
                with contextlib.suppress(OSError):  # Prometheus has closed the connection
                    for piece in answer(target.manner):
                        self.request.sendall(piece)
                target.asked.clear()

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        super().__init__(server)


def answer(manner: str) -> Iterator[bytes]:
    """The chunks of an odd target's answer."""
    if manner == "hangs":
        time.sleep(30)
    if manner == "slowly":
        time.sleep(2)  # of Prometheus's timeout of four
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n"
    if manner == "garbled":
        yield random.randbytes(65536)
    while manner == "trickles":
        yield b"#"
        time.sleep(0.5)
    while manner == "never ends":
        yield b"app_odd 1\n" * 4096
    yield b"app_odd 1\n"


def _run(*command: str) -> None:
    subprocess.run(command, check=True)

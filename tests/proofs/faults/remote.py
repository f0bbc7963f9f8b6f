"""A watched OpenVZ host with its own network and clock."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from tests.proofs import CHECKOUT

PROC = CHECKOUT / "tests/fixtures/openvz/virtuozzo7-uuids/proc"
FAKETIME = "/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1"
HOST, HERE = "10.213.77.2", "10.213.77.1"


class RemoteHost:
    """vestat-exporter and node_exporter in a network namespace behind a veth pair. Needs root."""

    def __init__(self, folder: Path, node_exporter: Path) -> None:
        self._folder = folder
        self._node_exporter = node_exporter
        self._namespace = f"faults{os.getpid()}"
        self._link = f"vsf{os.getpid()}"[:14]
        self._clock = folder / "clock"
        self._programs: list[subprocess.Popen[bytes]] = []
        self.targets = {"vestat": f"{HOST}:10291", "node": f"{HOST}:9100"}

    def __enter__(self) -> Self:
        _ip("netns", "add", self._namespace)
        try:
            _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", self._namespace)
            _ip("address", "add", f"{HERE}/30", "dev", self._link)
            _ip("link", "set", self._link, "up")
            _ip("-n", self._namespace, "address", "add", f"{HOST}/30", "dev", "eth0")
            self.join()
            self.set_clock(0)
            self._run(
                sys.executable,
                *("-m", "virtscope.openvz", f"--path.procfs={PROC}"),
                f"--web.listen-address={self.targets['vestat']}",
                **self._fake_clock(),
            )
            self._run(str(self._node_exporter), f"--web.listen-address={self.targets['node']}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
            program.wait()
        _ip("netns", "delete", self._namespace)  # removes the link too

    @property
    def has_a_clock(self) -> bool:
        """Whether `set_clock` works: libfaketime is installed."""
        return bool(self._fake_clock())

    def set_clock(self, seconds: int) -> None:
        """Offset vestat-exporter's clock from this machine's by this much, like `date --set`; monotonic time isn't
        affected."""
        new = self._clock.with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.replace(self._clock)

    def cut(self) -> None:
        """Cut the network: nothing arrives, and no connection is closed."""
        _ip("-n", self._namespace, "link", "set", "eth0", "down")

    def join(self) -> None:
        """Reconnect the network."""
        _ip("-n", self._namespace, "link", "set", "eth0", "up")

    def _fake_clock(self) -> dict[str, str]:
        library = Path(FAKETIME.format(os.uname().machine))
        if not library.exists():
            return {}
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def _run(self, *command: str, **environment: str) -> None:
        with (self._folder / f"{Path(command[0]).name}.log").open("ab") as log:
            self._programs.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", self._namespace, *command],
                    env={**os.environ, "PYTHONPATH": str(CHECKOUT / "exporters"), **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )
        time.sleep(0.5)
        if self._programs[-1].poll() is not None:
            raise RuntimeError(f"{command[0]} ended at once: see {log.name}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)

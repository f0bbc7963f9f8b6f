"""ssh-exporter as a user runs it, for the hosts of a test's sshd."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import requests

from tests.e2e.running_exporter import RunningExporter
from tests.ssh.sshd import Sshd
from virtscope.toolkit.scrape import MOMENT_SECONDS


class OverSsh(RunningExporter):
    """The exporter with timeouts for a busy machine, on which sshd takes long to start a session.

    Scraped like Prometheus does, and never the same page twice within the moment in which it would be shared.
    """

    def __init__(self, folder: Path, *flags: str, environment: Mapping[str, str]) -> None:
        super().__init__(folder, *flags, environment=environment, package="virtscope.ssh")
        self._answered: dict[str, float] = {}  # time of the last answer by path

    def get(self, path: str = "/metrics", timeout: float = 90, **headers: str) -> requests.Response:
        time.sleep(max(0, self._answered.get(path, 0) + MOMENT_SECONDS - time.monotonic()))
        try:
            return super().get(path, timeout, **{"X_Prometheus_Scrape_Timeout_Seconds": "60", **headers})
        finally:
            self._answered[path] = time.monotonic()


def over_ssh(sshd: Sshd, *hosts: str, flags: Sequence[str] = ()) -> OverSsh:
    """The exporter of these hosts, not yet started."""
    folder = sshd.folder / "ssh-exporter"
    folder.mkdir(exist_ok=True)
    write_hosts(sshd, *hosts)
    given = (f"--hosts.file={folder}/hosts", f"--ssh.config.file={sshd.config}", *flags)
    environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    return OverSsh(folder, *given, environment=environment)


def write_hosts(sshd: Sshd, *hosts: str) -> Path:
    file = sshd.folder / "ssh-exporter/hosts"
    file.write_text("".join(f"{host}\n" for host in ("# of a test", *hosts)))
    return file

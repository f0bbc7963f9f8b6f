"""This machine as the lab uses it: the applications' CPUs, and a description for the report."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from deploy import programs
from deploy.programs import CHECKOUT, catalogue
from lab import LabError

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpus:
    """CPUs by purpose, as lists for cpuset and taskset, such as "0-2"."""

    by_tier: dict[str, str]  # of all instances
    others: str  # clients and sensors

    @property
    def count(self) -> int:
        return len(set(self.by_tier.values()))


def cpus(placement: str, available: set[int]) -> Cpus:
    """The tiers' CPUs: the last one for everything, like a node of the study.

    With "two nodes" the database tiers have the CPU before it. Raises `LabError` if there are too few.
    """
    ordered = sorted(available)
    web = str(ordered[-1])
    others = ",".join(map(str, ordered[:-1])) or web
    if placement == "one node":
        return Cpus({"web": web, "db": web}, others)
    if len(ordered) < 2:
        raise LabError("placement `two nodes` needs two CPUs, and this machine has one")
    return Cpus({"web": web, "db": str(ordered[-2])}, others)


def description() -> dict[str, str]:
    """The machine and the site's software, as labels of lab_run_info; unknown ones are empty."""
    packages = programs.versions(programs.LAB)
    [php] = [version for name, version in packages.items() if re.fullmatch(r"php[\d.]+-fpm", name)]
    telegraf = programs.got(catalogue.TELEGRAF)
    return {
        **host(),
        "apache": _upstream(packages["apache2-bin"]),
        "php": _upstream(php),
        "mariadb": _upstream(packages["mariadb-server-core"]),
        "telegraf": telegraf.version if telegraf else "",
    }


def host(cpuinfo: Path = Path("/proc/cpuinfo"), os_release: Path = Path("/etc/os-release")) -> dict[str, str]:
    """The machine alone, and the checkout's revision, as labels of lab_run_info; unknown ones are empty."""
    cpu = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.MULTILINE)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', os_release.read_text(), re.MULTILINE)
    git = ["git", "describe", "--always", "--dirty"]
    # Empty without git, as in an unpacked archive.
    version = subprocess.run(git, cwd=CHECKOUT, capture_output=True, text=True, check=False) if which("git") else None
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cpus": str(os.cpu_count()),
        "kernel": platform.release(),
        "os": system[1] if system else "",
        "version": version.stdout.strip() if version else "",
    }


def _upstream(version: str) -> str:
    """The upstream part of a Debian version."""
    return version.rpartition(":")[2].partition("-")[0]


def cpu_seconds() -> float:
    return busy_seconds(Path("/proc/stat").read_text().partition("\n")[0])


def busy_seconds(line: str) -> float:
    """User, nice, system, irq and softirq of a line of /proc/stat; raises `ValueError` if it isn't such a line."""
    user, nice, system, _idle, _iowait, irq, softirq = line.split(maxsplit=8)[1:8]
    return sum(map(int, (user, nice, system, irq, softirq))) / TICKS

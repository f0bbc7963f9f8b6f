"""The lab's dynamic allocation on a real Xen: caps of its guests, by the schedulers credit2 and credit."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import LabError
from lab.allocation.guests import Guests
from lab.allocation.scenario import Elsewhere, Guest
from tests.support.reporting import Report
from tests.support.waiting import wait_for
from tests.xen.dom0_sshd import sshd_in
from tests.xen.host import CREDIT, CREDIT2, XenHost

pytestmark = [pytest.mark.long, pytest.mark.hosts(CREDIT2, CREDIT)]
CAP = 0.05
SECONDS = 20.0  # of the host's clock; xl says CPU times to 0.1 s


@pytest.fixture
def target(xen: XenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """The host's first two guests, with the user's ssh as it finds its way to Dom0."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {shlex.quote(str(tmp_path))}/config "$@"\n')
    ssh.chmod(0o755)
    with sshd_in(xen, tmp_path, str.strip, root="prohibit-password"):
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        guests = tuple(Guest(guest.name) for guest in xen.plan.guests[:2])
        yield Elsewhere("xen", "dom0", guests, emulated=True)


def caps(xen: XenHost) -> dict[str, int]:
    """What xl says, in percent."""
    scheduler = xen.dom0("xl info xen_scheduler").strip()
    rows = re.findall(r"^(.*?) +\d+ +\d+ +(\d+)$", xen.dom0(f"xl sched-{scheduler}"), re.MULTILINE)
    return {name: int(cap) for name, cap in rows}


def test_caps_hold_and_are_taken_back_whatever_ends_the_lab(
    xen: XenHost, target: Elsewhere, tmp_path: Path, report: Report
) -> None:
    busy, other = (guest.name for guest in target.guests)
    xen.dom0(f"xl sched-{xen.dom0('xl info xen_scheduler').strip()} -d {shlex.quote(other)} -c 70")
    with contextlib.ExitStack() as ending:
        guests = ending.enter_context(Guests(target, tmp_path / "log"))
        free = used(guests)
        guests.cap(0, CAP)
        guests.cap(1, 0.3)
        assert (caps(xen)[busy], caps(xen)[other]) == (5, 30)
        capped = used(guests)
        report(f"{xen.plan.name}: {busy} used {free:.3f} CPU, with a cap of {CAP:g} {capped:.3f}")
        assert capped < 1.5 * CAP < free
        # The connection ends, as it does when the lab is killed.
        subprocess.run(["pkill", "-KILL", "-P", str(os.getpid()), "-x", "ssh"], check=True)
        wait_for(lambda: caps(xen), 60, until=lambda now: (now[busy], now[other]) == (0, 70))
        with pytest.raises(LabError, match="may not be as it was"):
            ending.close()


def used(guests: Guests) -> float:
    """CPUs that the first guest uses."""
    before = guests.sample()
    while (now := guests.sample()).clock - before.clock < SECONDS:
        time.sleep(1)
    return (now.container_cpu[0] - before.container_cpu[0]) / (now.clock - before.clock)

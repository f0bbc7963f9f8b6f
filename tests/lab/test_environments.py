"""Programs that run in environments: what they print, how they fail, and that nothing of them stays."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import LabError, reaper
from lab.cgroups import TierLimits
from lab.environments import Base, Environment, Guest, Limited, ProgramError
from tests.lab.conftest import require_cgroups
from tests.ssh.sshd import Sshd
from tests.unit.waiting import within_a_minute
from tools.programs import CHECKOUT

CPU = str(max(os.sched_getaffinity(0)))


@pytest.fixture(params=["base", "capped"])
def environment(request: pytest.FixtureRequest) -> Environment:
    if request.param == "base":
        return Base(CPU)
    require_cgroups()
    return Limited("capped", TierLimits(cap=0.5, cpus=CPU))


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_what_a_program_prints_on_its_cpus(environment: Environment) -> None:
    with environment.ready():
        said = environment.run(["sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo oops >&2"], timeout=60)
    assert said == f"Cpus_allowed_list:\t{CPU}\noops\n"


def test_a_cap_holds() -> None:
    require_cgroups()
    capped = Limited("capped", TierLimits(cap=0.2, cpus=CPU))
    burn = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    with capped.ready():
        assert float(capped.run([sys.executable, "-c", burn], timeout=60)) < 0.2 * 2 * 1.15 + 0.1  # and its start


def test_a_program_that_fails_is_named_with_what_it_said(environment: Environment) -> None:
    program = "seq 9; echo too bad; exit 3"
    with environment.ready(), pytest.raises(ProgramError) as error:
        environment.run(["sh", "-c", program], timeout=60)
    assert str(error.value) == (
        f"{environment.name}: sh -c '{program}' ended with status 3 and said:\n  6\n  7\n  8\n  9\n  too bad"
    )
    assert error.value.said == "1\n2\n3\n4\n5\n6\n7\n8\n9\ntoo bad\n"


def test_a_program_that_does_not_end_is_killed_with_what_it_has_started(
    environment: Environment, tmp_path: Path
) -> None:
    program = f"sleep 600 & echo $! $$ > {tmp_path}/pids; echo begun; wait"
    with environment.ready(), pytest.raises(ProgramError, match=r"wasn't done after 5 s") as error:
        environment.run(["sh", "-c", program], timeout=5)
    assert error.value.said == "begun\n"
    within_a_minute(lambda: not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split()))


def test_a_guest_that_cannot_be_reached_is_named() -> None:
    guest = Guest("web", "nobody@192.0.2.1", "xen", emulated=False)  # an address of RFC 5737, which no host has
    with pytest.raises(LabError, match=r"^web: true (ended with status 255 and said:|wasn't done)"), guest.ready():
        pass


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    """This machine over a real sshd, with the user's ssh as it finds it on its way to "web1"."""
    (tmp_path / "ssh").mkdir()
    with Sshd(tmp_path / "ssh") as sshd:
        sshd.add_host("web1", 'sh -c "$SSH_ORIGINAL_COMMAND"')
        (tmp_path / "bin").mkdir()
        ssh = tmp_path / "bin" / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {shlex.quote(str(sshd.config))} "$@"\n')
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
        yield Guest("web", "web1", "kvm", emulated=False)


def test_a_guest_runs_what_it_is_asked_word_for_word(guest: Guest) -> None:
    with guest.ready():
        assert guest.run(["printf", "%s|", "a b", "$HOME", "it's"], timeout=60) == "a b|$HOME|it's|"
        with pytest.raises(LabError, match=r"^web: false ended with status 1$"):
            guest.run(["false"], timeout=60)


def test_in_a_guest_a_program_that_does_not_end_is_ended_there(guest: Guest, tmp_path: Path) -> None:
    with guest.ready(), pytest.raises(ProgramError, match="wasn't done in time") as error:
        guest.run(["sh", "-c", f"echo begun; echo $$ > {tmp_path}/pid; exec sleep 600"], timeout=5)
    assert error.value.said == "begun\n"
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("ignored", ["PIPE", "PIPE TERM"])
def test_in_a_guest_nothing_goes_on_when_the_lab_is_gone(guest: Guest, tmp_path: Path, ignored: str) -> None:
    program = f"trap '' {ignored}; sleep 600 & echo $! $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pids; wait"
    (tmp_path / "program").write_text(program)
    lab = f"""
from lab.environments import Guest
Guest("web", "web1", "kvm", False).run(["sh", {str(tmp_path / "program")!r}], 600)
"""
    process = subprocess.Popen([sys.executable, "-c", lab], cwd=CHECKOUT)
    try:
        within_a_minute((tmp_path / "pids").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(alive(pid) for pid in pids)
    finally:
        process.kill()
        process.wait()
    within_a_minute(lambda: not any(alive(pid) for pid in pids))
    assert guest.run(["echo", "again"], timeout=60) == "again\n"


SURVIVES_ONCE = "exec 2>/dev/null; trap 'trap \"\" TERM; sleep 2; trap - TERM' TERM\n"


@pytest.mark.parametrize("traps_of_last", ["", SURVIVES_ONCE], ids=["ends", "survives a signal"])
def test_in_a_guest_a_program_removes_its_files_when_the_lab_is_gone(
    guest: Guest, tmp_path: Path, traps_of_last: str
) -> None:
    """As lmbench's script does, whose shell may get SIGPIPE first: it says that what it waited for was terminated.

    The last program of the script may survive the first SIGTERM, as one whose shell was just about to execute it.
    """
    files = tmp_path / "files"
    traps = f"trap 'sleep 1; rm -r {files}' EXIT; trap 'trap \"\" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE"
    (tmp_path / "last").write_text(f"{traps_of_last}mkdir {files}\nwhile :; do sleep 1; done")
    (tmp_path / "program").write_text(f"{traps}; sh {tmp_path / 'last'}; :")
    lab = f"""
from lab.environments import Guest
Guest("web", "web1", "kvm", False).run(["sh", {str(tmp_path / "program")!r}], 600)
"""
    process = subprocess.Popen([sys.executable, "-c", lab], cwd=CHECKOUT)
    try:
        within_a_minute(files.exists)
    finally:
        process.kill()
        process.wait()
    within_a_minute(lambda: not files.exists())
    assert guest.run(["echo", "again"], timeout=60) == "again\n"


def test_a_program_begins_once_it_would_be_killed_with_the_lab(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, start = tmp_path / "begun", reaper.start

    def slowly(group: int) -> subprocess.Popen[bytes]:
        time.sleep(1)
        assert not begun.exists()
        return start(group)

    monkeypatch.setattr(reaper, "start", slowly)
    with environment.ready():
        assert environment.run(["sh", "-c", f"touch {begun}; cat"], timeout=60) == ""
    assert begun.exists()


def test_a_guest_says_at_which_address_ssh_reaches_it(guest: Guest) -> None:
    assert guest.address() == "127.0.0.1"


def test_in_a_guest_a_server_runs_from_when_it_is_ready_to_the_end_of_the_block(guest: Guest, tmp_path: Path) -> None:
    program = f"echo $$ > {tmp_path}/pid; echo starting; sleep 0.2; echo ready; exec sleep 600"
    with guest.serving(["sh", "-c", program], "ready", timeout=60):
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
    assert not alive(pid)


def test_in_a_guest_a_server_that_ends_is_named_with_what_it_said(guest: Guest) -> None:
    with (
        pytest.raises(LabError, match=r"^web: sh -c 'echo no port; exit 1' doesn't serve and said:\n  no port$"),
        guest.serving(["sh", "-c", "echo no port; exit 1"], "ready", timeout=60),
    ):
        raise AssertionError("it never was")


def test_nothing_stays_of_a_lab_that_was_killed(environment: Environment, tmp_path: Path) -> None:
    lab = textwrap.dedent(f"""
        from lab.cgroups import TierLimits
        from lab.environments import Base, Limited
        environment = {"Base()" if isinstance(environment, Base) else 'Limited("capped", TierLimits(cap=0.5))'}
        with environment.ready():
            environment.run(["sh", "{tmp_path}/program"], 600)
    """)
    folder = shlex.quote(str(tmp_path))
    program = f"sleep 600 & echo $! $$ > {folder}/new; mv {folder}/new {folder}/pids; wait"
    (tmp_path / "program").write_text(program)
    process = subprocess.Popen([sys.executable, "-c", lab], cwd=CHECKOUT)
    try:
        within_a_minute((tmp_path / "pids").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(alive(pid) for pid in pids)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    within_a_minute(lambda: not any(alive(pid) for pid in pids))
    cgroups = [Path("/sys/fs/cgroup", tree, "virtscope/environment") for tree in ("", "cpu", "unified")]
    within_a_minute(lambda: not any(cgroup.exists() for cgroup in cgroups))

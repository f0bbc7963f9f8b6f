"""Programs that run in environments: their output, their failures, and that they leave nothing behind."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.programs import CHECKOUT
from lab import LabError
from lab.environments import Base, Environment, Guest, Limited
from lab.network import experiment
from lab.processes import ProgramError
from tests.lab.conftest import reachable, require_cgroups
from tests.support.waiting import wait_for

CPU = str(max(os.sched_getaffinity(0)))


@pytest.fixture(params=["base", "capped", "web"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Environment]:
    """This machine, a cgroup, and this machine again, which the user's ssh reaches as "web1"."""
    if request.param == "web":
        with reachable(tmp_path, "web1"):
            yield Guest(name="web", ssh="web1", platform="kvm")
        return
    if request.param == "capped":
        require_cgroups()
    yield Base() if request.param == "base" else Limited(name="capped", cap=0.5)


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    with reachable(tmp_path, "web1"):
        yield Guest(name="web", ssh="web1", platform="kvm")


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended after the file was opened
        return False


def kill_lab(environment: Environment, program: str, folder: Path, begun: Callable[[], object]) -> None:
    """Run a script in an environment with a lab process that is killed as soon as the script has begun."""
    (folder / "program").write_text(program)
    lab = f"""
from lab import guard
from lab.environments import Base, Guest, Limited
environment = {environment!r}
with guard.watching(), environment.ready() as run:
    run(["sh", {str(folder / "program")!r}], 600)
"""
    process = subprocess.Popen([sys.executable, "-c", lab], cwd=CHECKOUT)
    try:
        wait_for(begun)
    finally:
        process.kill()
        process.wait()


def kill_lab_with_processes(environment: Environment, folder: Path, traps: str = ":") -> None:
    """The script's processes end with the lab."""
    told: list[int] = []
    at = shlex.quote(str(folder))

    def begun() -> bool:
        if (folder / "pids").exists():
            told.extend(int(pid) for pid in (folder / "pids").read_text().split())
        return bool(told)

    program = f"{traps}; sleep 600 & echo $! $$ > {at}/new; mv {at}/new {at}/pids; wait"
    kill_lab(environment, program, folder, begun)
    assert len(told) == 2
    wait_for(lambda: not any(alive(pid) for pid in told))


def test_what_a_program_prints_on_its_cpus_and_how_it_fails(environment: Environment) -> None:
    with environment.ready(CPU) as run:
        said = run(["sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo oops >&2"], 60)
        where = r"\S+" if isinstance(environment, Guest) else CPU  # a guest's own
        assert re.fullmatch(rf"Cpus_allowed_list:\t{where}\noops\n", said)
        assert run(["printf", "%s|", "a b", "$HOME", "it's"], 60) == "a b|$HOME|it's|"
        program = "seq 9; echo too bad; exit 3"
        with pytest.raises(ProgramError) as error:
            run(["sh", "-c", program], 60)
    assert str(error.value) == (
        f"{environment.name}: sh -c '{program}' ended with status 3 and said:\n  6\n  7\n  8\n  9\n  too bad"
    )
    assert error.value.said == "1\n2\n3\n4\n5\n6\n7\n8\n9\ntoo bad\n"


def test_a_program_that_does_not_end_is_killed_with_what_it_has_started(
    environment: Environment, tmp_path: Path
) -> None:
    program = f"sleep 600 & echo $! $$ > {tmp_path}/pids; echo begun; wait"
    with environment.ready() as run, pytest.raises(ProgramError, match=r"wasn't done (after 5 s|in time)") as error:
        run(["sh", "-c", program], 5)
    assert error.value.said == "begun\n"
    wait_for(lambda: not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split()))


@pytest.mark.parametrize("ignored", ["", "PIPE", "PIPE TERM"])
def test_nothing_stays_of_a_lab_that_was_killed(environment: Environment, tmp_path: Path, ignored: str) -> None:
    kill_lab_with_processes(environment, tmp_path, f"trap '' {ignored}" if ignored else ":")
    cgroups = [Path("/sys/fs/cgroup", tree, "virtscope/environment") for tree in ("", "cpu", "unified")]
    wait_for(lambda: not any(cgroup.exists() for cgroup in cgroups))
    with environment.ready() as run:
        assert run(["echo", "again"], 60) == "again\n"


@pytest.mark.parametrize("survives", [False, True], ids=["ends", "survives a signal"])
def test_a_program_in_a_guest_removes_its_files_when_the_lab_is_gone(
    guest: Guest, tmp_path: Path, survives: bool
) -> None:
    """As lmbench's script does. Its shell may get SIGPIPE first and report that its child was terminated.

    The script's last program may survive the first SIGTERM, if its shell was about to execute it.
    """
    files = tmp_path / "files"
    once = "exec 2>/dev/null; trap 'trap \"\" TERM; sleep 2; trap - TERM' TERM\n" if survives else ""
    (tmp_path / "last").write_text(f"{once}mkdir {files}\nwhile :; do sleep 1; done")
    traps = f"trap 'sleep 1; rm -r {files}' EXIT; trap 'trap \"\" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE"
    kill_lab(guest, f"{traps}; sh {tmp_path / 'last'}; :", tmp_path, files.exists)
    wait_for(lambda: not files.exists())


def test_a_server_runs_in_a_guest_from_when_it_is_ready_to_the_end_of_the_block(guest: Guest, tmp_path: Path) -> None:
    assert guest.address() == "127.0.0.1"
    # It says more than a pipe holds.
    program = f"echo $$ > {tmp_path}/pid; sleep 0.2; echo ready; seq 100000; touch {tmp_path}/said; exec sleep 600"
    with guest.serving(["sh", "-c", program], "ready", timeout=60, called="seq"):
        pid = int((tmp_path / "pid").read_text())
        wait_for((tmp_path / "said").exists)
        assert alive(pid)
    assert not alive(pid)
    with (
        pytest.raises(LabError, match=r"^web: it has ended with status 1 and said:\n  no port$"),
        guest.serving(["sh", "-c", "echo no port; exit 1"], "ready", timeout=60, called="it"),
    ):
        raise AssertionError("it never was")


def test_a_guest_that_cannot_be_reached_or_is_this_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Guest(name="web", ssh="nobody@192.0.2.1", platform="xen")  # RFC 5737: no host has this address
    with pytest.raises(LabError, match=r"^web: true (ended with status 255 and said:|wasn't done)"), far.ready():
        pass
    monkeypatch.setattr(Guest, "run", lambda *_, **__: "198.51.100.9 22 127.0.0.1 22")
    words = r"^web: 127\.0\.0\.1, where ssh reached it, is this machine, or nowhere$"
    with pytest.raises(LabError, match=words), experiment.reach(Guest(name="web", ssh="web1", platform="kvm")):
        raise AssertionError("it was reached")

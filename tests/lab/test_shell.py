"""Commands on a host over a real sshd, and the host's own cleanup however they end."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.programs import CHECKOUT
from lab import LabError
from lab.allocation.containers import guests
from lab.allocation.scenario import Elsewhere, Guest
from lab.shell import Shell
from tests.lab.conftest import reachable
from tests.support.program import shell_program
from tests.support.waiting import wait_for

XL = """\
case "$1" in
  info) echo "xen_scheduler          : credit2" ;;
  list) cat {folder}/list ;;
  sched-credit2)
    [ -n "$2" ] && echo "$@" >>{folder}/caps
    printf 'Name  ID Weight Cap\\nDomain-0 0 256 0\\nweb1 1 256 0\\ndb 2 256 30\\n' ;;
esac
"""
LIST = """\
Name                                        ID   Mem VCPUs\tState\tTime(s)
Domain-0                                     0   640     1     r-----      61.5
web1                                         1    96     1     -b----      20.3
db                                           2    96     1     ------       7.8
"""
TARGET = Elsewhere(platform="xen", host="xen1", guests=(Guest(name="web1", ssh="web1"), Guest(name="db")))


pytestmark = pytest.mark.usefixtures("sshd")


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[None]:
    """The host "xen1", whose xl is a script that records its arguments, and its guest "web1"."""
    (tmp_path / "list").write_text(LIST)
    (tmp_path / "caps").touch()
    shell_program(tmp_path / "bin", "xl", XL.format(folder=shlex.quote(str(tmp_path))))
    with reachable(tmp_path, "xen1", "web1", programs=tmp_path / "bin"):
        yield


def caps(tmp_path: Path) -> list[str]:
    """The caps that the host's xl was called with."""
    return (tmp_path / "caps").read_text().splitlines()


def test_commands_answer_one_after_the_other() -> None:
    with Shell("xen1") as shell:
        assert shell.run("printf '%s' 'no end of line'") == "no end of line"
        assert shell.run("echo a; echo b >&2") == "a\nb\n"
        with pytest.raises(LabError) as error:
            shell.run("echo too bad; (exit 3)")
        assert str(error.value) == "xen1: echo too bad; (exit 3) ended with status 3 and said:\n  too bad"
        assert shell.run("cat") == ""  # stdin isn't the command stream
        assert shell.run("seq 100000").count("\n") == 100_000


def test_a_connection_that_ends_is_named_and_undone(tmp_path: Path) -> None:
    with contextlib.ExitStack() as ending:
        shell = ending.enter_context(Shell("xen1"))
        shell.undo([f"touch {tmp_path}/first", "false", f"touch {tmp_path}/undone"])
        subprocess.run(["pkill", "-KILL", "-P", str(os.getpid()), "-x", "ssh"], check=True)
        with pytest.raises(LabError, match=r"^xen1: no answer to true: the connection has ended"):
            shell.run("true")
        with pytest.raises(LabError, match=r"(?s)^xen1: no answer to undo: .* may not be as it was; if so, run there:"):
            ending.close()
    wait_for((tmp_path / "undone").exists)
    assert (tmp_path / "first").exists()


def test_guests_have_caps_loads_and_cpu_time_and_their_old_caps_afterwards(tmp_path: Path) -> None:
    with guests(TARGET) as there:
        there.cap(0, 0.2)
        there.cap(1, 0.8)
        first = there.sample()
        wait_for(lambda: there.sample().tasks > first.tasks)
        assert list(first.container_cpu) == [20.3, 7.8]
        assert caps(tmp_path) == ["sched-credit2 -d web1 -c 20", "sched-credit2 -d db -c 80"]
    assert caps(tmp_path)[2:] == ["sched-credit2 -d web1 -c 0", "sched-credit2 -d db -c 30"]
    wait_for(lambda: not loads())


def test_what_other_domains_have_used_before_and_after_does_not_count(tmp_path: Path) -> None:
    unloaded = Elsewhere(platform="xen", host="xen1", guests=(Guest(name="web1"), Guest(name="db")))
    with guests(unloaded) as there:
        other = "other                                        9    96     1     -b----    5000.0\n"
        (tmp_path / "list").write_text(LIST.replace("61.5", "61.0") + other)
        there.sample()
        begun = there.sample().machine_cpu
        (tmp_path / "list").write_text(LIST.replace("20.3", "20.7"))  # Dom0 0.5 more, web1 0.4; the other has ended
        assert there.sample().machine_cpu - begun == pytest.approx(0.9)
        (tmp_path / "list").write_text(LIST.replace("20.3", "0.1"))
        with pytest.raises(LabError, match="web1 has restarted while it was measured"):
            there.sample()


def test_a_host_that_cannot_be_reached_or_is_another_lab_s_is_named() -> None:
    with pytest.raises(LabError, match=r"(?s)^elsewhere: no answer to true: .*Permission denied"), Shell("elsewhere"):
        pass
    with Shell("xen1"), pytest.raises(LabError, match=r"(?s)^xen1: .*another lab changes this host"), Shell("xen1"):
        pass


def test_what_cannot_be_undone_is_said_with_the_commands_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = (f"touch {tmp_path}/first", "xl-is-gone -c 0")
    by_hand = f"xen1 may not be as it was; if so, run there:\n  {commands[0]}\n  {commands[1]}"
    with contextlib.ExitStack() as ending:
        ending.enter_context(Shell("xen1")).undo(commands)
        with pytest.raises(LabError) as error:
            ending.close()
    assert "xl-is-gone -c 0 failed" in str(error.value)
    assert str(error.value).endswith(by_hand)
    assert (tmp_path / "first").exists()
    shell = Shell("xen1").__enter__()
    shell.undo(commands)
    shell.__exit__(KeyboardInterrupt)  # the first error is raised
    assert by_hand in capsys.readouterr().err


def loads() -> list[str]:
    """Loads that run on this machine."""
    ps = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in ps.stdout.splitlines() if line.startswith("awk BEGIN { for (;;)")]


def test_a_lab_that_was_killed_leaves_neither_caps_nor_loads(tmp_path: Path) -> None:
    program = f"""
import time
from lab.allocation.containers import guests
from lab.allocation.scenario import Elsewhere
with guests(Elsewhere.model_validate({TARGET.model_dump()!r})) as there:
    there.cap(0, 0.2)
    time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT}/exporters"}
    lab = subprocess.Popen([sys.executable, "-c", program], cwd=CHECKOUT, env=environment)
    try:
        wait_for(lambda: caps(tmp_path) == ["sched-credit2 -d web1 -c 20"])
        assert loads()
        lab.send_signal(signal.SIGKILL)
    finally:
        lab.kill()
        lab.wait()
    wait_for(lambda: caps(tmp_path)[1:] == ["sched-credit2 -d web1 -c 0", "sched-credit2 -d db -c 30"])
    wait_for(lambda: not loads())

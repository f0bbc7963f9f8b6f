"""host.sh in each shell that may be a host's /bin/sh: it runs requests, and nothing else."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ssh.sshd import running, script
from tests.support.waiting import wait_for
from virtscope.openvz import recorded, vzlist
from virtscope.ssh import authorized_key, xen_host
from virtscope.xen import xl
from virtscope.xen.xl_host import PSR_KINDS, SCHEDULER_COMMANDS

SHELLS = ("/bin/dash", "/bin/bash", "/bin/busybox sh")

each_shell = pytest.mark.parametrize("shell", SHELLS)
pytestmark = pytest.mark.system


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder for PATH with programs that print their arguments, next to proc and sys."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("xentop", "xl", "xm", "vzlist"):
        (programs / name).write_text('#!/bin/sh\necho "$0|$*"\n')
        (programs / name).chmod(0o755)
    for folder in ("proc/vz", "sys/hypervisor/version"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def start(host: Path, shell: str) -> subprocess.Popen[bytes]:
    """Start it like sshd: in its own session."""
    text = script(host / "proc", host / "sys", host / "programs")
    command = ["sh", "-c", authorized_key.command(text, shell)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def answers(host: Path, shell: str, requests: str) -> str:
    return start(host, shell).communicate(requests.encode(), timeout=60)[0].decode()


def known_requests() -> Iterator[str]:
    yield from ("openvz", "xen", "net", xen_host.XENTOP, xen_host.BEFORE_4_0)
    for program, lists in xl.LISTS.items():
        of_schedulers = [each for each in SCHEDULER_COMMANDS.values() if (program, each) != ("xm", "sched-rtds")]
        commands = ("list -l", "info", "cpupool-list", "vcpu-list", *map(" ".join, lists), *of_schedulers)
        yield from (f"{program} {command}" for command in commands)
    yield from (f"xl psr-cmt-show {kind}" for kind in PSR_KINDS)
    yield from (f"vzlist -H -o veid,{field}" for field in vzlist.LABELS)


def test_bash_3_can_find_the_end_of_each_substitution() -> None:
    """It counts parentheses, including those of a case, up to the one that ends $(...)."""
    text = re.sub(r'(?m)^ *#.*$|"(?:[^"\\]|\\.)*"', "", authorized_key.SCRIPT.read_text())
    body = text[text.index("status=$(") : text.index("echo ${status:-1}")]
    assert body.count("(") == body.count(")")


@each_shell
def test_it_knows_all_that_is_asked(host: Path, shell: str) -> None:
    for request in known_requests():
        answered = answers(host, shell, f"{request}\n")
        assert answered.startswith(f"virtscope 1\n{request} "), answered
        program, _, arguments = request.partition(" ")
        if program in {"xl", "xm", "xentop", "vzlist"}:
            assert f"/{program}|{arguments}\n" in answered


def test_it_reads_every_file_that_a_recording_has() -> None:
    for alternatives in recorded.FILES:
        for file in alternatives:
            assert re.search(rf'[ "]{re.escape(file)}[ ;"]', authorized_key.SCRIPT.read_text()), file


@each_shell
def test_anything_else_does_nothing(host: Path, shell: str) -> None:
    touched = host / "touched"
    injected = ("touch @", "xl list; touch @", "openvz $(touch @)", "`touch @`", 'xl list" touch @ "')
    unknown = ("xl destroy 1", "xl list -v -c ", " xl list", "*", "?penvz", "", "\0openvz\x01", "x" * 1_000_000)
    for request in (*(each.replace("@", str(touched)) for each in injected), f"xl list\\\ntouch {touched}", *unknown):
        # A line break splits it into two requests; so may a zero byte in some shells.
        answered = answers(host, shell, f"{request}\nunknown\n")
        assert re.fullmatch(r"virtscope 1\n(unknown 0\n\n0\n\n1\n){2,3}", answered), request
    assert not touched.exists()


PRINTED = {  # as Xen's toolstacks print passwords, or a newer one may: the output that leaves the host
    '  "passwd": "ab)cd",': '  "passwd": "",',
    r'  "passwd" : "SECRET \\",': '  "passwd" : "",',
    r'[{"domid":1,"vnc":{"passwd":"SE\"CRET)","port":1},"name":"web"}]':
        '[{"domid":1,"vnc":{"passwd":"","port":1},"name":"web"}]',
    '{"vncpasswd":"SECRET","name":"a","password":"SECRET"}': '{"vncpasswd":"","name":"a","password":""}',
    '  "passwd": null, "name": "passwd"': '  "passwd": null, "name": "passwd"',
    '  "passwd": "SECRET that is cut': '  "passwd": ""',
    "    (passwd SECRET)": "    (passwd )",
    "    (vncpasswd ab)cd)": "    (vncpasswd )",
    "    (vncpasswd 'SE) (CRET'))": "    (vncpasswd ))",
    "    (name passwd)": "    (name passwd)",
}  # fmt: skip


@each_shell
def test_no_password_leaves_the_host(host: Path, shell: str) -> None:
    (host / "programs/xm").write_text(f"#!/bin/sh\ncat {host}/printed\n")
    for printed, answered in PRINTED.items():
        (host / "printed").write_text(f"(domain\n{printed}\n    (uuid 1)\n")
        expected = f"(domain\n{answered}\n    (uuid 1)\n"
        said = f"virtscope 1\nxm list -l {len(expected)}\n{expected}\n0\n\n0\n"
        assert answers(host, shell, "xm list -l\n") == said


@each_shell
def test_lengths_are_in_bytes_and_it_ends_at_the_end_of_the_requests(host: Path, shell: str) -> None:
    (host / "programs/xentop").write_text("#!/bin/sh\nprintf 'größer \\377\\n\\n'; echo écrit >&2; exit 3\n")
    process = start(host, shell)
    said, _ = process.communicate(f"{xen_host.XENTOP}\n".encode(), timeout=60)
    size, complaint = len("größer ".encode()) + 3, "écrit".encode()
    header = f"virtscope 1\n{xen_host.XENTOP} {size}\n".encode()
    assert said == header + "größer ".encode() + b"\xff\n\n\n" + b"6\n" + complaint + b"\n3\n"
    with pytest.raises(ProcessLookupError):
        wait_for(lambda: os.killpg(process.pid, 0), 60)


@each_shell
def test_one_that_prints_without_end_is_ended(host: Path, shell: str) -> None:
    # Cut right after a line break, it loses that.
    for endless, size in (("cat /dev/zero", ""), (f"yes {host}", "(9000000|8999999)\n"), (f"yes {host} >&2", "")):
        (host / "programs/xl").write_text(f"#!/bin/sh\nexec {endless}\n")
        answered = answers(host, shell, "xl list\nunknown\n")
        assert len(answered) < 9_200_000
        assert re.match(f"virtscope 1\nxl list {size}", answered)
        assert answered.endswith("\nunknown 0\n\n0\n\n1\n"), "and it goes on"
    assert not running(f"yes {host}")


@each_shell
def test_what_hangs_ends_when_sshd_has(host: Path, shell: str) -> None:
    """The parent, a shell here instead of sshd, dies like sshd when the client disconnects; the pipes stay open."""
    (host / "programs/xl").write_text(f"#!/bin/sh\nexec tail -f {host}/programs/xl\n")
    text = authorized_key.command(script(host / "proc", host / "sys", host / "programs"), shell)
    (host / "command").write_text(text)
    parent = subprocess.Popen(
        ["/bin/bash", "-c", f"setsid -w sh {host}/command; true"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert parent.stdin
    parent.stdin.write(b"xl list\n")
    parent.stdin.flush()
    hanging = f"tail -f {host}/programs/xl"
    wait_for(lambda: running(hanging), 60)
    parent.kill()
    parent.wait(30)
    wait_for(lambda: not running(hanging), 60)
    parent.stdin.close()

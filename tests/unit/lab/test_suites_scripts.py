"""The scripts that run lmbench and stress-ng, with programs that print the real ones' output."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from lab.suites import lmbench, programs
from lab.suites.outputs import stress_ng

SCRIPTS = Path(programs.__file__).parent
LMBENCH = {
    "lat_syscall": """case $1 in
        null) n=syscall;;
        open) n=open/close;;
        *) n=$1;;
        esac; say "Simple $n: 0.2 microseconds\"""",
    "lat_select": 'case $3 in tcp) n="tcp fd";; *) n=fd;; esac; say "Select on $2 $n\'s: 1.5 microseconds"',
    "lat_sig": """case $1 in
        install) say "Signal handler installation: 0.1 microseconds";;
        catch) say "Signal handler overhead: 1.4 microseconds";;
        prot) [ -x "$2" ] && say "Protection fault: 0.5 microseconds";;
        esac""",
    "lat_pipe": 'say "Pipe latency: 4.3 microseconds"',
    "lat_unix": 'say "AF_UNIX sock stream latency: 8.5 microseconds"',
    # Like the real one, it executes hello.
    "lat_proc": """case $1 in
        fork) say "Process fork+exit: 130 microseconds";;
        exec) /tmp/hello >/dev/null || exit 3; say "Process fork+execve: 590 microseconds";;
        shell) say "Process fork+/bin/sh -c: 1100 microseconds";;
        esac""",
    "lmdd": 'head -c 4096 /dev/zero >data; say "File data write bandwidth: 1000 KB/sec"',
    "lat_pagefault": '[ -s "$1" ] && say "Pagefaults on $1: 0.2 microseconds"',
    "lat_mmap": 'say "4.194304 80"',
    "lat_fs": 'say "0k\t10\t50000\t100000"; say "10k\t10\t20000\t40000"',
    "lat_udp": 'say "UDP latency using $1: 9 microseconds"',
    "lat_tcp": 'say "TCP latency using $1: 12 microseconds"',
    "lat_connect": 'echo "no more ports in $ENOUGH" >&2; exit 2',
    "bw_tcp": 'say "10.000000 1900 MB/sec"',
    "bw_unix": "kill -SEGV $$",
    "bw_pipe": 'say "Pipe bandwidth: 5000 MB/sec"',
    "bw_file_rd": 'say "4.19 20000.5"',
    "bw_mmap_rd": 'say "4.19 60000.5"',
    "bw_mem": 'say "4.19 30000.5"',
    "lat_ctx": 'printf "\\n\\"size=%dk ovr=0.5\\n2 1.5\\n8 2.5\\n16 3.5\\n" "$2" >&2',
    "hello": "echo hello",
}


def program(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f'#!/bin/sh\nsay() {{ echo "$*" >&2; }}\n{script}\n')
    file.chmod(0o755)


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in LMBENCH.items():
        server = "case $1 in -s | -S) exit;; esac; " if name in {"lat_udp", "lat_tcp", "lat_connect", "bw_tcp"} else ""
        program(folder, name, server + script.replace("/tmp/hello", str(tmp_path / "hello")))
    return folder


def run(script: str, *arguments: object, hello: Path = Path("/nowhere")) -> str:
    """A script's output, with `hello` where lmbench's own lat_proc looks for it."""
    text = (SCRIPTS / script).read_text().replace("/tmp/hello", str(hello))
    command = ["sh", "-c", text, script, *map(str, arguments)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


@pytest.mark.parametrize(("interval", "of_connections"), [(1000, 1000), (100_000, 10_000)])
def test_lmbenchs_programs_print_a_results_file_and_leave_nothing(
    fakes: Path, tmp_path: Path, interval: int, of_connections: int
) -> None:
    hello = tmp_path / "hello"
    said = run("lmbench.sh", fakes, "", 4, interval, tmp_path / "work", hello=hello)
    found = {(row.test.group, row.test.name): row.value for row in lmbench.parse(said)}
    # A failing program only loses its own value, and is named.
    missing = {(test.group, test.name) for test in lmbench.LINES.values()} - found.keys()
    assert missing == {(lmbench.LATENCIES, "TCP conn"), (lmbench.BANDWIDTHS, "AF Unix")}
    assert f"[lat_connect localhost: status 2: no more ports in {of_connections}]" in said
    assert "[bw_unix : status 139: Segmentation fault]" in said
    assert found[lmbench.PROCESSES, "exec proc"] == 590
    assert len(found) == 38
    assert not (tmp_path / "work").exists()
    assert not hello.exists()


def test_somebody_elses_hello_is_neither_executed_nor_removed(fakes: Path, tmp_path: Path) -> None:
    hello = tmp_path / "hello"
    hello.write_text("mine")
    with pytest.raises(subprocess.CalledProcessError) as error:
        run("lmbench.sh", fakes, "", 4, 1000, tmp_path / "work", hello=hello)
    assert f"{hello} is not lmbench's: remove it" in error.value.stdout
    assert hello.read_text() == "mine"
    assert not (tmp_path / "work").exists()


STRESS = """
yaml= name=
while [ $# -gt 0 ]; do
    case $1 in
    --yaml) yaml=$2;;
    --fork | --exec | --get | --pipe | --switch | --cpu | --qsort) name=${1#--};;
    esac
    shift
done
if [ $name = exec ]; then echo "stress-ng: info: exec stressor must not run as root" >&2; exit 3; fi
printf 'metrics:\\n    - stressor: %s\\n      bogo-ops-per-second-real-time: 3.5\\n\\n...\\n' $name >$yaml
"""


MEASURED = dict.fromkeys(("fork", "get", "pipe", "switch", "cpu", "qsort"), 3.5)


def test_stress_ngs_measures_leave_nothing_and_what_fails_is_named(tmp_path: Path) -> None:
    # As root, this covers programs that nobody can't run: pytest's own folder is closed to others, so it is copied.
    program(tmp_path, "stress-ng", STRESS)
    (tmp_path / "lib").mkdir()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        work = Path(folder) / "work"
        said = run("stress_ng.sh", tmp_path / "stress-ng", tmp_path / "lib", 1, work)
        assert not work.exists()
    assert {row.test.name: row.value for row in stress_ng(said)} == MEASURED
    assert "# [exec: status 3: stress-ng: info: exec stressor must not run as root]" in said


def test_of_an_installed_stress_ng_no_libraries_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "stress-ng", STRESS)  # only for root, if pytest runs as root
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "cp", f'[ "$1" != -R ] && exec {shutil.which("cp")} "$@"')  # of an empty folder's name: /
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        said = run("stress_ng.sh", tmp_path / "stress-ng", "", 1, Path(folder) / "work")
    assert {row.test.name: row.value for row in stress_ng(said)} == MEASURED

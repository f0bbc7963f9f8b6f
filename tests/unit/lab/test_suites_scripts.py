"""The scripts that run lmbench and stress-ng, with programs that print as the real ones do."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from lab.suites import lmbench, running
from lab.suites.outputs import stress_ng
from tests.support.program import shell_program

SCRIPTS = Path(running.__file__).parent
SERVERS = ("lat_udp", "lat_tcp", "lat_connect", "bw_tcp")
SILENT = ("lat_syscall", "lat_select", "lat_sig", "lat_unix", "lmdd", "lat_pagefault", "lat_mmap", "lat_fs", "lat_ctx")
LMBENCH = dict.fromkeys((*SILENT, *SERVERS, "bw_file_rd", "bw_mmap_rd", "bw_mem"), "") | {
    "lat_pipe": 'echo "Pipe latency: 4.3 microseconds" >&2',
    # Like the real one, it executes hello.
    "lat_proc": '[ $1 != exec ] || { HELLO >/dev/null && echo "Process fork+execve: 590 microseconds" >&2; }',
    "lat_connect": 'case $1 in -*) ;; *) echo "no more ports in $ENOUGH" >&2; exit 2;; esac',
    "bw_unix": "kill -SEGV $$",
    "bw_pipe": 'echo "Pipe bandwidth: 5000 MB/sec" >&2',
    "hello": "echo hello",
}


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    for name, script in LMBENCH.items():
        shell_program(tmp_path / "bin", name, script.replace("HELLO", str(tmp_path / "hello")))
    return tmp_path / "bin"


def run(script: str, *arguments: object, hello: Path = Path("/nowhere")) -> str:
    """A script's output, with `hello` where lmbench's own lat_proc looks for it."""
    text = (SCRIPTS / script).read_text().replace("/tmp/hello", str(hello))
    command = ["sh", "-c", text, script, *map(str, arguments)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


@pytest.mark.parametrize(("interval", "of_connections"), [(1000, 1000), (100_000, 10_000)])
def test_an_lmbench_program_that_fails_loses_its_own_value_and_nothing_is_left(
    fakes: Path, tmp_path: Path, interval: int, of_connections: int
) -> None:
    hello = tmp_path / "hello"
    said = run("lmbench.sh", fakes, "", 4, interval, tmp_path / "work", hello=hello)
    assert {row.test.key: row.value for row in lmbench.parse(said)} == {
        "lmbench/local_communication_latencies/Pipe": 4.3,
        "lmbench/local_communication_bandwidths/Pipe": 5000,
        "lmbench/processor_processes/exec proc": 590,
    }
    assert f"[lat_connect localhost: status 2: no more ports in {of_connections}]" in said
    assert "[bw_unix : status 139: Segmentation fault]" in said
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


@pytest.mark.parametrize("libraries", ["lib", ""])
def test_stress_ngs_measures_leave_nothing_and_what_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libraries: str
) -> None:
    # As root, this covers programs that nobody can't run: pytest's own folder is closed to others, so it is copied.
    shell_program(tmp_path, "stress-ng", STRESS)
    (tmp_path / "lib").mkdir()
    if not libraries:  # of an empty folder's name, it would copy /
        shell_program(tmp_path / "bin", "cp", f'[ "$1" != -R ] && exec {shutil.which("cp")} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        work = Path(folder) / "work"
        said = run("stress_ng.sh", tmp_path / "stress-ng", libraries and tmp_path / libraries, 1, work)
        assert not work.exists()
    measured = dict.fromkeys(("fork", "get", "pipe", "switch", "cpu", "qsort"), 3.5)
    assert {row.test.name: row.value for row in stress_ng(said)} == measured
    assert "# [exec: status 3: stress-ng: info: exec stressor must not run as root]" in said


@pytest.mark.parametrize(("setpriv", "found"), [("exit 0", True), ("exit 1", False)])
def test_stress_ng_needs_a_setpriv_that_becomes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setpriv: str, found: bool
) -> None:
    for name, script in (("setpriv", setpriv), ("stress-ng", ""), ("id", "echo 0")):
        shell_program(tmp_path, name, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    find = ["/bin/sh", "-c", running.PROGRAMS["stress-ng"].in_guest]
    assert subprocess.run(find, capture_output=True, text=True, check=True).stdout == f"{tmp_path}/stress-ng\n" * found

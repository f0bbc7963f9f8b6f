"""What can go wrong with `make up`: one clear line saying what to do, and nothing half-started stays behind."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stack.conftest import CACHE, ROOT, Checkout, eventually
from tests.support import Exposition
from tools import StackError, python_packages

UP_WITHOUT_LOOKING = """
from tools import sockets, stack
sockets.require_free = lambda *_: None
raise SystemExit(stack.main())
"""
NO_NETWORK = "127.0.0.1:1"  # nothing listens on port 1


def assert_refused(up: subprocess.CompletedProcess[str], checkout: Checkout, *words: str) -> None:
    """`up` has failed with one line of error that holds these words, and nothing runs."""
    assert up.returncode != 0, up.stdout
    [error] = [line for line in up.stdout.splitlines() if line.startswith("error: ")]
    for word in words:
        assert word in error
    assert "Traceback" not in up.stdout
    assert checkout.processes() == {}


def test_taken_port_is_named_with_its_process_and_the_way_around(stopped: Checkout) -> None:
    port = stopped.ports["ALERTMANAGER_PORT"]
    with socket.create_server(("127.0.0.1", port)):
        up = stopped.make("up")
    assert_refused(up, stopped, f"port {port}", f"(pid {os.getpid()})", "make up ALERTMANAGER_PORT=")


def test_port_that_is_none_is_refused(stopped: Checkout) -> None:
    assert_refused(stopped.make("up", "PROMETHEUS_PORT=http"), stopped, "PROMETHEUS_PORT=http is not a port")
    same = str(stopped.ports["ALERTMANAGER_PORT"])
    assert_refused(stopped.make("up", f"PROMETHEUS_PORT={same}"), stopped, "prometheus and alertmanager", same)


def test_address_that_is_none_is_refused(stopped: Checkout) -> None:
    up = stopped.make("up", "PROMETHEUS_EXTERNAL_URL=monitor.example.org")
    assert_refused(up, stopped, "PROMETHEUS_EXTERNAL_URL=monitor.example.org is not an address such as https://")


def test_missing_apt_is_named(fresh: Checkout, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "make", "dpkg", "setpriv"):
        (programs / name).symlink_to(shutil.which(name) or pytest.skip(f"{name} is missing: apt-get install {name}"))
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    assert_refused(fresh.make("up", PATH=str(programs)), fresh, "has no apt-get")


def test_no_network_for_debian_packages(fresh: Checkout, tmp_path: Path) -> None:
    apt_conf = tmp_path / "apt.conf"
    apt_conf.write_text(f'Acquire::http::Proxy "http://{NO_NETWORK}"; Acquire::https::Proxy "http://{NO_NETWORK}";')
    up = fresh.make("up", APT_CONFIG=str(apt_conf), VIRTSCOPE_CACHE=str(tmp_path / "cache"))
    assert_refused(up, fresh, "cannot read the package lists", "check the network")


def test_no_network_for_python_packages(fresh: Checkout, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    for name in ("packages", "releases"):  # programs are there, wheels are not
        (tmp_path / "cache" / name).symlink_to(CACHE / name)
    up = fresh.make(
        "up",
        VIRTSCOPE_CACHE=str(tmp_path / "cache"),
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL=f"http://{NO_NETWORK}/simple",
        PIP_FIND_LINKS="",
    )
    assert_refused(up, fresh, "cannot download the Python packages", "check the network")


def test_too_old_python_is_reported_at_once(fresh: Checkout) -> None:
    old = fresh.python("-c", "import sys; sys.hexversion = 0x03090000; import tools")
    assert old.returncode != 0
    assert re.fullmatch(r"error: Python \S+ is too old, the stack needs 3\.11 or newer .*\n", old.stdout)


def test_debian_python_without_venv_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(StackError, match="apt-get install python3-venv"):
        python_packages.Environment(python_packages.STACK.requirements, tmp_path / "absent").require_venv()


def test_too_long_path_is_reported(tmp_path: Path) -> None:
    deep = Checkout(tmp_path / ("d" * 100))
    assert_refused(deep.make("up"), deep, "path of this checkout is too long")


def test_broken_configuration_is_named_before_anything_starts(stopped: Checkout) -> None:
    file = stopped.folder / "alerts" / "alertmanager.yml"
    before = file.read_text()
    file.write_text("rout: {}\n")
    try:
        assert_refused(stopped.make("up"), stopped, "alerts/alertmanager.yml is not valid", "rout")
    finally:
        file.write_text(before)


def test_a_checkout_that_only_root_can_read_is_reported(stopped: Checkout) -> None:
    """Root's Prometheus is nobody. A umask of 077 makes such checkouts."""
    if os.geteuid() != 0:
        pytest.skip("only root's stack has another user: run this as root")
    file = stopped.folder / "prometheus" / "prometheus.yml"
    file.chmod(0o600)
    try:
        up = stopped.make("up")
        assert_refused(up, stopped, "user nobody", "can't read prometheus/prometheus.yml", "chmod -R go+rX")
    finally:
        file.chmod(0o644)


def test_program_that_ends_at_once_is_shown_with_its_log(stopped: Checkout) -> None:
    data = stopped.folder / ".stack" / "data" / "prometheus"
    aside = data.with_name("aside")
    if data.exists():
        data.rename(aside)
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text("a file where Prometheus wants a folder\n")
    try:
        up = stopped.make("up")
        assert_refused(up, stopped, "prometheus ended right after its start")
        assert "The last lines of .stack/log/prometheus.log:" in up.stdout
        assert "not a directory" in up.stdout
    finally:
        data.unlink()
        if aside.exists():
            aside.rename(data)


def test_damaged_data_is_named_with_what_to_do(stopped: Checkout) -> None:
    up = stopped.make("up")
    assert up.returncode == 0, up.stdout
    assert stopped.make("down").returncode == 0
    damaged = stopped.folder / ".stack" / "data" / "prometheus" / "chunks_head" / "000001"
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(b"damaged" * 10)
    up = stopped.make("up")
    assert_refused(up, stopped, "prometheus ended right after its start")
    [named] = re.findall("move (.*) elsewhere, then: make up", up.stdout)
    assert stopped.folder / named == damaged
    damaged.unlink()
    assert stopped.make("up").returncode == 0


def test_port_taken_after_the_look_at_it(stopped: Checkout) -> None:
    """Another's healthy answer on a port must not pass for the stack's own."""
    with Exposition() as other:
        up = stopped.python("-c", UP_WITHOUT_LOOKING, "up", ALERTMANAGER_PORT=other.address.partition(":")[2])
    assert_refused(up, stopped, "alertmanager ended right after its start")
    assert "address already in use" in up.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_up_takes_back_what_it_started(stopped: Checkout, number: signal.Signals) -> None:
    with stopped.making("up") as up:
        assert eventually(lambda: any("supervisord" in command for command in stopped.processes().values()), 60)
        os.killpg(up.pid, number)
        os.killpg(up.pid, number)  # make passes a SIGTERM on to us, and people press Ctrl-C twice
        output, _ = up.communicate(timeout=60)
    assert up.returncode != 0
    assert "Interrupted." in output
    assert eventually(lambda: stopped.processes() == {})


def test_killed_up_leaves_no_temporary_files_outside_the_checkout(fresh: Checkout, tmp_path: Path) -> None:
    outside = tmp_path / "tmp"
    outside.mkdir()
    with fresh.making("up", TMPDIR=str(outside)) as up:
        scratch = fresh.folder / python_packages.STACK.scratch.relative_to(ROOT)

        def pip_unpacks_itself() -> bool:
            with suppress(FileNotFoundError):  # a folder that has just gone
                return any(scratch.glob("tmp*/pip-*.whl"))
            return False

        assert eventually(pip_unpacks_itself, 60)
        os.killpg(up.pid, signal.SIGKILL)
    assert list(outside.iterdir()) == []
    up_again = fresh.make("up", TMPDIR=str(outside))
    assert up_again.returncode == 0, up_again.stdout
    assert fresh.make("down").returncode == 0


def test_one_up_at_a_time(stopped: Checkout) -> None:
    with stopped.making("up") as first:
        assert eventually(lambda: any("supervisord" in command for command in stopped.processes().values()), 60)
        os.killpg(first.pid, signal.SIGSTOP)  # it keeps its lock, however slow the second is
        try:
            second = stopped.make("up")
        finally:
            os.killpg(first.pid, signal.SIGCONT)
        output, _ = first.communicate(timeout=120)
    assert first.returncode == 0, output
    assert second.returncode != 0
    assert "another `make up` or `make down` is running" in second.stdout

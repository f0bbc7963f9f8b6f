"""Failures of `make up`: each prints one line with a remedy, and leaves nothing half-started."""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from deploy import StackError, python_packages
from tests.stack.conftest import CACHE, Checkout, assert_refused, edited
from tests.support import Exposition
from tests.support.mounts import tmpfs
from tests.support.needs import need_root
from tests.support.waiting import wait_for

pytestmark = pytest.mark.system

UP_WITHOUT_LOOKING = """
from deploy import sockets, stack
sockets.require_free = lambda *_: None
raise SystemExit(stack.main())
"""
NO_NETWORK = "127.0.0.1:1"  # unreachable: nothing listens on port 1


def test_taken_port_is_named_with_its_process_and_the_way_around(stopped: Checkout) -> None:
    port = stopped.ports["ALERTMANAGER_PORT"]
    with socket.create_server(("127.0.0.1", port)):
        up = stopped.make("up")
    assert_refused(up, stopped, f"port {port}", f"(pid {os.getpid()})", "make up ALERTMANAGER_PORT=")


def test_no_network(fresh: Checkout, tmp_path: Path) -> None:
    for name in ("packages", "releases"):  # programs are cached, wheels are not
        (tmp_path / name).symlink_to(CACHE / name)
    no_index = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"http://{NO_NETWORK}/simple", "PIP_FIND_LINKS": ""}
    up = fresh.make("up", VIRTSCOPE_CACHE=str(tmp_path), **no_index)
    assert_refused(up, fresh, "cannot download the Python packages", "check the network")


def test_python_that_is_too_old_or_without_venv_is_reported(
    fresh: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fresh.python("-c", "import sys; sys.hexversion = 0x03090000; import deploy")
    assert old.returncode != 0
    assert re.fullmatch(r"error: Python \S+ is too old, the stack needs 3\.11 or newer .*\n", old.stdout)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(StackError, match="apt-get install python3-venv"):
        python_packages.Environment(python_packages.STACK.requirements, tmp_path / "absent").require_venv()


def test_too_long_path_is_reported(tmp_path: Path) -> None:
    deep = Checkout(tmp_path / ("d" * 100))
    assert_refused(deep.make("up"), deep, "path of this checkout is too long")


def test_broken_configuration_is_named_before_anything_starts(stopped: Checkout) -> None:
    with edited(stopped.folder / "alerts" / "alertmanager.yml", "rout: {}\n"):
        assert_refused(stopped.make("up"), stopped, "alerts/alertmanager.yml is not valid", "rout")
    local = stopped.folder / "local" / "prometheus.yml"
    local.parent.mkdir(exist_ok=True)
    for text, said in {
        "scrape_configs: {}": "scrape_configs: {} is not a list",
        "globl: {}": "errors: field globl",
    }.items():
        local.write_text(text)
        assert_refused(stopped.make("up"), stopped, "local/prometheus.yml", said)
    local.unlink()


def test_a_checkout_that_only_root_can_read_is_reported(stopped: Checkout) -> None:
    """Root's Prometheus runs as nobody. A umask of 077 creates such checkouts."""
    need_root("has another user for its stack")
    file = stopped.folder / "prometheus" / "rules" / "base.yml"
    file.chmod(0o600)
    try:
        up = stopped.make("up")
        assert_refused(up, stopped, "user nobody", "can't read prometheus/prometheus.yml", "chmod -R go+rX")
    finally:
        file.chmod(0o644)


def test_damaged_data_is_named_with_what_to_do_and_the_end_of_the_log(stopped: Checkout) -> None:
    stopped.must("up")
    stopped.must("down")
    damaged = stopped.folder / ".stack" / "data" / "prometheus" / "chunks_head" / "000001"
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(b"damaged" * 10)
    up = stopped.make("up")
    assert_refused(up, stopped, "prometheus ended right after its start")
    [log, named] = re.findall("The last lines of (.*):|move (.*) elsewhere, then: make up", up.stdout)
    assert (log[0], stopped.folder / named[1]) == (".stack/log/prometheus.log", damaged)
    damaged.unlink()
    stopped.must("up")


def test_port_taken_after_the_look_at_it(stopped: Checkout) -> None:
    """Another program's healthy answer on a port must not be taken for the stack's."""
    with Exposition() as other:
        up = stopped.python("-c", UP_WITHOUT_LOOKING, "up", ALERTMANAGER_PORT=other.address.partition(":")[2])
    assert_refused(up, stopped, "alertmanager ended right after its start")
    assert "address already in use" in up.stdout


def test_a_disk_that_gets_full_is_seen_by_status(fresh: Checkout) -> None:
    with tmpfs(fresh.folder / ".stack" / "data" / "prometheus", "size=600m") as data:

        def resize(size: int) -> None:
            subprocess.run(["mount", "-o", f"remount,size={size}", data], check=True)

        fresh.must("up")
        fresh.status()
        resize(shutil.disk_usage(data).used)
        status = wait_for(lambda: fresh.make("status"), until=lambda made: made.returncode != 0).stdout
        assert "Prometheus has stored no sample of the past" in status
        assert "the disk of .stack/data/prometheus is full (0 MB free)" in status
        assert re.search(r"^prometheus +running ", status, re.MULTILINE)  # everything else seems healthy
        assert "But Prometheus has stored no sample" in fresh.make("up").stdout

        resize(600 * 2**20)
        fresh.status()
        fresh.must("down")


def test_the_data_s_own_disk_is_looked_at_before_a_start(fresh: Checkout, tmp_path: Path) -> None:
    data = fresh.folder / ".stack" / "data" / "prometheus"
    data.parent.mkdir(parents=True)
    with tmpfs(tmp_path / "disk", "size=10m") as disk:
        data.symlink_to(disk)
        assert_refused(fresh.make("up"), fresh, "only 10 MB are free where .stack/data/prometheus", str(disk))

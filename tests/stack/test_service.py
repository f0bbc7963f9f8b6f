"""`make service` under a live systemd, on a copy-on-write view of this machine."""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributions.booted import BootedMachine
from tests.distributions.chroots import MissingError
from tests.stack.conftest import CACHE, Checkout
from tests.support.needs import missing
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture
def checkout_at_rest() -> Iterator[Checkout]:
    """A checkout with all its programs and nothing running; not in /tmp, which a booted machine mounts over."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        checkout = Checkout(Path(folder, "100% mine; it's"))
        checkout.must("up")
        checkout.must("down")
        yield checkout
        checkout.kill_all()


@pytest.fixture
def machine() -> Iterator[BootedMachine]:
    """This machine with copy-on-write changes; of its services, only basic.target is started."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/var/tmp") as folder:
        upper, work, root = (Path(folder, name) for name in ("upper", "work", "root"))
        for made in (upper, work, root):
            made.mkdir()
        options = f"lowerdir=/,upperdir={upper},workdir={work}"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", str(root)]
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"no overlay of this machine's files: {mounted.stderr.strip()}")
        try:
            target = root / "etc/systemd/system/default.target"
            target.unlink(missing_ok=True)
            target.symlink_to("/lib/systemd/system/basic.target")
            with BootedMachine(root) as booted:
                yield booted
        except MissingError as error:
            missing(str(error))
        finally:
            subprocess.run(["umount", "--lazy", str(root)], check=True)


def test_the_stack_starts_at_boot_comes_back_when_killed_and_goes(
    checkout_at_rest: Checkout, machine: BootedMachine
) -> None:
    folder, ports = checkout_at_rest.folder, checkout_at_rest.ports

    def run(command: str) -> str:
        variables = {"VIRTSCOPE_CACHE": str(CACHE), **{name: str(port) for name, port in ports.items()}}
        done = machine.run(["sh", "-c", command], folder, variables, user=0)
        return done.stdout.strip()

    python, unit = shlex.quote(sys.executable), "virtscope.service"
    url = f"http://127.0.0.1:{ports['PROMETHEUS_PORT']}/-/ready"
    answers = f"{python} -c 'from urllib.request import urlopen; print(urlopen(\"{url}\").read().decode())'"
    said = run(f"make service PYTHON={python}")
    assert said.endswith(f"Started, now and at each boot: /etc/systemd/system/{unit}"), said
    assert run(f"systemctl is-active {unit}; systemctl is-enabled {unit}") == "active\nenabled"
    assert run(answers) == "Prometheus Server is Ready."  # on the port that was passed

    run(f"systemctl kill --signal KILL {unit}")
    wait_for(lambda: run(f"systemctl show --property NRestarts --value {unit}"), until=lambda number: number == "1")
    wait_for(lambda: run(f"systemctl is-active {unit}"), until=lambda state: state == "active")
    assert run(answers) == "Prometheus Server is Ready."

    run(f"systemctl stop {unit}")
    assert run(f"systemctl is-active {unit}") == "inactive"
    assert run(f"systemctl start {unit} && {answers}") == "Prometheus Server is Ready."

    assert "The data is kept in .stack/data." in run(f"make service-remove PYTHON={python}")
    assert run(f"systemctl is-active {unit}; find /etc/systemd/system -name {unit}") == "inactive"
    assert [line for line in machine.processes() if "prometheus" in line] == []

"""The machines `make up` may find itself on: Dom0, a Xen guest, an ordinary user's, one with an odd name."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
import requests
import yaml

from tests.stack.conftest import CACHE, Checkout
from tools import targets
from tools.parts import DOCKER_PARTS, ports
from tools.targets import Machine

# `make up` on a machine that says to be Dom0 and has Grafana installed, given by a user.
UP_ON_DOM0 = """
import os
from pathlib import Path
from tools import grafana, stack, targets
targets.this_machine = lambda: targets.Machine("dom0", "xen", "a test says so")
grafana.home = lambda: Path({grafana!r})
os.geteuid = lambda: {user}
raise SystemExit(stack.main())
"""
# Answers every request with the settings it was started with.
GRAFANA = """#!/usr/bin/env python3
import http.server, json, os, sys
assert sys.argv[1] == "server", sys.argv
settings = {name: value for name, value in os.environ.items() if name.startswith("GF_")}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(settings).encode())
address = settings["GF_SERVER_HTTP_ADDR"], int(settings["GF_SERVER_HTTP_PORT"])
http.server.HTTPServer(address, Handler).serve_forever()
"""


@pytest.mark.parametrize(
    ("hypervisor", "capabilities", "platform", "why"),
    [
        (None, None, "base", "hypervisor/type is absent"),
        ("kvm\n", None, "base", "says kvm"),
        ("xen\n", None, "base", "capabilities is absent"),
        ("xen\n", "", "base", "a Xen guest, not Dom0"),
        ("xen\n", "control_d\n", "xen", "Dom0 of a Xen host"),
    ],
)
def test_platform(tmp_path: Path, hypervisor: str | None, capabilities: str | None, platform: str, why: str) -> None:
    for file, content in (("hypervisor/type", hypervisor), ("xen/capabilities", capabilities)):
        if content is not None:
            (tmp_path / file).parent.mkdir(parents=True)
            (tmp_path / file).write_text(content)
    machine = targets.this_machine(sysfs=tmp_path, procfs=tmp_path)
    assert machine.platform == platform
    assert why in machine.why


@pytest.mark.parametrize("host", ["vm", 'a "quoted" name', "back\\slash", "größe", "a: b # c", "😀", "-", "null"])
def test_host_label_is_the_machine_s_name_whatever_it_holds(tmp_path: Path, host: str) -> None:
    targets.write(Machine(host, "xen", ""), ports({}), tmp_path)
    for job in ("prometheus", "alertmanager", "node", "xentop"):
        [group] = yaml.safe_load((tmp_path / f"{job}.yml").read_text())
        assert group["labels"] == {"host": host, "platform": "xen"}


def test_without_xen_there_is_no_xentop_target(tmp_path: Path) -> None:
    targets.write(Machine("vm", "base", ""), ports({}), tmp_path)
    assert yaml.safe_load((tmp_path / "xentop.yml").read_text()) == []


def test_what_runs_only_in_docker_is_scraped_only_there(tmp_path: Path) -> None:
    machine = Machine("vm", "base", "")
    targets.write(machine, ports({}, DOCKER_PARTS), tmp_path)
    for job, address in (("cadvisor", "127.0.0.1:10293"), ("telegraf", "127.0.0.1:9273")):
        [group] = yaml.safe_load((tmp_path / f"{job}.yml").read_text())
        assert group["targets"] == [address]
    targets.write(machine, ports({}), tmp_path)  # `make up` after `make compose-down`
    for job in ("cadvisor", "telegraf"):
        assert yaml.safe_load((tmp_path / f"{job}.yml").read_text()) == []


def test_dom0_is_watched_by_xentop_exporter_and_grafana_is_used(stopped: Checkout, tmp_path: Path) -> None:
    program = tmp_path / "gra fana" / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text(GRAFANA)
    program.chmod(0o755)
    up = stopped.python("-c", UP_ON_DOM0.format(user=0, grafana=str(program.parents[1])), "up")
    assert up.returncode == 0, up.stdout

    assert "Watching this machine, dom0, as platform xen" in up.stdout
    assert stopped.url("XENTOP_PORT") in up.stdout
    assert stopped.query('up{job="xentop", host="dom0", platform="xen"} == 1') != []
    # There is no Xen here, and that is what the exporter found.
    assert "xentop-exporter gets nothing from Xen" in up.stdout

    assert stopped.url("GRAFANA_PORT") in up.stdout
    settings = requests.get(stopped.url("GRAFANA_PORT"), timeout=10).json()
    for name in ("GF_PATHS_PROVISIONING", "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"):
        assert Path(settings[name]).exists()
    # Without it Grafana would take admin's password to be "admin".
    password = Path(settings["GF_SECURITY_ADMIN_PASSWORD"].removeprefix("$__file{").removesuffix("}"))
    assert len(password.read_text()) > 20
    assert stat.S_IMODE(password.parent.stat().st_mode) == 0o700


def test_dom0_needs_root(stopped: Checkout) -> None:
    up = stopped.python("-c", UP_ON_DOM0.format(user=1000, grafana="/nowhere"), "up")
    assert up.returncode == 1
    assert "only root may ask Xen" in up.stdout
    assert stopped.processes() == {}


def test_ordinary_user_can_start_it() -> None:
    """Run by root, these tests try it as nobody; otherwise all the others are the proof."""
    if os.geteuid() != 0:
        return
    nobody = pwd.getpwnam("nobody").pw_uid
    python = _python_of_everybody(nobody)
    with tempfile.TemporaryDirectory(prefix="s") as folder:  # pytest's own folders are closed to other users
        checkout = Checkout(Path(folder, "checkout"), user=nobody)
        shutil.copytree(CACHE, Path(folder, "cache"), ignore=shutil.ignore_patterns("xen"))
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, nobody, nobody, follow_symlinks=False)
        settings = {"PYTHON": python, "VIRTSCOPE_CACHE": f"{folder}/cache", "HOME": "/nonexistent"}
        try:
            up = checkout.make("up", **settings)
            assert up.returncode == 0, up.stdout
            assert checkout.make("status", **settings).returncode == 0
            assert checkout.make("down", **settings).returncode == 0
            assert checkout.processes() == {}
        finally:
            checkout.kill_all()


def _python_of_everybody(user: int) -> str:
    usable = "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"
    for python in (shutil.which("python3"), "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if subprocess.run([str(python), "-c", usable], user=user, check=False, capture_output=True).returncode == 0:
                return str(python)
    pytest.skip("no Python 3.11 with venv that other users may run: apt-get install python3-venv")

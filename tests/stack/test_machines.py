"""Machines that `make up` may run on: Dom0, a Xen guest, an OpenVZ host, one with an odd name, another user's."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
import requests
import yaml

from tests.stack.conftest import CACHE, Checkout, eventually
from tests.support.privileges import UNITS, capabilities, python_of_everybody
from tools import targets
from tools.exporters import PLATFORM_OF
from tools.parts import DOCKER_PARTS, EXPORTERS, PARTS, Part, ports
from tools.targets import Machine

# `make up` on a machine that says to be of a platform and has Grafana installed, given by a user.
UP_ON = """
import os
from pathlib import Path
from tools import grafana, stack, targets
targets.this_machine = lambda: targets.Machine({host!r}, {platform!r}, "a test says so")
grafana.home = lambda: Path({grafana!r}) if {grafana!r} else None
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
        (None, None, "base", "no Xen, no KVM guests and no OpenVZ found"),
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
    machine = targets.this_machine(sysfs=tmp_path, procfs=tmp_path, root=tmp_path)
    assert machine.platform == platform
    assert why in machine.why


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("etc/pve/qemu-server/100.conf", "Proxmox manages guests"),
        ("run/libvirt/qemu/driver.pid", "libvirt manages guests"),
        ("proc/390/task/394/comm", "proc/390 runs a guest's CPU"),
    ],
)
def test_a_kvm_host_is_known_by_its_guests(tmp_path: Path, found: str, why: str) -> None:
    """The module alone is loaded on most machines."""
    (tmp_path / "sys/module/kvm").mkdir(parents=True)
    folders = {"sysfs": tmp_path / "sys", "procfs": tmp_path / "proc", "root": tmp_path}
    assert targets.this_machine(**folders).platform == "base"
    (tmp_path / found).parent.mkdir(parents=True)
    (tmp_path / found).write_text("CPU 0/KVM\n")
    machine = targets.this_machine(**folders)
    assert (machine.platform, why in machine.why) == ("kvm", True)


def test_processes_may_end_while_guests_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys/module/kvm").mkdir(parents=True)
    for pid in ("16", "390"):
        (tmp_path / f"proc/{pid}/task/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/task/{pid}/comm").write_text("bash\n")
    scandir = os.scandir

    def with_one_gone(path: str) -> object:
        if str(path).endswith("16/task"):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", with_one_gone)
    assert targets.this_machine(tmp_path / "sys", tmp_path / "proc", tmp_path).platform == "base"


def test_platform_openvz(tmp_path: Path) -> None:
    host = Path(__file__).resolve().parents[1] / "fixtures/openvz/virtuozzo7-uuids/proc"
    assert targets.this_machine(sysfs=tmp_path, procfs=host).platform == "openvz"


def test_an_openvz_container_is_not_its_host(tmp_path: Path) -> None:
    """It has /proc/vz as well, and in it itself alone."""
    (tmp_path / "vz").mkdir()
    (tmp_path / "vz" / "vestat").touch()
    container = targets.this_machine(sysfs=tmp_path, procfs=tmp_path)
    assert container.platform == "base"
    assert "an OpenVZ container, not the host" in container.why


@pytest.mark.parametrize("host", ["vm", 'a "quoted" name', "back\\slash", "größe", "a: b # c", "😀", "-", "null"])
def test_host_label_is_the_machine_s_name_whatever_it_holds(tmp_path: Path, host: str) -> None:
    targets.write(Machine(host, "xen", ""), ports({}), tmp_path)
    for job in ("prometheus", "alertmanager", "node", "xentop"):
        [group] = yaml.safe_load((tmp_path / f"{job}.yml").read_text())
        assert group["labels"] == {"host": host, "platform": "xen"}


@pytest.mark.parametrize(("job", "platform"), [*PLATFORM_OF.items(), (None, "base")])
def test_each_platform_has_its_own_exporter_as_a_target(tmp_path: Path, platform: str, job: str | None) -> None:
    targets.write(Machine("vm", platform, ""), ports({}), tmp_path)
    written = {name: yaml.safe_load((tmp_path / f"{name}.yml").read_text()) for name in (*PLATFORM_OF, "node")}
    # What the host uses beside its guests is computed from both: so they must agree on its name.
    labels = {"host": "vm", "platform": platform}
    assert {name for name, groups in written.items() if [group["labels"] for group in groups] == [labels]} == (
        {"node", job} if job else {"node"}
    )
    assert all(groups == [] for name, groups in written.items() if name not in {"node", job})
    for name, port in (("perf", 10292), ("sched", 10298)):  # whatever runs on it has a processor, and waits for it
        [group] = yaml.safe_load((tmp_path / f"{name}.yml").read_text())
        assert group == {"targets": [f"127.0.0.1:{port}"], "labels": labels}


def test_what_runs_only_in_docker_is_scraped_only_there(tmp_path: Path) -> None:
    machine = Machine("vm", "base", "")
    targets.write(machine, ports({}, DOCKER_PARTS), tmp_path)
    for job, address in (("cadvisor", "127.0.0.1:10293"), ("telegraf", "127.0.0.1:9273")):
        [group] = yaml.safe_load((tmp_path / f"{job}.yml").read_text())
        # Containers are virtual servers, and what isn't virtualised else runs its applications in them.
        assert group == {"targets": [address], "labels": {"host": "vm", "platform": "cgroup"}}
    targets.write(machine, {}, tmp_path)  # `make up` after `make compose-down`
    for job in ("cadvisor", "telegraf"):
        assert yaml.safe_load((tmp_path / f"{job}.yml").read_text()) == []


def test_dom0_is_watched_by_xentop_exporter_and_grafana_is_used(stopped: Checkout, tmp_path: Path) -> None:
    program = tmp_path / "gra fana" / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    program.write_text(GRAFANA)
    program.chmod(0o755)
    up = stopped.python("-c", UP_ON.format(host="dom0", platform="xen", user=0, grafana=str(program.parents[1])), "up")
    assert up.returncode == 0, up.stdout

    assert "Watching this machine, dom0, as platform xen" in up.stdout
    assert stopped.url("XENTOP_PORT") in up.stdout
    assert eventually(lambda: stopped.query('up{job="xentop", host="dom0", platform="xen"} == 1') != [])
    # There is no Xen here, and that is what the exporter found.
    assert "xentop-exporter doesn't get data from all its sources" in up.stdout

    assert stopped.url("GRAFANA_PORT") in up.stdout
    settings = requests.get(stopped.url("GRAFANA_PORT"), timeout=10).json()
    for name in ("GF_PATHS_PROVISIONING", "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"):
        assert Path(settings[name]).exists()
    # Without it Grafana would take admin's password to be "admin".
    password = Path(settings["GF_SECURITY_ADMIN_PASSWORD"].removeprefix("$__file{").removesuffix("}"))
    assert len(password.read_text()) > 20
    assert stat.S_IMODE(password.parent.stat().st_mode) == 0o700


def test_an_openvz_host_is_watched_by_vestat_exporter(stopped: Checkout) -> None:
    up = stopped.python("-c", UP_ON.format(host="vz1", platform="openvz", user=0, grafana=""), "up")
    assert up.returncode == 0, up.stdout
    assert stopped.url("VESTAT_PORT") in up.stdout
    answering = 'up{host="vz1", platform="openvz"} == 1'
    assert eventually(lambda: {"vestat", "node"} <= {series["metric"]["job"] for series in stopped.query(answering)})
    # There is no OpenVZ here, and that is what the exporter found.
    assert "vestat-exporter doesn't get data from all its sources" in up.stdout
    # Back to the machine as it is.
    again = stopped.make("up")
    assert again.returncode == 0, again.stdout
    assert not any("virtscope.openvz" in command for command in stopped.processes().values())


@pytest.mark.parametrize(
    ("exporter", "platform"),
    [(part.name.removesuffix("-exporter"), part.platform) for part in EXPORTERS if part.platform and part.capabilities],
)
def test_a_hypervisor_s_host_needs_root(stopped: Checkout, exporter: str, platform: str) -> None:
    up = stopped.python("-c", UP_ON.format(host="h", platform=platform, user=1000, grafana=""), "up")
    assert up.returncode == 1
    assert f"only root may start {exporter}-exporter" in up.stdout
    assert stopped.processes() == {}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_an_exporter_has_the_capabilities_of_its_unit(part: Part) -> None:
    unit = UNITS / f"{part.name}.service"
    assert set(part.capabilities) == (capabilities(part.name) if unit.exists() else set())


def test_ordinary_user_can_start_it() -> None:
    """Run by root, these tests try it as nobody; otherwise all the others are the proof."""
    if os.geteuid() != 0:
        return
    nobody = pwd.getpwnam("nobody").pw_uid
    usable = "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"
    python = python_of_everybody(nobody, usable)
    with tempfile.TemporaryDirectory(prefix="s") as folder:  # pytest's own folders are closed to other users
        checkout = Checkout(Path(folder, "checkout"), user=nobody)
        for kind in ("packages", "wheels"):
            shutil.copytree(CACHE / kind, Path(folder, "cache", kind))
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, nobody, nobody, follow_symlinks=False)
        settings = {"PYTHON": python, "VIRTSCOPE_CACHE": f"{folder}/cache", "HOME": "/nonexistent"}
        try:
            up = checkout.make("up", **settings)
            assert up.returncode == 0, up.stdout
            if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 0:
                assert "perf-exporter counts nothing" in up.stdout
            assert eventually(lambda: checkout.make("status", **settings).returncode == 0)
            status = checkout.make("status", **settings)
            for said in (up.stdout, status.stdout):
                assert re.search("sched-exporter can't say who runs while others wait: .*CAP_BPF", said)
            assert checkout.make("down", **settings).returncode == 0
            assert checkout.processes() == {}
        finally:
            checkout.kill_all()

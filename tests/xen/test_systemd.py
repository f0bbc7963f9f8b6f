"""The exporters' units under a real systemd in Dom0, installed from the Debian packages and scraped from outside.

Dom0 itself has no systemd. Here systemd runs in separate namespaces, as the init of a Debian with Dom0's devices,
xenstored and network.
"""

import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import requests

from deploy.exporters import PROGRAMS
from tests.distributions import chroots
from tests.distributions.chroots import DEBIAN_12
from tests.distributions.machine import Machine
from tests.packages.conftest import CleanHost, Packages, packages
from tests.support.privileges import MAX_EXPOSURE, UNITS, capabilities, directives, exposure
from tests.support.waiting import wait_for
from tests.xen.exporters import Page
from tests.xen.host import SECOND_EXPORTER_PORT, XenHost
from tests.xen.test_over_ssh import sshd

__all__ = ["packages", "sshd"]  # fixtures

EXPORTERS = [f"{exporter}-exporter" for exporter in PROGRAMS]
NEEDED = "curl libbpf1 openssh-client systemd xen-utils-4.17 python3-bcrypt python3-prometheus-client python3-yaml"
LEFT_OUT = ["usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/zoneinfo", "usr/lib/xen-4.17/boot"]
LEFT_OUT += ["var/cache/apt", "var/lib/apt", "usr/share/python-wheels", "usr/lib/gcc", "usr/share/perl"]
TIMEOUT = "X-Prometheus-Scrape-Timeout-Seconds: 50"
START_SECONDS = 300  # for systemd and for an exporter, in emulation
STOP_SECONDS = 120
# In Dom0: unpack the archive served by this machine, and make it the root of a systemd.
START = """\
set -e
mkdir /debian
mount -t tmpfs -o mode=755,size=450m tmpfs /debian
wget -q -O - http://10.0.2.2:PORT/debian.tar | tar -x -C /debian
cat >/debian-init <<'END'
set -e
cd /debian
mount -t proc proc proc
mount -t xenfs xenfs proc/xen
mount --rbind /sys sys
if grep -q ' /debian/sys/fs/cgroup ' /proc/mounts; then umount sys/fs/cgroup; fi  # Dom0's own, of another test
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mkdir run/xenstored
mount --bind /run/xenstored run/xenstored
mount --move . /
exec chroot . env container=other /lib/systemd/systemd --unit=multi-user.target
END
setsid unshare --mount --pid --cgroup --fork --propagation=private sh /debian-init </dev/null >/var/log/debian 2>&1 &
"""
# Actions that a unit must prevent, each a command that fails there. As root without a unit, all succeed.
FORBIDDEN = {
    "write to /usr": "touch /usr/x",
    "write to /etc": "touch /etc/x",
    "write to /var": "touch /var/lib/x",
    "see homes": "ls /root/seen",
    "mount": "mount -t tmpfs tmpfs /mnt",
    "make a namespace": "unshare --user true",
    "set the clock": "date -s @0",
    "set the host's name": "hostname -b x || echo x >/proc/sys/kernel/hostname",
    "write to sysctl": "echo 0 >/proc/sys/vm/swappiness",
    "read the kernel's log": "dd if=/dev/kmsg bs=8k count=1 iflag=nonblock",
    "open another device": "dd if=/dev/xen/gntdev count=0",
    "write a cgroup": "mkdir /sys/fs/cgroup/x",
    "open a raw socket": "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "make set-uid files": "touch /tmp/x && chmod u+s /tmp/x",
    "map writable code": "python3 -c 'import mmap; mmap.mmap(-1, 4096, prot=7)'",
}

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


class Debian:
    """The Debian in Dom0 with systemd as init."""

    def __init__(self, xen: XenHost) -> None:
        self.xen = xen
        self.init = ""

    def must(self, command: str, timeout: float = 120) -> str:
        self.xen.put("/command", f"{command}\n".encode())
        enter = f"nsenter --target {self.init} --mount --pid --cgroup --root --wd"
        return self.xen.dom0(f'{enter} sh -c "$(cat /command)" 2>&1', timeout)

    def start(self, port: int) -> None:
        """Start systemd; this machine serves the Debian on this port."""
        self.xen.dom0(START.replace("PORT", str(port)), 600)

        def runs() -> bool:
            self.init = self.xen.dom0("pidof systemd || true").strip()
            asked = "systemctl is-system-running --wait || true"
            return bool(self.init) and "running" in self.must(asked, START_SECONDS)

        wait_for(runs, START_SECONDS, every=1, explain=lambda: self.xen.dom0("cat /var/log/debian"))

    def stop(self) -> None:
        """End systemd and all its processes: Dom0 is as before."""
        self.xen.dom0(f"kill -KILL {self.init}; while [ -e /proc/{self.init} ]; do sleep 1; done", STOP_SECONDS)
        self.xen.dom0("umount /debian; rmdir /debian; rm /debian-init")


@pytest.fixture(scope="module")
def debian(xen: XenHost, packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    """A Debian 12 in Dom0, with a running systemd and the packages installed."""
    folder = tmp_path_factory.mktemp("debian")
    root = folder / "root"
    subprocess.run(["cp", "--archive", chroots.root(DEBIAN_12), root], check=True)
    with Machine(root, folder / "home", folder / "cache", writable=True) as machine:
        clean = CleanHost(machine, root)
        clean.apt("update")
        clean.apt(f"install --no-install-recommends {NEEDED}")
    for package in packages.now.values():
        shutil.copy(package, root / "srv")
    (root / "root/seen").touch()
    for script in (root / "etc/init.d").glob("xen*"):  # Dom0 runs their daemons
        script.unlink()
    served = folder / "served"
    served.mkdir()
    left_out = [f"--exclude=./{path}" for path in LEFT_OUT]
    subprocess.run(["tar", "-cf", served / "debian.tar", "-C", root, *left_out, "."], check=True)
    shutil.rmtree(root)

    handler = partial(http.server.SimpleHTTPRequestHandler, directory=served)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started = Debian(xen)
        started.start(server.server_address[1])
        server.shutdown()
    started.must("dpkg --install /srv/*.deb", 600)
    # The installation has started every exporter except xentop-exporter, on whose port Dom0's own listens.
    others = "vestat-exporter perf-exporter sched-exporter ssh-exporter"
    states = started.must(f"systemctl is-enabled {' '.join(EXPORTERS)}; systemctl is-active {others}")
    assert set(states.split()) == {"enabled", "active"}
    started.must(f"systemctl stop {' '.join(EXPORTERS)}", 300)
    # Above level 2, Debian's kernel requires CAP_SYS_ADMIN where others accept CAP_PERFMON.
    paranoid = xen.dom0("cat /proc/sys/kernel/perf_event_paranoid; echo 2 >/proc/sys/kernel/perf_event_paranoid")
    yield started
    started.stop()
    xen.dom0(f"echo {paranoid.strip()} >/proc/sys/kernel/perf_event_paranoid")
    shutil.rmtree(served)


def page_with(debian: Debian, exporter: str, line: str) -> str:
    """The first page with this line, from the exporter on the port that is forwarded."""
    return wait_for(
        lambda: requests.get(f"http://{debian.xen.second_exporter}/metrics", timeout=60).text,
        START_SECONDS,
        every=1,
        until=lambda page: line in page.splitlines(),
        explain=lambda: debian.must(f"journalctl --no-pager --unit {exporter}"),
    )


UP = {"xentop": 1, "perf": 1, "sched": 1, "vestat": 0, "ssh": 1}  # there is no OpenVZ


@pytest.mark.parametrize(
    ("exporter", "line"), [(f"{name}-exporter", f"{name}_up {up}.0") for name, up in UP.items()], ids=UP
)
def test_scraped_from_outside_with_every_line_of_its_unit_in_force(debian: Debian, exporter: str, line: str) -> None:
    more = " --xentrace.interval=10s" if exporter == "xentop-exporter" else ""
    flags = f'ARGS="--web.listen-address=:{SECOND_EXPORTER_PORT}{more}"'
    probes = "\n".join(
        f"if ({command}) >/dev/null 2>&1; then echo 'can {what}'; fi" for what, command in FORBIDDEN.items()
    )
    debian.must(f"echo '{flags}' >/etc/default/{exporter}; mkdir -p /etc/systemd/system/{exporter}.service.d")
    debian.must(f"cat >/srv/probe <<'END'\n{probes}\necho probed\nEND")
    debian.must(
        f"printf '[Service]\\nExecStartPre=/bin/sh /srv/probe\\n' >/etc/systemd/system/{exporter}.service.d/probe.conf"
    )
    debian.must(f"systemctl daemon-reload; systemctl restart {exporter}", 300)
    try:
        page = page_with(debian, exporter, line)
        if exporter == "xentop-exporter":
            xl = ("xentop_source_up", frozenset({("source", "xl")}))
            page_with(debian, exporter, 'xentop_source_up{source="xl"} 1.0')
            page_with(debian, exporter, 'xentop_source_up{source="xentrace"} 1.0')
            of_root = Page.of(debian.xen.exporter).series()
            assert of_root[xl] == 1
            guests = {dict(labels)["domain"] for name, labels in of_root if name == "xen_domain_cpu_seconds_total"}
            assert guests
            assert all(f'xen_domain_cpu_seconds_total{{domain="{guest}"' in page for guest in guests if guest.isalnum())
        said = debian.must(f"journalctl --no-pager --output=cat --unit {exporter}")
        assert "probed" in said
        assert re.findall("can .*", said) == []
        assert "listening" in debian.must(f"systemctl status {exporter}")
        assert exposure(debian.must(f"systemd-analyze security --no-pager {exporter}.service", 300)) <= MAX_EXPOSURE
        assert not re.search("(?i)unknown|ignor", debian.must(f"systemd-analyze verify {exporter}.service || true"))

        process = debian.must(f"systemctl show --property=MainPID --value {exporter}").strip()
        status = dict(re.findall(r"^(\w+):\s*(.*)$", debian.must(f"cat /proc/{process}/status"), re.MULTILINE))
        assert status["Uid"].split()[0] != "0"
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        decoded = debian.must(f"python3 -c 'print(int(\"{status['CapBnd']}\", 16).bit_count())'")
        assert int(decoded) == len(capabilities(exporter))
        # Once the kernel has its program, sched-exporter needs no capability.
        assert status["CapEff"] == ("0" * 16 if exporter == "sched-exporter" else status["CapBnd"])
        limits = f"/sys/fs/cgroup/system.slice/{exporter}.service"
        given = directives(UNITS / f"{exporter}.service")
        memory = str(int(given["MemoryMax"][0].removesuffix("G")) * 2**30)
        assert debian.must(f"cat {limits}/memory.max {limits}/pids.max").split() == [memory, *given["TasksMax"]]
    finally:
        debian.must(
            f"rm -r /etc/systemd/system/{exporter}.service.d; systemctl daemon-reload; systemctl stop {exporter}"
        )


def test_ssh_exporter_reads_dom0_by_its_own_unit(debian: Debian, sshd: Path) -> None:
    """Through a ProxyCommand too, which the user's own shell would refuse to run."""
    home = "/var/lib/ssh-exporter/.ssh"
    for name, file in {"id_ed25519": "key", "known_hosts": "known_hosts"}.items():
        debian.must(f"cat >{home}/{name} <<'END'\n{(sshd / file).read_text()}END")
    forward = "import socket; s = socket.create_connection(('127.0.0.1', 22)); "
    forward += "socket.send_fds(socket.socket(fileno=1), [b'0'], [s.fileno()])"
    config = "Host *\n HostKeyAlias dom0\n HostName 127.0.0.1\n User root\nHost proxied\n ProxyUseFdpass yes\n"
    debian.must(f"cat >{home}/config <<'END'\n{config} ProxyCommand python3 -c \"{forward}\"\nEND")
    debian.must(f"chmod 600 {home}/id_ed25519; chown -R ssh-exporter {home}; chmod 700 {home}")
    debian.must(": >/etc/default/ssh-exporter; printf 'direct\\nproxied\\n' >>/etc/virtscope/hosts")
    debian.must("systemctl restart ssh-exporter", 300)
    try:
        for host in ("direct", "proxied"):
            ask = f"curl --silent --fail --retry 20 --retry-all-errors --retry-delay 3 --header '{TIMEOUT}'"
            page = debian.must(f"{ask} 'http://127.0.0.1:10295/probe?module=xen&target={host}'", 300)
            assert 'xentop_source_up{source="xentop"} 1.0\n' in page
            assert 'xen_domain_cpu_seconds_total{domain="Domain-0"' in page
    finally:
        debian.must("systemctl stop ssh-exporter; sed -i '/^[^#]/d' /etc/virtscope/hosts")


def test_what_is_forbidden_root_can_do(debian: Debian) -> None:
    """Otherwise the probes of the test above would prove nothing. Without probes that leave changes."""
    stay = {"set the clock", "set the host's name", "write to sysctl", "mount"}
    debian.must("\n".join(f"{command} || exit 1" for what, command in FORBIDDEN.items() if what not in stay))

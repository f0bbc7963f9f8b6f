"""A guest that the lab reaches over ssh and a veth pair: a network namespace of this machine with sshd."""

import contextlib
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deploy import programs
from lab.environments import Guest
from tests.lab.conftest import reachable
from tests.support.program import shell_program

HOST, GUEST = "198.51.100.1", "198.51.100.2"  # of TEST-NET-2 (RFC 5737)
LIBRARIES = f"usr/lib/{platform.machine()}-linux-gnu"


@contextlib.contextmanager
def guest(folder: Path) -> Iterator[Guest]:
    """The guest "reached" for ssh; it has iperf3 and nginx, whose packages are unpacked already."""
    name = f"vst{os.getpid()}"
    with contextlib.ExitStack() as ending:
        _ip(f"netns add {name}")
        ending.callback(_ip, f"netns delete {name}")
        for command in (
            f"link add {name} type veth peer name eth0 netns {name}",
            f"address add {HOST}/24 dev {name}",
            f"link set {name} up",
            f"-n {name} address add {GUEST}/24 dev eth0",
            f"-n {name} link set eth0 up",
        ):
            _ip(command)
        for packages, path in ((programs.BENCHMARKS, "usr/bin/iperf3"), (programs.WEB_SERVER, "usr/sbin/nginx")):
            root = programs.root(packages)
            script = f'LD_LIBRARY_PATH={root}/{LIBRARIES} exec {root}/{path} "$@"'
            shell_program(folder / "there", Path(path).name, script)
        within = ("ip", "netns", "exec", name)
        ending.enter_context(reachable(folder, "reached", programs=folder / "there", address=GUEST, within=within))
        yield Guest(name="reached", ssh="reached", platform="kvm", emulated=True)


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)

"""A Docker engine of the tests' own: Debian's dockerd, with data, sockets and mounts that no other engine sees."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from deploy.programs import cache
from tests.support.needs import need, need_root
from tests.support.waiting import wait_for

START_SECONDS = 60
STOP_SECONDS = 60  # for what still runs in it to end

# In name spaces of its own for mounts and processes, so that nothing of it is left once it has ended, however it ends.
# Its /run is empty, so compose.yaml's /var/run/docker.sock is this engine's; resolv.conf may be a link into it.
BEGIN = """
mount --make-rshared /
mkdir "$1/run" && mount --rbind /run "$1/run"
mount -t tmpfs tmpfs /run
if [ -d "$1/run/systemd/resolve" ]; then
  mkdir -p /run/systemd/resolve && mount --bind "$1/run/systemd/resolve" /run/systemd/resolve
fi
umount --recursive --lazy "$1/run"
shift
exec dockerd "$@"
"""


class Engine:
    """A running engine. `variables` are those by which docker, docker-compose and deploy/compose.py find it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"DOCKER_HOST": f"unix://{folder}/docker.sock"}

    def docker(self, *arguments: str, seconds: float = 60) -> str:
        """What `docker ARGUMENTS` prints; AssertionError with both outputs if it fails."""
        return self.run(["docker", *arguments], seconds=seconds)

    def run(
        self, command: list[str], variables: Mapping[str, str] | None = None, folder: Path | None = None,
        seconds: float = 60,
    ) -> str:  # fmt: skip
        """What a command that speaks to this engine prints; AssertionError with both outputs if it fails."""
        environment = {**os.environ, **self.variables, **(variables or {})}
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def has_image(self, name: str) -> bool:
        return self.docker("image", "ls", "--quiet", name) != ""

    def make_image(self, name: str, root: Path, *changes: str) -> None:
        """Make an image of the files below `root`; `changes` are lines of a Dockerfile, such as `USER nobody`."""
        options = [f"--change={change}" for change in changes]
        pipe = 'set -o pipefail; tar --directory "$0" --create . | docker import "$@"'
        self.run(["bash", "-c", pipe, str(root), *options, "-", name], seconds=300)

    def clear(self) -> None:
        """Remove all containers, networks and volumes: what a test, or an engine that was killed, has left."""
        containers = self.docker("container", "ls", "--all", "--quiet").split()
        if containers:
            self.docker("container", "rm", "--force", "--volumes", *containers)
        self.docker("network", "prune", "--force")
        for volume in self.docker("volume", "ls", "--quiet").split():
            self.docker("volume", "rm", volume)
        self.docker("image", "prune", "--force")  # those whose tags others have now


@contextlib.contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine for the time of a `with`; skips where it can't be had, and fails there in CI.

    Its images are kept in the cache, so that a Dockerfile is built once as long as what it reads is the same.
    """
    need_root("may start a Docker engine of the tests' own")
    need(docker_io="dockerd", docker_cli="docker", util_linux="unshare")
    data = cache("docker").resolve()  # runc takes no path with a link in it
    data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="docker-"))  # short: the kernel takes no long paths for sockets
    try:
        with (data / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until another run of the tests is done with it
            with _process(data / "data", folder):
                engine = Engine(folder)
                engine.clear()
                yield engine
                engine.clear()
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _process(data: Path, folder: Path) -> Iterator[None]:
    """dockerd, from when it answers until it has ended."""
    (folder / "daemon.json").write_text("{}")  # not the machine's
    flags = [f"--data-root={data}", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    flags += ["--host=unix:///run/docker.sock", f"--host=unix://{folder}/docker.sock"]
    flags += [f"--config-file={folder}/daemon.json"]
    # The machine's packet filter and bridges stay as they are; compose makes bridges for a project that asks for some.
    flags += ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    # Before Docker 23, dockerd spares itself from the kernel's OOM killer, which a container may not be allowed to.
    if "--oom-score-adjust" in subprocess.run(["dockerd", "--help"], capture_output=True, text=True, check=True).stdout:
        flags.append("--oom-score-adjust=0")
    # Each ends with the one before it, and that with the tests, even if these are killed.
    command = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "sh", "-ec", BEGIN, "sh", folder, *flags], stdout=log, stderr=log)
    try:
        asked = ["docker", "--host", f"unix://{folder}/docker.sock", "version"]

        def answers() -> bool:
            return subprocess.run(asked, capture_output=True, check=False).returncode == 0

        wait_for(lambda: process.poll() is not None or answers(), START_SECONDS, explain=(folder / "log").read_text)
        assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # it has ended by itself
            for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(pid), signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for cgroup in Path("/sys/fs/cgroup").glob("*/docker"):
            with contextlib.suppress(OSError):  # in use by another engine
                cgroup.rmdir()

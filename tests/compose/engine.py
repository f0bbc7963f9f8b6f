"""A Docker engine for the tests: Debian's dockerd with its own data, sockets and mounts."""

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
STOP_SECONDS = 60  # for its containers to end

# Its own mount and PID namespaces, so that nothing remains however it ends. Its /run is empty, so compose.yaml's
# /var/run/docker.sock is this engine's; resolv.conf may be a link into /run.
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
    """A running engine. `variables` point docker, docker-compose and deploy/compose.py to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"DOCKER_HOST": f"unix://{folder}/docker.sock"}

    def docker(self, *arguments: str, seconds: float = 60) -> str:
        """The output of `docker ARGUMENTS`; AssertionError with stdout and stderr if it fails."""
        return self.run(["docker", *arguments], seconds=seconds)

    def run(
        self, command: list[str], variables: Mapping[str, str] | None = None, folder: Path | None = None,
        seconds: float = 60,
    ) -> str:  # fmt: skip
        """The output of a command that talks to this engine; AssertionError with stdout and stderr if it fails."""
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
        """Build an image of the files below `root`; `changes` are Dockerfile lines, such as `USER nobody`."""
        options = [f"--change={change}" for change in changes]
        pipe = 'set -o pipefail; tar --directory "$0" --create . | docker import "$@"'
        self.run(["bash", "-c", pipe, str(root), *options, "-", name], seconds=300)

    def clear(self) -> None:
        """Remove all containers, networks and volumes left by a test or by a killed engine."""
        containers = self.docker("container", "ls", "--all", "--quiet").split()
        if containers:
            self.docker("container", "rm", "--force", "--volumes", *containers)
        self.docker("network", "prune", "--force")
        for volume in self.docker("volume", "ls", "--quiet").split():
            self.docker("volume", "rm", volume)
        self.docker("image", "prune", "--force")  # images whose tags have moved on


@contextlib.contextmanager
def running_engine() -> Iterator[Engine]:
    """A running engine as a context manager. Skips if dockerd isn't available; in CI that is a failure.

    Its images are cached, so a Dockerfile is only rebuilt when its inputs change.
    """
    need_root("may start a Docker engine of the tests' own")
    need(docker_io="dockerd", docker_cli="docker", util_linux="unshare")
    data = cache("docker").resolve()  # runc refuses paths with symlinks
    data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="docker-"))  # short: socket paths are limited to 108 bytes
    try:
        with (data / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until another test run has released it
            with _process(data / "data", folder):
                engine = Engine(folder)
                engine.clear()
                yield engine
                engine.clear()
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _process(data: Path, folder: Path) -> Iterator[None]:
    """dockerd, from its first answer until it has ended."""
    (folder / "daemon.json").write_text("{}")  # instead of the machine's settings
    flags = [f"--data-root={data}", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    flags += ["--host=unix:///run/docker.sock", f"--host=unix://{folder}/docker.sock"]
    flags += [f"--config-file={folder}/daemon.json"]
    # Don't change the machine's packet filter and bridges; compose creates bridges for projects that ask for one.
    flags += ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    # Before Docker 23, dockerd adjusts its own OOM score, which isn't always allowed in a container.
    if "--oom-score-adjust" in subprocess.run(["dockerd", "--help"], capture_output=True, text=True, check=True).stdout:
        flags.append("--oom-score-adjust=0")
    # Each process ends with its parent, and the first with the tests, even if these are killed.
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
        with contextlib.suppress(FileNotFoundError):  # already ended
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

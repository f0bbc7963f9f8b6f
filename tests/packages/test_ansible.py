"""The Ansible role, run over ssh against a clean machine, and against the folder of a Prometheus."""

import json
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import programs
from deploy.packages import deb
from deploy.python_packages import Environment
from tests.distributions.chroots import DEBIAN_12
from tests.packages.conftest import FIXTURE, OLDER, Boot, CleanHost, Packages
from tests.packages.test_services import RUNS, left, log, processes, states
from tests.stack.conftest import ROOT
from tests.support import Prometheus
from tests.support.ports import free_port
from tests.support.privileges import NOBODY, capabilities, unprivileged
from tests.support.waiting import wait_for

ROLE = ROOT / "deploy/packages/ansible"
EXPORTER = "vestat-exporter"
PASSWORD = 'correct horse: "it\'s" {{ a }} staple\\'  # needs quoting in YAML and flag files; no template
START_SECONDS = 60

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # the first time, Ansible and a release are downloaded
on_bookworm = pytest.mark.parametrize("host", [DEBIAN_12], indirect=True, ids=["bookworm"])


@pytest.fixture(scope="session")
def ansible() -> Path:
    environment = Environment(ROOT / "requirements/ansible.txt", programs.cache("ansible"))
    environment.install()
    return environment.python.parent


def ansible_environment(ansible: Path, folder: Path) -> dict[str, str]:
    """Ignores this machine's settings, and leaves nothing on it."""
    own = {"PATH": f"{ansible}:{os.environ['PATH']}", "HOME": str(folder), "ANSIBLE_HOME": str(folder / "ansible")}
    return {**own, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def address(host: CleanHost, tmp_path: Path) -> dict[str, Any]:
    """Ansible's connection to the clean machine: a dedicated sshd on loopback."""
    host.apt("install --no-install-recommends openssh-server python3")
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    folder = host.root / "root/.ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(key.with_suffix(".pub"), folder / "authorized_keys")
    port = free_port()
    host.must(f"mkdir -p /run/sshd && /usr/sbin/sshd -o ListenAddress=127.0.0.1 -o Port={port} -o UsePAM=no")
    known = tmp_path / "known_hosts"
    public = (host.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text()
    known.write_text(f"[127.0.0.1]:{port} {public}")
    reached = {"host": "127.0.0.1", "port": port, "user": "root", "ssh_private_key_file": str(key)}
    reached["ssh_common_args"] = f"-F none -o UserKnownHostsFile={known}"
    return {f"ansible_{name}": value for name, value in reached.items()}


class Run:
    """A run of the playbook: exit status, output, and the tasks that changed something."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.printed = done.returncode, done.stdout
        task = re.compile(r"(?:TASK|RUNNING HANDLER) \[(.*?)\]((?:(?!\n(?:TASK|RUNNING|PLAY)).)*)", re.DOTALL)
        self.changed = [name for name, said in task.findall(self.printed) if "\nchanged:" in said]


Play = Callable[..., Run]


@pytest.fixture
def prometheus(tmp_path: Path) -> Prometheus:
    """The project's targets, plus the job settings that docs/ansible.md describes."""
    server = Prometheus(tmp_path, {})
    file = server.folder / "prometheus/prometheus.yml"
    configuration = yaml.safe_load(file.read_text())
    documented = re.search(
        r"```yaml\n( +# local/prometheus\.yml.*?)```", (ROOT / "docs/ansible.md").read_text(), re.DOTALL
    )
    assert documented
    [settings] = yaml.safe_load(textwrap.dedent(documented[1]))
    [job] = [job for job in configuration["scrape_configs"] if job["job_name"] == "vestat"]
    job.update({name: settings[name] for name in ("tls_config", "basic_auth")})
    file.write_text(yaml.safe_dump(configuration))
    return server


@pytest.fixture
def play(ansible: Path, address: dict[str, Any], packages: Packages, prometheus: Prometheus, tmp_path: Path) -> Play:
    """Runs site.yml against the machine, with additional variables."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for file in packages.now.values():
        shutil.copy(file, folder)
    port = free_port()

    def run(*options: str, playbook: str = "site.yml", **variables: object) -> Run:
        watched = {
            **address,
            "virtscope_address": "127.0.0.1",
            "virtscope_platform": "openvz",
            "virtscope_exporters": [EXPORTER],
            "virtscope_listen_host": "127.0.0.1",
            "virtscope_ports": {EXPORTER: port},
            "virtscope_flags": {EXPORTER: "--path.procfs=/srv/proc --vzlist.interval=0"},
        }
        monitor = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(ansible / "python"),
            "virtscope_prometheus": str(prometheus.folder / "prometheus"),
            "virtscope_prometheus_group": "root",
        }
        everywhere = {
            "ansible_become": False,  # already root
            "virtscope_password": {"__ansible_unsafe": PASSWORD},
            "virtscope_packages": str(folder),
            **variables,
        }
        hosts = {"watched": {"hosts": {"ct1.example.org": watched}}, "prometheus": {"hosts": {"monitor": monitor}}}
        inventory = {"all": {"vars": everywhere, "children": hosts}}
        file = tmp_path / "inventory.json"
        file.write_text(json.dumps(inventory))
        done = subprocess.run(
            [ansible / "ansible-playbook", f"--inventory={file}", "--diff", *options, ROLE / playbook],
            env=ansible_environment(ansible, tmp_path),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=900,
        )  # fmt: skip
        return Run(done)

    return run


def start(host: CleanHost) -> None:
    """Start the exporter like its unit; the machine runs no systemd."""
    shutil.copytree(FIXTURE, host.root / "srv/proc")
    prefix = " ".join(unprivileged(capabilities(EXPORTER))).replace(f"--regid {NOBODY}", "--regid virtscope")
    host.must(f". /etc/default/{EXPORTER}; setsid {prefix} {EXPORTER} $ARGS >/srv/log 2>&1 &")
    wait_for(lambda: host.must("cat /srv/log || true"), START_SECONDS, until=lambda log: "listening" in log)


@on_bookworm
def test_run_twice_it_changes_nothing_prometheus_scrapes_it_and_a_new_password_replaces_the_old_one(
    host: CleanHost, play: Play, prometheus: Prometheus
) -> None:
    before = host.files()
    for variables, said in (  # missing variables are reported before anything changes
        ({"virtscope_password": ""}, "virtscope_password must be set"),
        ({"virtscope_packages": "/nowhere"}, "from make deb"),
        ({"virtscope_certificate": "some.crt"}, "virtscope_certificate needs virtscope_key"),
    ):
        run = play(**variables)
        assert (run.status != 0, said in run.printed, run.changed) == (True, True, []), run.printed
    assert {file for file in host.files() - before if not file.startswith("/root/")} == set()

    first = play()
    assert first.status == 0, first.printed
    assert PASSWORD not in first.printed
    again = play()
    assert (again.status, again.changed) == (0, []), again.printed

    modes = host.must("stat -c '%U %G %a' /etc/virtscope/exporter.key /etc/virtscope/web.yml")
    assert modes == "root virtscope 640\n" * 2
    password = prometheus.folder / "prometheus/secrets/virtscope-password"
    assert (password.read_text(), password.stat().st_mode & 0o777) == (PASSWORD, 0o640)
    start(host)
    with prometheus:
        up = prometheus.wait_for('up{job="vestat"} == 1', START_SECONDS)
        prometheus.wait_for("vestat_up == 1", START_SECONDS)
    assert (up[0]["metric"]["host"], up[0]["metric"]["platform"]) == ("ct1", "openvz")

    web = host.must("cat /etc/virtscope/web.yml")
    changed = play(virtscope_password="another")
    tasks = {"virtscope : Store the password", "virtscope : Write the web configuration"}
    assert (changed.status, set(changed.changed)) == (0, tasks), changed.printed
    assert host.must("cat /etc/virtscope/web.yml") != web
    assert password.read_text() == "another"


@on_bookworm
def test_under_systemd_services_are_started_restarted_upgraded_and_removed(
    host: CleanHost, boot: Boot, address: dict[str, Any], play: Play, packages: Packages
) -> None:
    """The role waits until each exporter answers."""
    host.apt("install --no-install-recommends curl python3-apt")
    older = host.root / "srv/older"
    older.mkdir()
    for package in packages.older.values():
        shutil.copy(package, older)
    host.apt("install --no-install-recommends --download-only openssl /srv/older/*.deb")
    shutil.copytree(FIXTURE, host.root / "srv/proc")
    live = boot()
    accounts, before = live.must("cat /etc/passwd /etc/group"), live.files()
    live.must("mkdir -p /run/sshd")
    sshd = " ".join([*live.machine.entering, "--wdns=/", "/usr/sbin/sshd -i -o UsePAM=no"])
    address["ansible_ssh_common_args"] += f" -o ProxyCommand='{sshd}'"

    first = play(virtscope_packages=str(older))
    assert first.status == 0, first.printed
    assert states(live, [EXPORTER]) == {EXPORTER: RUNS}
    assert f"version={OLDER}" in log(live, EXPORTER)

    flags = {EXPORTER: "--path.procfs=/srv/proc --vzlist.interval=0 --log.level=debug"}
    changed = play("--extra-vars", json.dumps({"virtscope_flags": flags}), virtscope_packages=str(older))
    restarted = ["virtscope : Give the exporters their flags", "virtscope : Restart exporters"]
    assert changed.changed == restarted, changed.printed
    assert "--log.level=debug" in live.must(f"cat /proc/{processes(live, [EXPORTER])[EXPORTER]}/cmdline")

    ran = processes(live, [EXPORTER])
    upgraded = play()
    copied_and_installed = {"virtscope : Copy the packages", "virtscope : Install the packages"}
    assert set(upgraded.changed) == copied_and_installed, upgraded.printed
    assert processes(live, [EXPORTER]) != ran
    said = log(live, EXPORTER)
    assert said.rpartition("version=")[2].startswith(deb.version())
    assert not re.search("(?i)traceback|failed with", said), said

    removed = play(playbook="remove.yml")
    assert removed.status == 0, removed.printed
    assert play(playbook="remove.yml").changed == []
    assert left(live) == []
    assert live.must("cat /etc/passwd /etc/group") == accounts
    assert not {file for file in live.files() - before if re.search("virtscope|exporter", file)}


def test_ansible_lint_is_content(ansible: Path, tmp_path: Path) -> None:
    # It lists files tracked by git, so it runs in a separate folder.
    role = shutil.copytree(ROLE, tmp_path / "role")
    said = subprocess.run(
        [ansible / "ansible-lint", "--offline", "--strict", "--profile=production"],
        cwd=role, env=ansible_environment(ansible, tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr

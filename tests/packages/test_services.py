"""Packages, archive and wheel under a live systemd, with the commands in docs and man pages."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from deploy.packages import deb
from tests.distributions.chroots import DEBIAN_12, DEBIAN_13, UBUNTU_16_04, UBUNTU_22_04, UBUNTU_24_04, UBUNTU_26_04
from tests.packages.conftest import FIXTURE, OLDER, Boot, CleanHost, Packages, install_archive
from tests.packages.test_deb import EXPORTERS, block_of
from tests.packages.test_wheel import build
from tests.stack.conftest import ROOT
from tests.support.ports import free_port
from tests.support.privileges import MAX_EXPOSURE, UNITS, capabilities, directives, exposure

VESTAT = "vestat-exporter"
PAGE = (ROOT / "docs/watched-hosts.md").read_text()
PASSWORD = "correct horse"
START_SECONDS = 60
INSTALL = "install --no-install-recommends"
RUNS = ("active", "enabled")
UP = "\nvestat_up 1.0\n"
BAD = "(?i)traceback|failed with"

pytestmark = pytest.mark.timeout(1800)  # the first time a release is downloaded
on_each_release = pytest.mark.parametrize(
    "host",
    [
        pytest.param(release, id=release.suite, marks=pytest.mark.system if release is DEBIAN_12 else pytest.mark.long)
        for release in (DEBIAN_12, DEBIAN_13, UBUNTU_22_04, UBUNTU_24_04, UBUNTU_26_04)
    ],
    indirect=True,
)
on_bookworm = pytest.mark.parametrize("host", [DEBIAN_12], indirect=True, ids=["bookworm"])


def states(host: CleanHost, exporters: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Whether each exporter runs, and whether it starts at boot."""

    def said(command: str) -> str:
        return host.run(f"systemctl {command} 2>/dev/null").stdout.strip()

    return {exporter: (said(f"is-active {exporter}"), said(f"is-enabled {exporter}")) for exporter in exporters}


def left(host: CleanHost) -> list[str]:
    """Exporter units that systemd still knows, and processes that still run."""
    known = host.must("systemctl list-units --all --plain --no-legend").splitlines()
    return [line for line in (*known, *host.machine.processes()) if "exporter" in line or "virtscope" in line]


def processes(host: CleanHost, exporters: Iterable[str]) -> dict[str, str]:
    asked = "systemctl show --property=MainPID"  # 16.04 has no --value
    return {name: host.must(f"{asked} {name}").partition("=")[2].strip() for name in exporters}


def answer(host: CleanHost, command: str) -> tuple[int, str]:
    """Status and body of this curl command, once the exporter listens."""
    asked = command.strip().replace("curl ", "curl --silent --write-out '%{http_code}' ", 1)
    journal = "journalctl --no-pager --lines=50"
    said = host.must(f"for i in $(seq {START_SECONDS}); do {asked} && exit; sleep 1; done; {journal}; exit 1")
    return int(said[-3:]), said[:-3]


def log(host: CleanHost, exporter: str) -> str:
    return host.must(f"journalctl --no-pager --unit {exporter}")


def series(page: str, prefix: str) -> set[str]:
    return {line.rpartition(" ")[0] for line in page.splitlines() if line.startswith(prefix)}


@on_each_release
def test_a_package_from_installation_to_purge(host: CleanHost, boot: Boot, packages: Packages) -> None:
    """With the commands in the man pages."""
    # Dependencies: some releases never autoremove adduser or ssh.
    host.apt(f"{INSTALL} adduser curl openssh-client openssl")
    for name, built in {"older": packages.older, "now": packages.now}.items():
        folder = host.root / "srv" / name
        folder.mkdir()
        for package in ("virtscope-common", *EXPORTERS):
            shutil.copy(built[package], folder)
        host.apt(f"{INSTALL} --download-only /srv/{name}/*.deb")
    shutil.copytree(FIXTURE, host.root / "srv/proc")
    pages = {exporter: host.man_page(exporter) for exporter in EXPORTERS}
    live = boot()
    before, accounts = live.files(), live.must("cat /etc/passwd /etc/group")

    live.apt(f"{INSTALL} /srv/older/*.deb")

    for exporter in EXPORTERS:
        [asking] = [line for line in block_of(pages[exporter], ".SH SERVICE").splitlines() if line.startswith("curl ")]
        status, text = answer(live, asking)
        assert status == 200
        assert re.search(rf"^{exporter.removesuffix('-exporter')}_up ", text, re.MULTILINE)
        assert re.findall(r"msg=listening address=(\S+)", log(live, exporter))[-1] in asking
        assert exposure(live.must(f"systemd-analyze security --no-pager {exporter}.service")) <= MAX_EXPOSURE
    assert states(live, EXPORTERS) == dict.fromkeys(EXPORTERS, RUNS)
    assert live.must("stat -c '%U %G %a' /etc/virtscope") == "root virtscope 2750\n"
    assert live.must("stat -c '%U %a' /var/lib/ssh-exporter /var/lib/ssh-exporter/.ssh") == "ssh-exporter 700\n" * 2
    live.must("echo dom0 >>/etc/virtscope/hosts; touch /var/lib/ssh-exporter/.ssh/id_ed25519")

    live.do_as_documented(block_of(pages[VESTAT], '.SH "LISTENING ON A NETWORK"'), PASSWORD)
    asking_with_password = {}
    for exporter, page in pages.items():
        flags = block_of(page, f".IR /etc/default/{exporter} :")
        if exporter == VESTAT:
            flags = flags.replace('ARGS="', 'ARGS="--path.procfs=/srv/proc ')
        live.must(f"cat >/etc/default/{exporter} <<'END'\n{flags}\nEND")
        restart, *scrape = block_of(page, "Then restart it").splitlines()
        assert restart == f"systemctl restart {exporter}"
        live.must(restart)
        asking = "\n".join(scrape)
        assert answer(live, asking.replace("--user prometheus", ""))[0] == 401
        asking_with_password[exporter] = asking.replace("--user prometheus", f"--user 'prometheus:{PASSWORD}'")

    def assert_scraped_with_password() -> None:
        got = {exporter: answer(live, asking) for exporter, asking in asking_with_password.items()}
        assert {status for status, _ in got.values()} == {200}
        text = got[VESTAT][1]
        assert UP in text, log(live, VESTAT)
        assert series(text, "openvz_") != set()

    def settings() -> str:
        return live.must("cat /etc/default/*-exporter /etc/virtscope/*")

    assert_scraped_with_password()
    had, ran = settings(), processes(live, EXPORTERS)
    assert all(f"version={OLDER}" in log(live, exporter) for exporter in EXPORTERS)

    live.apt(f"{INSTALL} /srv/now/*.deb")

    assert_scraped_with_password()
    assert states(live, EXPORTERS) == dict.fromkeys(EXPORTERS, RUNS)
    assert settings() == had
    live.must("test -e /var/lib/ssh-exporter/.ssh/id_ed25519")
    for exporter, process in processes(live, EXPORTERS).items():
        assert process != ran[exporter]
        said = log(live, exporter)
        assert f"version={deb.version()}" in said
        assert not re.search(f"{BAD}|unknown|ignor", said), said

    live.apt(f"remove {' '.join(EXPORTERS)} virtscope-common")

    assert not [line for line in live.machine.processes() if "exporter" in line]
    assert settings() == had
    assert not (host.root / "usr/share/virtscope").exists()

    live.apt(f"purge {' '.join(EXPORTERS)} virtscope-common")
    # Autoremove keeps packages that others suggest, such as libbpf, suggested by systemd.
    live.apt("-o APT::AutoRemove::SuggestsImportant=false autoremove --purge")

    assert (left(live), live.files(), live.must("cat /etc/passwd /etc/group")) == ([], before, accounts)
    assert live.must("systemctl is-system-running") == "running\n"


def of_page(heading: str) -> list[str]:
    """The page's command blocks below this heading, for vestat-exporter."""
    section = re.split(r"^#+ ", PAGE.partition(f" {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    adapted = section.replace("xentop-exporter", VESTAT).replace("10290", "10291")
    return re.findall(r"^```\n(.*?)^```", adapted, re.MULTILINE | re.DOTALL)


def let_prometheus_in(live: CleanHost, *, old_openssl: bool) -> str:
    """Follow steps 2 and 3 of the page; returns its scrape command with the password."""
    [commands] = of_page("2. Let Prometheus in, and nobody else")
    certificate = re.compile(r"openssl req(?:.*\\\n)+.*\n")
    if old_openssl:  # it lacks -addext: "create the certificate elsewhere"
        [elsewhere] = certificate.findall(commands)
        subprocess.run(["sh", "-c", elsewhere], cwd=live.root / "etc/virtscope", check=True, capture_output=True)
        commands = certificate.sub("", commands)
    live.do_as_documented(commands, PASSWORD)
    live.must(f'sed -i \'s,^ARGS="\\(.*\\)",ARGS="\\1 --path.procfs=/srv/proc",\' /etc/virtscope/{VESTAT}.env')
    restart, _, scrape = of_page("3. Restart it")[0].partition("\n")
    live.must(restart)
    assert answer(live, scrape.replace("--user prometheus", ""))[0] == 401
    return scrape.replace("--user prometheus", f"--user 'prometheus:{PASSWORD}'")


@pytest.mark.parametrize(
    ("host", "old"),
    [
        pytest.param(DEBIAN_12, False, id="bookworm", marks=pytest.mark.system),
        # This systemd knows neither DynamicUser nor AmbientCapabilities.
        pytest.param(UBUNTU_16_04, True, id="xenial", marks=pytest.mark.long),
    ],
    indirect=["host"],
)
def test_an_archive_from_installation_to_purge(host: CleanHost, boot: Boot, archive: Path, old: bool) -> None:
    host.apt(f"{INSTALL} curl openssl")
    shutil.copytree(FIXTURE, host.root / "srv/proc")
    live = boot()
    before, accounts = live.files(), live.must("cat /etc/passwd /etc/group")

    installed = [VESTAT, "perf-exporter"]
    install_archive(live, archive, *installed)

    for port in (10291, 10292):
        assert answer(live, f"curl http://127.0.0.1:{port}/metrics")[0] == 200
    assert states(live, installed) == dict.fromkeys(installed, RUNS)
    asking = let_prometheus_in(live, old_openssl=old)
    status, text = answer(live, asking)
    assert (status, UP in text) == (200, True), log(live, VESTAT)
    ran = processes(live, installed)
    facts = dict(re.findall(r"^(\w+):\s*(.*)$", live.must(f"cat /proc/{ran[VESTAT]}/status"), re.MULTILINE))
    assert (facts["Uid"].split()[0] == "0") == old
    assert int(facts["CapBnd"], 16).bit_count() == len(capabilities(VESTAT))

    settings = live.must("cat /etc/virtscope/*")
    of_package = "/opt/virtscope/python/lib/python3.*/site-packages/virtscope/__init__.py"
    live.must(f"sed -i 's/{deb.version()}/{OLDER}/' {of_package}; systemctl restart {VESTAT}")
    assert answer(live, asking)[0] == 200
    assert f"version={OLDER}" in log(live, VESTAT)

    install_archive(live, archive)  # without names: upgrades the installed exporters

    assert answer(live, asking)[0] == 200
    assert states(live, installed) == dict.fromkeys(installed, RUNS)
    assert live.must("cat /etc/virtscope/*") == settings
    assert all(process != ran[exporter] for exporter, process in processes(live, installed).items())
    unit = host.root / f"etc/systemd/system/{VESTAT}.service"
    assert directives(unit) == directives(UNITS / unit.name) | {"Group": ["virtscope"]}
    assert live.must("stat -c '%U %G %a' /etc/virtscope") == "root virtscope 2750\n"
    said = log(live, VESTAT)
    assert said.rpartition("version=")[2].startswith(deb.version())
    assert not re.search(BAD, said), said

    live.must("/opt/virtscope/remove")

    assert left(live) == []
    assert live.must("cat /etc/virtscope/*") == settings
    assert {file for file in live.files() - before if not file.startswith("/etc/virtscope")} == set()

    install_archive(live, archive, VESTAT)
    assert answer(live, asking)[0] == 200  # with the kept settings
    live.must("/opt/virtscope/remove --purge")

    assert (left(live), live.files(), live.must("cat /etc/passwd /etc/group")) == ([], before, accounts)
    assert live.must("systemctl is-system-running") == "running\n"


@pytest.mark.long
@on_bookworm
def test_a_wheel_from_installation_to_removal(host: CleanHost, boot: Boot, tmp_path: Path) -> None:
    host.apt(f"{INSTALL} curl")
    source = shutil.copytree(deb.EXPORTERS, tmp_path / "older", ignore=deb.NO_SOURCE)
    package = source / "virtscope/__init__.py"
    package.write_text(package.read_text().replace(deb.version(), OLDER))
    for name, folder in {"older": source, "now": deb.EXPORTERS}.items():
        wheel = build(host.root / "srv" / name, folder)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"]
    subprocess.run([*download, f"--dest={host.root / 'srv/index'}", wheel], check=True)
    shutil.copytree(FIXTURE, host.root / "srv/proc")
    live = boot()
    before = live.files()

    def do(commands: str, folder: str) -> None:
        """Install as root in that folder; the package index is the downloaded files."""
        live.must(f"set -e; cd /srv/{folder}\n{commands}", PIP_NO_INDEX="1", PIP_FIND_LINKS="/srv/index")

    [installing] = of_page("Python 3.9 or newer")
    upgrading, removing = of_page("Upgrade and remove")

    do(installing, "older")
    flags = 'ARGS="--web.listen-address=127.0.0.1:10391 --path.procfs=/srv/proc"\n'
    live.must(f"printf '%s' '{flags}' >/etc/virtscope/{VESTAT}.env; systemctl restart {VESTAT}")
    asking = "curl http://127.0.0.1:10391/metrics"
    assert UP in answer(live, asking)[1]
    assert states(live, [VESTAT]) == {VESTAT: RUNS}

    do(upgrading, "now")
    assert UP in answer(live, asking)[1]
    said = log(live, VESTAT)
    assert list(dict.fromkeys(re.findall(r"version=(\S+)", said))) == [OLDER, deb.version()]
    assert not re.search(BAD, said), said

    do(removing, "now")
    assert left(live) == []
    assert live.must(f"cat /etc/virtscope/{VESTAT}.env") == flags
    live.must("rm -r /etc/virtscope")
    assert live.files() == before


@pytest.mark.long
@on_bookworm
def test_a_host_watched_over_ssh_by_the_man_page_alone(host: CleanHost, packages: Packages) -> None:
    """The host is the same machine, through a dedicated sshd."""
    host.install(packages.now, "ssh-exporter")
    host.apt(f"{INSTALL} curl openssh-server")
    port, own_port = free_port(), free_port()
    host.must(f"mkdir -p /run/sshd && /usr/sbin/sshd -o ListenAddress=127.0.0.1 -o Port={port}")
    shutil.copytree(FIXTURE, host.root / "srv/proc")

    page = host.man_page("ssh-exporter")
    commands = block_of(page, '.SH "WATCHED HOSTS"').replace("dom0.example.org", "127.0.0.1")
    commands = commands.replace("ssh-keyscan", f"ssh-keyscan -p {port}").replace("User root", f"User root\nPort {port}")
    home = "/var/lib/ssh-exporter/.ssh"
    host.must(f"cat >/srv/commands <<'ALL'\nset -e\n{commands}\nALL\nln -s /etc/planted {home}/config")
    assert host.run("sh /srv/commands").returncode != 0  # root refuses links in another user's folder
    host.must(f"test ! -e /etc/planted; rm {home}/*")
    said = host.must("sh /srv/commands 2>&1")
    assert host.must(f"stat -c %U {home}/*") == "ssh-exporter\n" * 4
    assert host.must("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1] in said  # its fingerprint
    [line] = [line for line in said.splitlines() if line.startswith("restrict,command=")]
    keys = host.root / "root/.ssh/authorized_keys"
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    keys.write_text(line.replace("proc=/proc", "proc=/srv/proc") + "\n")

    start = directives(UNITS / "ssh-exporter.service")["ExecStart"][0]
    start = start.replace("/opt/virtscope/bin/", "").replace("$ARGS", "--vzlist.interval=0")
    prefix = "SHELL=/bin/sh setsid setpriv --reuid ssh-exporter --regid virtscope --clear-groups --no-new-privs"
    host.must(f"{prefix} --bounding-set=-all {start} --web.listen-address=127.0.0.1:{own_port} >/srv/log 2>&1 &")
    ask = re.findall(r"^curl ('.*/probe.*)", page.replace("\\-", "-"), re.MULTILINE)[0].replace("10295", str(own_port))
    ask = ask.replace("module=xen", "module=openvz").replace("dom0.example.org", "127.0.0.1")
    retry = f"--silent --retry {START_SECONDS} --retry-delay 1 --retry-connrefused"
    assert UP in host.must(f"curl {retry} {ask}"), host.must("cat /srv/log")

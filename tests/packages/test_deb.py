"""The Debian packages: built, installed, used, upgraded and purged, each as its user does it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.distributions.chroots import DEBIAN_12, UBUNTU_22_04
from tests.packages.conftest import OLDER, CleanHost, Packages
from tests.support.ports import free_port
from tests.support.privileges import NOBODY, UNITS, capabilities, directives, unprivileged
from tools import deb
from tools.exporters import PROGRAMS

EXPORTERS = [f"{exporter}-exporter" for exporter in PROGRAMS]
FIXTURE = Path(__file__).resolve().parents[1] / "fixtures/openvz/x86_64-2.6.32-nanoseconds/proc"
PASSWORD = "correct horse"
START_SECONDS = 60

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # the first time a release is downloaded and installed
on_the_oldest_of_each = pytest.mark.parametrize(
    "host", [DEBIAN_12, UBUNTU_22_04], indirect=True, ids=lambda release: release.suite
)
on_bookworm = pytest.mark.parametrize("host", [DEBIAN_12], indirect=True, ids=["bookworm"])


def content(package: Path, target: Path) -> Path:
    """The files of a package, unpacked."""
    subprocess.run(["dpkg-deb", "--extract", package, target], check=True)
    return target


def test_there_is_one_for_each_exporter(packages: Packages) -> None:
    assert set(packages.now) == {"virtscope-common", *EXPORTERS}
    assert {package.name.split("_")[1] for package in packages.now.values()} == {deb.version()}


def test_lintian_is_content(packages: Packages) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("no lintian here: apt-get install lintian")
    command = ["lintian", "--allow-root", "--fail-on=error,warning", *map(str, packages.now.values())]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "")


def test_two_builds_are_the_same_bytes(packages: Packages, tmp_path: Path) -> None:
    again = deb.build(tmp_path)
    assert [file.read_bytes() for file in again] == [
        packages.now[file.name.split("_")[0]].read_bytes() for file in again
    ]


def test_the_shared_one_has_the_program_that_sched_exporter_loads(packages: Packages, tmp_path: Path) -> None:
    root = content(packages.now["virtscope-common"], tmp_path) / "usr/share/virtscope"
    found = {file.relative_to(root).as_posix(): file.read_bytes() for file in root.glob("**/*.o")}
    of_checkout = {
        file.relative_to(deb.EXPORTERS).as_posix(): file.read_bytes()
        for file in deb.EXPORTERS.glob("virtscope/**/*.bpf.o")
    }
    assert found == of_checkout != {}


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_its_unit_is_that_of_the_checkout(exporter: str, packages: Packages, tmp_path: Path) -> None:
    """Except for where things are, and the group that may read /etc/virtscope."""
    [packaged] = content(packages.now[exporter], tmp_path).glob("**/systemd/system/*.service")
    assert packaged.name == f"{exporter}.service"
    of_checkout = directives(UNITS / f"{exporter}.service")
    changed = {
        "Documentation": [f"man:{exporter}(1)"],
        "ExecStart": [of_checkout["ExecStart"][0].replace("/opt/virtscope/", "/usr/")],
        "EnvironmentFile": [f"-/etc/default/{exporter}"],
        "Group": ["virtscope"],
    }
    assert directives(packaged) == of_checkout | changed
    assert "/opt/" not in packaged.read_text()


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_its_man_page_has_every_flag(exporter: str, packages: Packages, tmp_path: Path) -> None:
    page = content(packages.now[exporter], tmp_path) / f"usr/share/man/man1/{exporter}.1.gz"
    text = subprocess.run(["zcat", page], check=True, capture_output=True, text=True).stdout.replace("\\-", "-")
    python = ["/usr/bin/python3", "-m", f"virtscope.{PROGRAMS[exporter.removesuffix('-exporter')]}", "--help"]
    shown = subprocess.run(python, cwd=deb.EXPORTERS, check=True, capture_output=True, text=True).stdout
    assert {
        flag for flag in re.findall(r"^  (--[\w.-]+)", shown, re.MULTILINE) if f"\\fB{flag}\\fR" not in text
    } == set()
    assert "virtscope-deb-" not in text, "a path of the build"


def block_of(page: str, after: str) -> str:
    """The first indented example of a man page, in roff, after these words."""
    block = page.partition(after)[2].partition(".RS\n")[2].partition("\n.RE")[0]
    return block.replace("\\-", "-").replace("\\e", "\\")


def as_the_unit_does(having: set[str]) -> str:
    """A prefix for a command: run by root, it makes it run as an ordinary user in the unit's group."""
    return " ".join(unprivileged(having)).replace(f"--regid {NOBODY}", "--regid virtscope")


@on_the_oldest_of_each
def test_a_scrape_with_tls_and_password_by_the_man_page_alone(host: CleanHost, packages: Packages) -> None:
    for exporter in EXPORTERS:
        host.install(packages.now, exporter)
    host.apt("install --no-install-recommends curl openssl")
    shutil.copytree(FIXTURE, host.root / "srv" / "proc")
    # A minimal system unpacks no man pages.
    page = host.must("dpkg-deb --fsys-tarfile /srv/vestat-exporter_*.deb | tar -xO ./usr/share/man/man1/*.gz | zcat")
    commands = block_of(page, '.SH "LISTENING ON A NETWORK"')
    host.must(f"printf '%s\\n' '{PASSWORD}' >/srv/password; cat >/srv/commands <<'ALL'\nset -e\n{commands}\nALL")
    # Without a terminal the password is read from standard input.
    host.must("setsid sh /srv/commands </srv/password 2>&1")

    flags = block_of(page, ".IR /etc/default/vestat-exporter :")
    ports = {"vestat-exporter": free_port(), "perf-exporter": free_port()}
    for exporter, port in ports.items():
        listening = flags.replace("10291", str(port))
        host.must(f"cat >/etc/default/{exporter} <<'END'\n{listening}\nEND")
        # Of perf-exporter's capabilities none reads what others own: without them it serves what is left.
        prefix = as_the_unit_does(capabilities(exporter) if exporter == "vestat-exporter" else set())
        more = "--path.procfs=/srv/proc" if exporter == "vestat-exporter" else ""
        host.must(f". /etc/default/{exporter}; setsid {prefix} {exporter} $ARGS {more} >/srv/{exporter}.log 2>&1 &")
        wait = f"for i in $(seq {START_SECONDS}); do grep -q listening /srv/{exporter}.log && exit 0; sleep 1; done"
        host.must(f"{wait}; cat /srv/{exporter}.log; exit 1")

    def scrape(exporter: str, *flags: str) -> tuple[int, str]:
        """Status and body that curl gets, asked as in the man page."""
        url = f"https://host.example.org:{ports[exporter]}/metrics"
        trusting = "--cacert /etc/virtscope/exporter.crt --connect-to ::127.0.0.1:"
        said = host.must(f"curl --silent {trusting} --write-out '%{{http_code}}' {' '.join(flags)} {url}")
        return int(said[-3:]), said[:-3]

    user = f"--user 'prometheus:{PASSWORD}'"
    assert scrape("vestat-exporter")[0] == 401
    assert scrape("perf-exporter")[0] == 401
    assert scrape("perf-exporter", user)[0] == 200
    status, text = scrape("vestat-exporter", user)
    assert status == 200
    assert "\nvestat_up 1.0\n" in text, host.must("cat /srv/vestat-exporter.log")
    # What Prometheus asks for first, made from the families of the release's own prometheus_client.
    openmetrics = scrape("vestat-exporter", user, "--header 'Accept: application/openmetrics-text; version=1.0.0'")[1]
    assert openmetrics.endswith("# EOF\n")
    assert series(text, "openvz_") == series(openmetrics, "openvz_") != set()


@on_bookworm
def test_a_host_watched_over_ssh_by_the_man_page_alone(host: CleanHost, packages: Packages) -> None:
    """The host is the same machine, by an sshd of its own."""
    host.install(packages.now, "ssh-exporter")
    host.apt("install --no-install-recommends curl openssh-server")
    port, own_port = free_port(), free_port()
    host.must(f"mkdir -p /run/sshd && /usr/sbin/sshd -o ListenAddress=127.0.0.1 -o Port={port}")
    shutil.copytree(FIXTURE, host.root / "srv/proc")

    page = host.must("dpkg-deb --fsys-tarfile /srv/ssh-exporter_*.deb | tar -xO ./usr/share/man/man1/*.gz | zcat")
    commands = block_of(page, '.SH "WATCHED HOSTS"').replace("dom0.example.org", "127.0.0.1")
    commands = commands.replace("ssh-keyscan", f"ssh-keyscan -p {port}").replace("User root", f"User root\nPort {port}")
    home = "/var/lib/ssh-exporter/.ssh"
    host.must(f"cat >/srv/commands <<'ALL'\nset -e\n{commands}\nALL\nln -s /etc/planted {home}/config")
    assert host.run("sh /srv/commands").returncode != 0  # root follows no link in a folder of another user's
    host.must(f"test ! -e /etc/planted; rm {home}/*")
    said = host.must("sh /srv/commands 2>&1")
    assert host.must(f"stat -c %U {home}/*") == "ssh-exporter\n" * 4
    fingerprint = host.must("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    assert fingerprint in said
    [line] = [line for line in said.splitlines() if line.startswith("restrict,command=")]
    keys = host.root / "root/.ssh/authorized_keys"
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    keys.write_text(line.replace("proc=/proc", "proc=/srv/proc") + "\n")

    unit = directives(UNITS / "ssh-exporter.service")
    start = unit["ExecStart"][0].replace("/opt/virtscope/bin/", "").replace("$ARGS", "--vzlist.interval=0")
    prefix = "SHELL=/bin/sh setsid setpriv --reuid ssh-exporter --regid virtscope --clear-groups --no-new-privs"
    host.must(f"{prefix} --bounding-set=-all {start} --web.listen-address=127.0.0.1:{own_port} >/srv/log 2>&1 &")
    ask = re.findall(r"^curl '.*/probe.*", page.replace("\\-", "-"), re.MULTILINE)[0]
    ask = (
        ask.replace("10295", str(own_port))
        .replace("module=xen", "module=openvz")
        .replace("dom0.example.org", "127.0.0.1")
    )
    retry = f"--silent --retry {START_SECONDS} --retry-delay 1 --retry-connrefused"
    probed = host.must(f"curl {retry} {ask.removeprefix('curl ')}")
    assert "\nvestat_up 1.0\n" in probed, host.must("cat /srv/log")


def series(page: str, prefix: str) -> set[str]:
    """The names and labels of these series of a page."""
    return {line.rpartition(" ")[0] for line in page.splitlines() if line.startswith(prefix)}


@on_the_oldest_of_each
def test_installed_upgraded_and_purged_nothing_is_left(host: CleanHost, packages: Packages) -> None:
    needed = "adduser '^libbpf[01]$' openssh-client python3-bcrypt python3-prometheus-client python3-yaml"
    host.apt(f"install --no-install-recommends {needed}")
    accounts = host.must("cat /etc/passwd /etc/group")
    before = host.files()

    host.install(packages.older, *EXPORTERS)
    for exporter in EXPORTERS:
        assert host.must(f"{exporter} --version").startswith(f"{exporter}, version {OLDER} ")
        host.must(f"echo 'ARGS=\"--web.listen-address=:10999\"' >/etc/default/{exporter}")
    host.must("echo 'basic_auth_users: {}' >/etc/virtscope/web.yml; echo dom0 >>/etc/virtscope/hosts")
    assert host.must("stat -c '%U %a' /var/lib/ssh-exporter /var/lib/ssh-exporter/.ssh") == "ssh-exporter 700\n" * 2
    host.must("touch /var/lib/ssh-exporter/.ssh/id_ed25519")
    assert host.must("stat -c '%U %G %a' /etc/virtscope") == "root virtscope 2750\n"
    assert host.must("stat -c %G /etc/virtscope/web.yml") == "virtscope\n"
    enabled = {f"/etc/systemd/system/multi-user.target.wants/{exporter}.service" for exporter in EXPORTERS}
    assert enabled <= host.files()

    host.install(packages.now, *EXPORTERS)
    for exporter in EXPORTERS:
        assert host.must(f"{exporter} --version").startswith(f"{exporter}, version {deb.version()} ")
        assert host.must(f"cat /etc/default/{exporter}") == 'ARGS="--web.listen-address=:10999"\n'
    assert host.must("cat /etc/virtscope/web.yml") == "basic_auth_users: {}\n"
    assert host.must("tail -n 1 /etc/virtscope/hosts") == "dom0\n"
    host.must("test -e /var/lib/ssh-exporter/.ssh/id_ed25519")
    assert "virtscope" in host.must("cat /etc/group")
    assert enabled <= host.files()

    host.apt(f"purge {' '.join(EXPORTERS)} virtscope-common")
    left = {file for file in host.files() - before if "__pycache__" not in file or "virtscope" in file}
    assert left == set()
    assert before - host.files() == set()
    assert host.must("cat /etc/passwd /etc/group") == accounts


@on_the_oldest_of_each
def test_removed_it_keeps_the_configuration(host: CleanHost, packages: Packages) -> None:
    host.install(packages.now, "vestat-exporter")
    host.must("echo 'ARGS=\"--log.level=debug\"' >/etc/default/vestat-exporter; touch /etc/virtscope/web.yml")

    host.apt("remove vestat-exporter virtscope-common")

    assert "debug" in host.must("cat /etc/default/vestat-exporter")
    host.must("test -e /etc/virtscope/web.yml")
    assert not (host.root / "usr/share/virtscope").exists()

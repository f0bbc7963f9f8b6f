"""The stack from the packages of the releases that docs/install.md names, each as its ordinary user gets it."""

from __future__ import annotations

import re

import pytest

from tests.distributions.chroots import DEBIAN_12, DEBIAN_13, UBUNTU_24_04, UBUNTU_26_04
from tests.distributions.conftest import CHECKOUT, Checkout
from tests.distributions.machine import HOME

RELEASES = [DEBIAN_12, DEBIAN_13, UBUNTU_24_04, UBUNTU_26_04]

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),  # the first time a release is downloaded and installed
    pytest.mark.parametrize("checkout", RELEASES, indirect=True, ids=lambda release: release.suite, scope="module"),
]

# Each of them with the packages' own libraries, in the folder where the packages lie as if it were /.
SERVERS = """
import subprocess
from tools import programs
for packages, patterns in (
    (programs.LAB, ("usr/sbin/apache2", "usr/sbin/php-fpm[0-9]*", "usr/sbin/mariadbd")),
    (programs.TESTS, ("usr/sbin/nginx", "usr/lib/postgresql/*/bin/postgres")),
):
    root = programs.root(packages)
    for pattern in patterns:
        [program] = root.glob(pattern)
        version = {"mariadbd": "--version", "postgres": "--version"}.get(program.name, "-v")
        enclosed = ["unshare", "--user", "--map-root-user", "chroot", root, f"/{program.relative_to(root)}", version]
        subprocess.run(enclosed, check=True)
"""


def test_the_stack_starts_and_says_which_packages_it_runs(running: Checkout) -> None:
    status = running.make("status")

    assert status.returncode == 0, status.stdout
    for package in ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter"):
        assert re.search(rf"  [\d.]+\S*, package {package} of {re.escape(running.release.title)}", status.stdout)
    assert running.query("up") == {"alertmanager": 1, "node": 1, "perf": 1, "prometheus": 1, "sched": 1, "stack": 1}


def test_the_console_page_shows_this_machine(running: Checkout) -> None:
    page = running.overview()

    [row] = page.sections["Hosts"].rows
    assert re.fullmatch(r"\S+ \w+", row[1]), "a host and its platform"
    assert row[3] == "6 of 6"
    assert page.sections["Targets that don't answer"].text == "All answer."


def test_a_second_start_leaves_it_running(running: Checkout) -> None:
    processes = running.machine.processes()

    again = running.make("up")

    assert again.returncode == 0, again.stdout
    assert "was running already" in again.stdout
    assert running.machine.processes() == processes


def test_alertmanager_takes_an_alert(running: Checkout) -> None:
    amtool = [".stack/bin/amtool", f"--alertmanager.url=http://127.0.0.1:{running.ports['ALERTMANAGER_PORT']}"]

    added = running.run(*amtool, "alert", "add", "alertname=Sent", "host=somewhere")

    assert added.returncode == 0, added.stdout
    assert "Sent" in running.run(*amtool, "alert", "query", "host=somewhere").stdout


def test_down_leaves_no_process(running: Checkout) -> None:
    assert running.machine.processes()

    down = running.make("down")

    assert down.returncode == 0, down.stdout
    assert running.machine.processes() == []


def test_the_demo_plays(stopped: Checkout) -> None:
    demo = stopped.make("demo")
    try:
        assert demo.returncode == 0, demo.stdout
        status = stopped.make("status")
        assert status.returncode == 0, status.stdout
        assert stopped.query("count(vserver:cpu_usage:rate)")[""] > 0
        page = stopped.overview()
        assert "DEMO, not live" in page.sections[""].text
        hosts = dict(zip(page.sections["Hosts"].column("Host"), page.sections["Hosts"].column("CPU used"), strict=True))
        assert set(hosts) == {"demo-xen xen", "demo-kvm kvm", "demo-openvz openvz", "demo-base base"}
        assert all(re.match(r"\d+\.\d %", used) for used in hosts.values()), hosts
        assert len(page.sections["Applications"].rows) >= 9, "three objectives on each host"
        assert page.sections["Virtual servers"].rows
    finally:
        stopped.make("down")


def test_data_of_prometheus_3_is_refused_and_stays(stopped: Checkout) -> None:
    data = stopped.outside / ".stack" / "data"
    (data / "prometheus").mkdir(parents=True, exist_ok=True)
    (data / "prometheus-version").write_text("3.13.4\n")
    before = sorted(data.rglob("*"))

    up = stopped.make("up")

    (data / "prometheus-version").unlink()
    assert up.returncode != 0
    [line] = [line for line in up.stdout.splitlines() if line.startswith("error: ")]
    assert "was written by Prometheus 3.13.4" in line
    assert sorted(path for path in data.rglob("*") if path.name != "prometheus-version") == [
        path for path in before if path.name != "prometheus-version"
    ]
    assert stopped.machine.processes() == []


def test_where_users_may_make_no_namespaces_it_says_what_to_do(running: Checkout) -> None:
    """As on Ubuntu 24.04 and newer, by AppArmor; here `unshare` just says no."""
    refusing = running.machine.home / "refusing" / "unshare"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho unshare: write failed /proc/self/uid_map >&2; exit 1\n")
    refusing.chmod(0o755)

    asked = running.run(".stack/bin/alertmanager", "--version", PATH=f"{HOME}/refusing:/usr/bin:/bin")

    assert asked.returncode != 0
    copy = re.search(r"sudo cp -r (\S+) /usr/share/", asked.stdout)
    assert copy, asked.stdout
    assert (running.outside / copy[1] / "alertmanager" / "default.tmpl").is_file()


def test_the_servers_of_lab_and_tests_run(checkout: Checkout) -> None:
    done = checkout.run("python3", "-c", SERVERS)

    assert done.returncode == 0, done.stdout

    database = ["python3", "-c", "from lab.servers import database; database.template()"]
    made = checkout.machine.run(database, CHECKOUT, user=0)  # the lab needs root

    assert made.returncode == 0, made.stdout

"""The stack from the packages of the releases that docs/install.md names, for an ordinary user."""

import re

import pytest

from deploy.parts import OVERVIEW
from tests.console.page import Page
from tests.distributions.chroots import DEBIAN_12, DEBIAN_13, UBUNTU_24_04, UBUNTU_26_04
from tests.distributions.conftest import CHECKOUT, Checkout
from tests.distributions.machine import HOME

RELEASES = [DEBIAN_12, DEBIAN_13, UBUNTU_24_04, UBUNTU_26_04]
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),  # the first time a release is downloaded and installed
    pytest.mark.parametrize("checkout", RELEASES, indirect=True, ids=lambda release: release.suite, scope="module"),
]

# Each program uses its packages' own libraries, from the folder in which they are unpacked.
SERVERS = """
import subprocess
from deploy import programs
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


def test_the_stack_starts_shows_this_machine_and_stops(checkout: Checkout) -> None:
    checkout.must("up")
    status = checkout.must("status")
    for package in ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter"):
        assert re.search(rf"  [\d.]+\S*, package {package} of {re.escape(checkout.release.title)}", status)
    up = {series["metric"]["job"]: series["value"][1] for series in checkout.query("up")}
    assert up == dict.fromkeys(("alertmanager", "node", "perf", "prometheus", "sched", "stack"), "1")

    page = Page(checkout.get("PROMETHEUS_PORT", OVERVIEW).text)
    [row] = page.sections["Hosts"].rows
    assert re.fullmatch(r"\S+ \w+", row[1]), "a host and its platform"
    assert row[3] == "6 of 6"
    assert page.sections["Targets that don't answer"].text == "All answer."

    processes = checkout.machine.processes()
    assert "was running already" in checkout.must("up")
    assert checkout.machine.processes() == processes
    amtool = [".stack/bin/amtool", f"--alertmanager.url=http://127.0.0.1:{checkout.ports['ALERTMANAGER_PORT']}"]
    added = checkout.run(*amtool, "alert", "add", "alertname=Sent", "host=somewhere")
    assert added.returncode == 0, added.stdout
    assert "Sent" in checkout.run(*amtool, "alert", "query", "host=somewhere").stdout

    checkout.must("down")
    assert checkout.machine.processes() == []


def test_where_users_may_make_no_namespaces_it_says_what_to_do(checkout: Checkout) -> None:
    """As AppArmor does it on Ubuntu 24.04 and newer; here `unshare` fails."""
    checkout.must("up")
    refusing = checkout.machine.home / "refusing" / "unshare"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\necho unshare: write failed /proc/self/uid_map >&2; exit 1\n")
    refusing.chmod(0o755)

    asked = checkout.run(".stack/bin/alertmanager", "--version", PATH=f"{HOME}/refusing:/usr/bin:/bin")

    assert asked.returncode != 0
    copy = re.search(r"sudo cp -r (\S+) /usr/share/", asked.stdout)
    assert copy, asked.stdout
    assert (checkout.folder / copy[1] / "alertmanager" / "default.tmpl").is_file()


def test_the_servers_of_lab_and_tests_run(checkout: Checkout) -> None:
    done = checkout.run("python3", "-c", SERVERS)
    assert done.returncode == 0, done.stdout
    database = ["python3", "-c", "from lab.servers import database; database.template()"]
    made = checkout.machine.run(database, CHECKOUT, user=0)  # the lab needs root
    assert made.returncode == 0, made.stdout

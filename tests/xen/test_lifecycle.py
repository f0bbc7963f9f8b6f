"""A guest is renamed and migrates, and its values aren't mixed up with another's."""

import shlex
import threading
from collections.abc import Iterator

import pytest

from tests.support.waiting import wait_for
from tests.xen.exporters import Page, SecondExporter
from tests.xen.host import CREDIT, Guest, XenHost

pytestmark = pytest.mark.hosts(CREDIT)

SECONDS = 60  # for slow operations, in emulation
NAME = "lifecycle"
CPU = "xen_domain_cpu_seconds_total"


@pytest.fixture(scope="module")
def guest(xen: XenHost) -> Iterator[str]:
    """The name of a running guest. PVH, because PV guests can't migrate here."""
    domid = xen.create(Guest(8, NAME, duty=5, net=1, type="pvh", memory=80))
    xen.dom0(f"xl unpause {domid}")
    yield NAME
    xen.dom0(f"xl destroy {NAME}")


def wait_until_it_runs(xen: XenHost) -> None:
    """Wait until it pings Dom0: before that, it doesn't react to xl."""
    sent = "xen_domain_network_transmit_packets_total"
    wait_for(lambda: Page.of(xen.exporter).total(sent, domain=NAME), SECONDS, every=0.5)


def domid_of(xen: XenHost, name: str) -> str:
    return xen.dom0(f"xl domid {shlex.quote(name)}").strip()


def test_a_renamed_guest_continues_under_its_new_name_only(
    xen: XenHost, guest: str, text_exporter: SecondExporter
) -> None:
    domid = domid_of(xen, guest)
    before = Page.of(xen.exporter).value(CPU, domid=domid)
    xen.dom0(f"xl rename {guest} 'new name'")
    try:
        library, text = Page.of(xen.exporter), text_exporter.page_from_now()
    finally:
        xen.dom0(f"xl rename 'new name' {guest}")
    names = {sample.labels["domain"] for sample in library.samples if sample.labels.get("domid") == domid}
    assert names == {"new name"}
    assert library.value(CPU, domid=domid) >= before
    assert (library.of_guest(guest), text.of_guest(guest), text.of_guest("new name")) == (set(), set(), {""})


def test_an_incoming_migration_shows_under_a_name_of_its_own_until_it_has_taken_over(xen: XenHost, guest: str) -> None:
    """The guest migrates from this host to itself, so that both ends are visible."""
    wait_until_it_runs(xen)
    domid = domid_of(xen, guest)
    seen: dict[str, set[str]] = {}
    last: dict[str, float] = {}
    decreased: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for sample in Page.of(xen.exporter).all(CPU):
                if sample.labels["domain"].startswith(guest):
                    seen.setdefault(sample.labels["domid"], set()).add(sample.labels["domain"])
                    if sample.value < last.get(sample.labels["domid"], 0):
                        decreased.append(f"{sample} after {last}")
                    last[sample.labels["domid"]] = sample.value

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with xen.paused(domid_of(xen, "busy")):
            xen.dom0(f"xl migrate -s '' {guest} 'xl migrate-receive'", timeout=180)
    finally:
        done.set()
        watcher.join()
    new = domid_of(xen, guest)
    assert seen.keys() == {domid, new}
    assert guest in seen[domid]
    assert f"{guest}--incoming" in seen[new]
    assert decreased == []
    assert Page.of(xen.exporter).of_guest(guest) == {new}

"""Both sources on one host: xentop's text says what libxenstat says, as exactly as text can."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.xen.host import GUESTS, XenHost

pytestmark = pytest.mark.timeout(900)  # the first test also builds and boots

Series: TypeAlias = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""By metric name and labels, without domid: names are all that xentop's text has, and each is borne once here."""

PORT = 10291
READINGS = 5  # even with all guests paused, Dom0 itself may send them a packet while we look
WHOLE_SECONDS = ("xen_domain_cpu_seconds_total", "xen_vcpu_cpu_seconds_total")

# Each exporter asks xl at moments of its own, so that one may know what the other doesn't yet.
TOLD_BY_XL = {
    "xen_domain_info",
    "xen_domain_scheduler_weight",
    "xen_domain_scheduler_changes_total",
    "xen_domain_cpu_limit_cpus",
    "xen_vcpu_cpu",
    "xen_vcpu_affinity_info",
}


@dataclass(frozen=True)
class TextExporter:
    """A second exporter in Dom0, whose source is xentop."""

    xen: XenHost
    pid: str

    def child(self) -> str:
        """Its child's process id; fails unless there is exactly one."""
        statuses = self.xen.dom0(f"grep -l '^PPid:[[:space:]]*{self.pid}$' /proc/[0-9]*/status 2>/dev/null || true")
        [child] = [path.split("/")[2] for path in statuses.split()]
        return child

    def wait_for(self, up: bool, seconds: float = 60) -> Series:
        deadline = time.monotonic() + seconds
        while (page := scrape(self.xen, PORT)).get(("xentop_up", frozenset())) != up:
            assert time.monotonic() < deadline, self.xen.dom0("cat /var/log/text-exporter")
        return page


@pytest.fixture(scope="module")
def text_exporter(xen: XenHost) -> Iterator[TextExporter]:
    pid = xen.dom0(
        f"PYTHONPATH=/opt/virtscope setsid python3 -m virtscope.xentop --source=xentop"
        f" --web.listen-address=127.0.0.1:{PORT} >/var/log/text-exporter 2>&1 & echo $!"
    ).strip()
    xen.dom0("for i in $(seq 60); do grep -q listening /var/log/text-exporter && exit 0; sleep 1; done; exit 1", 90)
    exporter = TextExporter(xen, pid)
    try:
        yield exporter
    finally:
        xen.dom0(f"kill {pid}")


def scrape(xen: XenHost, port: int) -> Series:
    """Scrape an exporter from within Dom0; it must answer in 10 s."""
    fetch = (
        f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/metrics', timeout=10).read().decode())"
    )
    page = xen.dom0(f'PYTHONIOENCODING=utf-8 python3 -c "{fetch}"')
    return {
        (sample.name, frozenset((key, value) for key, value in sample.labels.items() if key != "domid")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def of_guests(series: Series) -> Series:
    names = {guest.name for guest in GUESTS}
    return {
        key: value for key, value in series.items() if names & set(dict(key[1]).values()) and key[0] not in TOLD_BY_XL
    }


def differences(library: Series, text: Series) -> dict[object, tuple[float, float]]:
    return {key: (value, text[key]) for key, value in library.items() if key in text and text[key] != value}


def test_both_say_the_same_of_guests_that_stand_still(xen: XenHost, text_exporter: TextExporter) -> None:
    text_exporter.wait_for(up=True)
    with xen.paused():
        begun = time.monotonic()
        for _ in range(READINGS):
            before = of_guests(scrape(xen, 10290))
            time.sleep(2)
            page = text_exporter.wait_for(up=True)
            while page["xentop_iteration_age_seconds", frozenset()] >= time.monotonic() - begun:
                page = text_exporter.wait_for(up=True)
            library, text = of_guests(scrape(xen, 10290)), of_guests(page)
            # xentop's figures are of a moment up to three seconds ago: a packet since then shows in neither or in both.
            time.sleep(3)
            if before == library == of_guests(scrape(xen, 10290)):
                break
        else:
            pytest.fail(f"the figures did not stand still in any of {READINGS} readings")
    assert library.keys() == text.keys()
    whole = {key: float(int(value)) if key[0] in WHOLE_SECONDS else value for key, value in library.items()}
    assert differences(whole, text) == {}
    assert any(value > 0 for (name, _), value in text.items() if name == "xen_domain_network_receive_bytes_total")
    assert any(value > 0 for (name, _), value in text.items() if name == "xen_domain_block_read_bytes_total")


def test_dom0_is_told_from_the_guests(xen: XenHost, text_exporter: TextExporter) -> None:
    text_exporter.wait_for(up=True)
    library, text = scrape(xen, 10290), scrape(xen, PORT)
    facts = [[dict(labels) for name, labels in page if name == "xen_domain_info"] for page in (library, text)]
    roles = [{each["domain"]: each["role"] for each in of_one} for of_one in facts]
    assert roles[0] == roles[1]


def test_a_killed_xentop_is_started_again(xen: XenHost, text_exporter: TextExporter) -> None:
    starts = ("xentop_child_starts_total", frozenset[tuple[str, str]]())
    before = text_exporter.wait_for(up=True)[starts]
    killed = text_exporter.child()
    xen.dom0(f"kill -9 {killed}")
    deadline = time.monotonic() + 60
    while text_exporter.wait_for(up=True)[starts] == before:
        assert time.monotonic() < deadline
    assert text_exporter.child() != killed


def test_a_stopped_xentop_holds_up_no_scrape_and_is_replaced(text_exporter: TextExporter) -> None:
    text_exporter.wait_for(up=True)
    stopped = text_exporter.child()
    text_exporter.xen.dom0(f"kill -STOP {stopped}")
    page = text_exporter.wait_for(up=False)
    assert not any(name == "xen_domain_cpu_seconds_total" for name, _ in page), "old figures must not pass for new ones"
    text_exporter.wait_for(up=True)
    assert text_exporter.child() != stopped

"""Both sources on one host: xentop's text agrees with libxenstat, as precisely as text can."""

from __future__ import annotations

import time

import pytest

from tests.support.pages import Series
from tests.xen.exporters import Page, SecondExporter
from tests.xen.host import GUESTS, XenHost

READINGS = 5  # even with all guests paused, Dom0 itself may send them a packet while we look
WHOLE_SECONDS = ("xen_domain_cpu_seconds_total", "xen_vcpu_cpu_seconds_total")
MOVED = {
    *("xen_domain_cpu_seconds_total", "xen_vcpu_cpu_seconds_total", "xen_vcpu_online", "xen_domain_vcpus"),
    *("xen_domain_memory_bytes", "xen_domain_memory_limit_bytes", "xen_domain_state"),
    *(f"xen_domain_network_{way}_{what}_total" for way in ("receive", "transmit") for what in ("bytes", "packets")),
    *(f"xen_domain_block_{way}_{what}_total" for way in ("read", "write") for what in ("bytes", "requests")),
}

# Each exporter runs xl on its own schedule, so one may know what the other doesn't yet.
FROM_XL = {
    "xen_domain_info",
    "xen_domain_scheduler_weight",
    "xen_domain_scheduler_changes_total",
    "xen_domain_cpu_limit_cpus",
    "xen_vcpu_cpu",
    "xen_vcpu_affinity_info",
}


def without_domid(page: Page) -> Series:
    """xentop's text has only names; here each is used once."""
    return {
        (name, frozenset((key, value) for key, value in labels if key != "domid")): value
        for (name, labels), value in page.series().items()
    }


def of_guests(series: Series) -> Series:
    names = {guest.name for guest in GUESTS}
    return {key: value for key, value in series.items() if names & set(dict(key[1]).values()) and key[0] not in FROM_XL}


def test_both_agree_on_paused_guests(xen: XenHost, text_exporter: SecondExporter) -> None:
    def read_library() -> Series:
        return of_guests(without_domid(Page.of(xen.exporter)))

    text_exporter.wait_until(up=True)
    with xen.paused():
        for _ in range(READINGS):
            before = read_library()
            text = of_guests(without_domid(text_exporter.page_from_now()))
            library = read_library()
            # xentop's values are up to three seconds old: a packet since then shows in neither or in both.
            time.sleep(3)
            if before == library == read_library():
                break
        else:
            pytest.fail(f"values changed during each of {READINGS} readings")
    assert library.keys() == text.keys()
    whole = {key: float(int(value)) if key[0] in WHOLE_SECONDS else value for key, value in library.items()}
    assert {key: (value, text[key]) for key, value in whole.items() if text[key] != value} == {}
    assert {name for (name, _), value in text.items() if value > 0} >= MOVED, "equal zeros prove nothing"


def test_dom0_is_distinguished_from_the_guests(xen: XenHost, text_exporter: SecondExporter) -> None:
    pages = Page.of(xen.exporter), text_exporter.wait_until(up=True)
    library, text = (
        {sample.labels["domain"]: sample.labels["role"] for sample in page.all("xen_domain_info")} for page in pages
    )
    assert library == text


def test_a_killed_xentop_is_restarted(xen: XenHost, text_exporter: SecondExporter) -> None:
    starts = "xentop_child_starts_total"
    before = text_exporter.wait_until(up=True).value(starts)
    killed = text_exporter.child()
    xen.dom0(f"kill -9 {killed}")
    text_exporter.page_with(lambda page: page.value("xentop_up") == 1 and page.value(starts) > before)
    assert text_exporter.child() != killed


def test_a_stopped_xentop_delays_no_scrape_and_is_replaced(text_exporter: SecondExporter) -> None:
    text_exporter.wait_until(up=True)
    stopped = text_exporter.child()
    text_exporter.xen.dom0(f"kill -STOP {stopped}")
    page = text_exporter.wait_until(up=False)
    assert page.all("xen_domain_cpu_seconds_total") == [], "old values must not pass for new ones"
    text_exporter.wait_until(up=True)
    assert text_exporter.child() != stopped

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
    *(*WHOLE_SECONDS, "xen_vcpu_online", "xen_domain_vcpus"),
    *("xen_domain_memory_bytes", "xen_domain_memory_limit_bytes", "xen_domain_state"),
    *(f"xen_domain_network_{way}_{what}_total" for way in ("receive", "transmit") for what in ("bytes", "packets")),
    *(f"xen_domain_block_{way}_{what}_total" for way in ("read", "write") for what in ("bytes", "requests")),
}
# Each exporter runs xl on its own schedule, so one may know what the other doesn't yet.
FROM_XL = {
    *("xen_domain_info", "xen_domain_scheduler_weight", "xen_domain_scheduler_changes_total"),
    *("xen_domain_cpu_limit_cpus", "xen_vcpu_cpu", "xen_vcpu_affinity_info"),
}


def of_guests(page: Page) -> Series:
    """Series of guests without ids: xentop's text has only names, each of which is used once here."""
    names = {guest.name for guest in GUESTS}
    return {
        (name, frozenset((key, value) for key, value in labels if key != "domid")): value
        for (name, labels), value in page.series().items()
        if names & set(dict(labels).values()) and name not in FROM_XL
    }


def test_both_agree_on_paused_guests(xen: XenHost, text_exporter: SecondExporter) -> None:
    text_exporter.wait_until_up()
    with xen.paused():
        for _ in range(READINGS):
            before = of_guests(Page.of(xen.exporter))
            text_page = text_exporter.page_from_now()
            page = Page.of(xen.exporter)
            # xentop's values are up to three seconds old: a packet since then shows in neither or in both.
            time.sleep(3)
            library = of_guests(page)
            if before == library == of_guests(Page.of(xen.exporter)):
                break
        else:
            pytest.fail(f"values changed during each of {READINGS} readings")
    text = of_guests(text_page)
    assert library.keys() == text.keys()
    whole = {key: float(int(value)) if key[0] in WHOLE_SECONDS else value for key, value in library.items()}
    assert {key: (value, text[key]) for key, value in whole.items() if text[key] != value} == {}
    assert {name for (name, _), value in text.items() if value > 0} >= MOVED, "equal zeros prove nothing"
    roles, roles_in_text = (
        {sample.labels["domain"]: sample.labels["role"] for sample in each.all("xen_domain_info")}
        for each in (page, text_page)
    )
    assert roles == roles_in_text, "Dom0 is distinguished from the guests"

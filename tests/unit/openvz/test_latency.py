"""The whole host's waits, from the kernel's text to samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.openvz import fake_host
from virtscope.openvz import latency
from virtscope.openvz.vestat import Units

HOSTS = Path(__file__).resolve().parents[2] / "fixtures/openvz"
NANOSECONDS = Units("nanoseconds", 10**9, 1000, "/proc/vz/stats")
CYCLES = Units("cycles", 3_000_112_000, 250, "/proc/vz/stats")


def text_of(host: str) -> str:
    return (HOSTS / host / "proc/vz/latency").read_text()


def exposed(text: str, units: Units | None) -> dict[tuple[str, ...], float]:
    return fake_host.exposed(latency.families(latency.parse(text), units), "openvz_host_latency_")


def test_a_kernel_that_counts_cycles() -> None:
    found = exposed(text_of("one-container"), CYCLES)
    assert found["seconds_total", "scheduling"] == 3000
    assert found["max_seconds", "scheduling"] == pytest.approx(0.01)
    assert found["calls_total", "scheduling"] == 40_000_000
    assert found["seconds_total", "aloclow"] == pytest.approx(10, rel=1e-4)
    assert found["seconds_total", "swap_in"] == 2
    assert found["seconds_total", "page_in"] == 1


def test_a_kernel_that_counts_nanoseconds() -> None:
    for host in ("x86_64-2.6.32-nanoseconds", "virtuozzo7-uuids"):
        found = exposed(text_of(host), NANOSECONDS)
        assert found["seconds_total", "scheduling"] == 5123.7
        assert found["max_seconds", "scheduling"] == 0.008
        assert found["calls_total", "scheduling"] == 91355210
        # These are cycles even there, of a clock whose rate is not given.
        assert ("seconds_total", "swap_in") not in found
        assert ("max_seconds", "page_in") not in found
        assert found["calls_total", "swap_in"] == 6000
    # Sections that follow are not taken for waits.
    kinds = [wait.kind for wait in latency.parse(text_of("virtuozzo7-uuids")).waits]
    allocations = ["alocatomic", "aloclow", "alochigh", "aloclowmp", "alochighmp", "alocirq"]
    assert kinds == ["scheduling", *allocations, "swap_in", "page_in"]


def test_without_units_there_are_counts_alone() -> None:
    assert {name for name, *_ in exposed(text_of("one-container"), None)} == {
        "calls_total",
        "openvz_latency_refused_rows",
    }


def test_a_malformed_row_costs_only_itself_and_a_malformed_text_is_counted() -> None:
    good = text_of("x86_64-2.6.32-nanoseconds")
    changes = (("scheduling:  ", "scheduling"), (" 91355210", ""), (" 91355210", " -1"), ("aloclow:", "scheduling:"))
    for old, new in changes:
        found = latency.parse(good.replace(old, new, 1))
        assert (len(found.waits), found.refused) == (len(latency.parse(good).waits) - 1, 1), new
    for text in ("", "malformed", "Version: 2.5\n\nLatencies:\nType Lat Calls\nscheduling: 1 2\n\n"):
        assert latency.parse(text) == ((), 1)


def test_a_kind_and_a_column_to_come() -> None:
    text = "Version: 3.0\n\nLatencies:\nType Lat Total_lat Calls Hue\nfsync: 1 2000000000 3 4\n\n"
    assert exposed(text, NANOSECONDS)["seconds_total", "fsync"] == 2

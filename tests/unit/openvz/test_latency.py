"""The whole host's waits beyond tests/golden/openvz-*.prom."""

from pathlib import Path

from tests.unit.openvz import fake_host
from virtscope.openvz import latency
from virtscope.openvz.vestat import Units

HOSTS = Path(__file__).resolve().parents[2] / "fixtures/openvz"
NANOSECONDS = Units("nanoseconds", 10**9, 1000, "/proc/vz/stats")
CYCLES = Units("cycles", 2_000_000_000, 250, "/proc/vz/stats")


def text_of(host: str) -> str:
    return (HOSTS / host / "proc/vz/latency").read_text()


def exposed(text: str, units: Units | None) -> dict[tuple[str, ...], float]:
    return fake_host.exposed(latency.families(latency.parse(text), units), "openvz_host_latency_")


def test_waits_are_in_the_units_of_the_kernel_and_swap_s_in_cycles() -> None:
    text = text_of("x86_64-2.6.32-nanoseconds")
    found = exposed(text, CYCLES)
    assert [found["seconds_total", kind] for kind in ("scheduling", "swap_in", "page_in")] == [2561.85, 36, 24]
    found = exposed(text, NANOSECONDS)
    assert (found["seconds_total", "scheduling"], found["max_seconds", "scheduling"]) == (5123.7, 0.008)
    # These are cycles in any kernel, of a clock with unknown rate.
    assert found["calls_total", "swap_in"] == 6000
    assert not {("seconds_total", "swap_in"), ("max_seconds", "page_in")} & found.keys()
    assert {name for name, *_ in exposed(text, None)} == {*("calls_total", "openvz_latency_refused_rows")}


def test_a_malformed_row_costs_only_itself_and_a_malformed_text_is_counted() -> None:
    good = text_of("x86_64-2.6.32-nanoseconds")
    changes = (("scheduling:  ", "scheduling"), (" 91355210", ""), (" 91355210", " -1"), ("aloclow:", "scheduling:"))
    for old, new in changes:
        found = latency.parse(good.replace(old, new, 1))
        assert (len(found.waits), found.refused) == (len(latency.parse(good).waits) - 1, 1), new
    for text in ("", "malformed", "Version: 2.5\n\nLatencies:\nType Lat Calls\nscheduling: 1 2\n\n"):
        assert latency.parse(text) == ((), 1)


def test_kinds_columns_and_sections_to_come() -> None:
    text = "Version: 3.0\n\nLatencies:\nType Lat Total_lat Calls Hue\nfsync: 1 2000000000 3 4\n\n"
    assert exposed(text, NANOSECONDS)["seconds_total", "fsync"] == 2
    kinds = [wait.kind for wait in latency.parse(text_of("virtuozzo7-uuids")).waits]
    assert (len(kinds), kinds[-1]) == (9, "page_in")

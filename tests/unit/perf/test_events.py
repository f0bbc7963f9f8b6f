"""Event names, on machines of several kinds (tests/fixtures/sysfs), into what the kernel expects."""

from __future__ import annotations

from pathlib import Path

from tests.support.refusals import assert_refused
from virtscope.perf.events import Event, EventAbsent, EventError, resolve
from virtscope.perf.kernel import Attr

MACHINES = Path(__file__).resolve().parents[2] / "fixtures/sysfs"
INTEL, AMD, HYBRID, NONE = (
    MACHINES / name for name in ("intel-two-sockets", "amd-two-caches", "intel-hybrid", "no-counters")
)


def test_names_that_every_machine_knows() -> None:
    for name, attr in (
        ("cycles", Attr(0, 0)),
        ("instructions", Attr(0, 1)),
        ("cache-misses", Attr(0, 3)),
        ("branch-misses", Attr(0, 5)),
        # cache | operation << 8 | result << 16
        ("L1-dcache-loads", Attr(3, 0x00000)),
        ("L1-dcache-load-misses", Attr(3, 0x10000)),
        ("LLC-load-misses", Attr(3, 0x10002)),
        ("LLC-stores", Attr(3, 0x00102)),
        ("L1-icache-prefetches", Attr(3, 0x00201)),
        ("dTLB-load-misses", Attr(3, 0x10003)),
        ("iTLB-load-misses", Attr(3, 0x10004)),
        ("cpu-clock", Attr(1, 0)),
        ("page-faults", Attr(1, 2)),
        ("context-switches", Attr(1, 3)),
        ("emulation-faults", Attr(1, 8)),
        ("r01c2", Attr(4, 0x1C2)),
    ):
        (event,) = resolve(name, INTEL)
        assert (event.attr, event.cpu_list, event.pmu) == (attr, None, ""), name


def test_codes_formats_and_bits_that_lie_apart() -> None:
    """AMD's event number has its upper four bits at 32 to 35."""
    for name, machine, attr in (
        ("cpu/event=0xcd,umask=0x1,inv/", INTEL, Attr(4, 0xCD | 0x1 << 8 | 1 << 23)),
        ("cpu/mem-loads/", INTEL, Attr(4, 0x1CD, config1=3)),  # sysfs lists it
        ("cpu/event=0x18c,umask=0x2/", AMD, Attr(4, 0x8C | 0x2 << 8 | 0x1 << 32)),
    ):
        assert [event.attr for event in resolve(name, machine)] == [attr]
    (event,) = resolve("task-clock", NONE)
    assert (event.unit, event.scale, event.hardware) == ("seconds", 1e-9, False)


def test_a_cache_outside_of_the_cores_is_read_on_one_cpu_of_each() -> None:
    (event,) = resolve("amd_l3/l3_misses/", AMD)
    assert event == Event(
        "amd_l3/l3_misses/",
        "amd_l3",
        Attr(10, 0x04 | 0x01 << 8 | 1 << 46 | 1 << 47 | 3 << 56),
        AMD / "bus/event_source/devices/amd_l3/cpumask",
        system_wide=True,
    )


def test_a_hypervisor_may_give_guests_the_cores_counters() -> None:
    for name, machine, of_core in (
        ("cycles", INTEL, True),
        ("instructions", HYBRID, True),
        ("context-switches", INTEL, False),
        ("amd_l3/l3_misses/", AMD, False),
    ):
        assert {event.of_core for event in resolve(name, machine)} == {of_core}, name


def test_one_name_stands_for_all_numbered_pmus() -> None:
    events = resolve("uncore_imc/cas_count_read/", INTEL)
    devices = INTEL / "bus/event_source/devices"
    assert [(event.pmu, event.attr.type, event.cpu_list) for event in events] == [
        ("uncore_imc_0", 13, devices / "uncore_imc_0/cpumask"),
        ("uncore_imc_1", 14, devices / "uncore_imc_1/cpumask"),
    ]
    assert {(event.unit, event.scale) for event in events} == {("bytes", 64.0)}


def test_two_kinds_of_cores_are_two_events() -> None:
    """The PMU's type is in the upper half of config: PERF_PMU_CAP_EXTENDED_HW_TYPE."""
    devices = HYBRID / "bus/event_source/devices"
    assert resolve("instructions", HYBRID) == [
        Event("instructions", "cpu_atom", Attr(0, 10 << 32 | 1), devices / "cpu_atom/cpus"),
        Event("instructions", "cpu_core", Attr(0, 4 << 32 | 1), devices / "cpu_core/cpus"),
    ]
    assert [event.pmu for event in resolve("LLC-load-misses", HYBRID)] == ["cpu_atom", "cpu_core"]
    assert [event.pmu for event in resolve("task-clock", HYBRID)] == [""]
    assert [(event.pmu, event.attr) for event in resolve("r3c", HYBRID)] == [
        ("cpu_atom", Attr(10, 0x3C)),
        ("cpu_core", Attr(4, 0x3C)),
    ]


def test_an_event_that_this_machine_does_not_have() -> None:
    for name, problem in (
        ("amd_l3/l3_misses/", "no PMU 'amd_l3'"),
        ("uncore_imc/nothing/", "has no event 'nothing'"),
        ("cpu/event=0x1ff/", "can't take the term 'event=0x1ff'"),
        ("cpu/colour=3/", "can't take the term 'colour=3'"),
        ("cpu/event=x/", "can't take the term 'event=x'"),
        ("cpu/config=0x10000000000000000/", "can't take the term 'config=0x1"),
        ("cpu/config=-1/", "can't take the term 'config=-1'"),
        ("cpu/../", "no event"),
    ):
        assert name in assert_refused(EventAbsent, problem, resolve, name, INTEL)


def test_what_is_no_event_on_any_machine() -> None:
    names = ("cachemisses", "cache-mises", "Cache-Misses", "r", "cpu/", "", "cycles:u", ".//", "../devices/")
    for name in (*names, f"{'x' * 300}/x/"):
        assert repr(name) in assert_refused(EventError, "is no event", resolve, name, INTEL)
    assert_refused(EventError, "but cache-misses is", resolve, "cache-mises", INTEL)


def power(sysfs: Path, beside: dict[str, str]) -> Path:
    """Make a sysfs with one PMU of one event."""
    pmu = sysfs / "bus/event_source/devices/power"
    for name in ("events", "format"):
        (pmu / name).mkdir(parents=True)
    (pmu / "type").write_text("22\n")
    (pmu / "cpumask").write_text("0\n")
    (pmu / "format/event").write_text("config:0-7\n")
    (pmu / "events/energy-pkg").write_text("event=0x02\n")
    for what, text in beside.items():
        (pmu / f"events/energy-pkg.{what}").write_text(f"{text}\n")
    return sysfs


def test_units_become_base_units_and_what_is_no_count_of_one_is_left_out(tmp_path: Path) -> None:
    for number, (printed, scale, unit, factor) in enumerate(
        (
            ("Joules", "2.3283064365386962890625e-10", "joules", 2.0**-32),
            ("MiB", "1", "bytes", 1 << 20),
            ("GiB", "2", "bytes", 2 << 30),
        )
    ):
        (event,) = resolve("power/energy-pkg/", power(tmp_path / f"{number}", {"unit": printed, "scale": scale}))
        assert (event.unit, event.scale) == (unit, factor)
    for beside, problem in (({"unit": "C"}, "is in 'C'"), ({"snapshot": "1"}, "counts nothing")):
        assert_refused(EventAbsent, problem, resolve, "power/energy-pkg/", power(tmp_path / problem, beside))

"""Event names on machines of several kinds (tests/fixtures/sysfs), translated for the kernel."""

from pathlib import Path

from tests.support.refusals import assert_refused
from virtscope.perf.events import Event, EventAbsent, EventError, resolve
from virtscope.perf.kernel import Attr

MACHINES = Path(__file__).resolve().parents[2] / "fixtures/sysfs"
INTEL, AMD, HYBRID, NONE = (
    MACHINES / name for name in ("intel-two-sockets", "amd-two-caches", "intel-hybrid", "no-counters")
)


def test_names_that_every_machine_knows() -> None:
    hardware = {"cycles": 0, "instructions": 1, "cache-misses": 3, "branch-misses": 5}
    software = {"cpu-clock": 0, "page-faults": 2, "context-switches": 3, "emulation-faults": 8}
    caches = {  # cache | operation << 8 | result << 16
        "L1-dcache-loads": 0x00000,
        "L1-dcache-load-misses": 0x10000,
        "LLC-load-misses": 0x10002,
        "LLC-stores": 0x00102,
        "L1-icache-prefetches": 0x00201,
        "iTLB-load-misses": 0x10004,
    }
    for kind, configs in ((0, hardware), (1, software), (3, caches), (4, {"r01c2": 0x1C2})):
        for name, config in configs.items():
            (event,) = resolve(name, INTEL)
            assert (event.attr, event.cpu_list, event.pmu) == (Attr(kind, config), None, ""), name


def test_codes_formats_and_bits_that_lie_apart() -> None:
    """AMD's event number has its upper four bits at 32 to 35."""
    for name, machine, attr in (
        ("cpu/event=0xcd,umask=0x1,inv/", INTEL, Attr(4, 0xCD | 0x1 << 8 | 1 << 23)),
        ("cpu/mem-loads/", INTEL, Attr(4, 0x1CD, config1=3)),  # listed in sysfs
        ("cpu/event=0x18c,umask=0x2/", AMD, Attr(4, 0x8C | 0x2 << 8 | 0x1 << 32)),
    ):
        assert [event.attr for event in resolve(name, machine)] == [attr]
    (event,) = resolve("task-clock", NONE)
    assert (event.unit, event.scale, event.hardware) == ("seconds", 1e-9, False)


def test_a_cache_outside_of_the_cores_is_read_on_one_cpu_of_each() -> None:
    (event,) = resolve("amd_l3/l3_misses/", AMD)
    attr, cpus = (
        Attr(10, 0x04 | 0x01 << 8 | 1 << 46 | 1 << 47 | 3 << 56),
        AMD / "bus/event_source/devices/amd_l3/cpumask",
    )
    assert event == Event("amd_l3/l3_misses/", "amd_l3", attr, cpus, system_wide=True)


def test_a_hypervisor_may_give_guests_the_cores_counters() -> None:
    of_core = {("cycles", INTEL): True, ("instructions", HYBRID): True, ("context-switches", INTEL): False}
    of_core["amd_l3/l3_misses/", AMD] = False
    assert {key: all(event.of_core for event in resolve(*key)) for key in of_core} == of_core


def test_one_name_stands_for_all_numbered_pmus() -> None:
    events, devices = resolve("uncore_imc/cas_count_read/", INTEL), INTEL / "bus/event_source/devices"
    assert [(event.pmu, event.attr.type, event.cpu_list, event.unit, event.scale) for event in events] == [
        (f"uncore_imc_{number}", 13 + number, devices / f"uncore_imc_{number}/cpumask", "bytes", 64.0)
        for number in (0, 1)
    ]


def test_two_kinds_of_cores_are_two_events() -> None:
    """The PMU's type is in the upper half of config: PERF_PMU_CAP_EXTENDED_HW_TYPE."""
    devices = HYBRID / "bus/event_source/devices"
    assert resolve("instructions", HYBRID) == [
        Event("instructions", "cpu_atom", Attr(0, 10 << 32 | 1), devices / "cpu_atom/cpus"),
        Event("instructions", "cpu_core", Attr(0, 4 << 32 | 1), devices / "cpu_core/cpus"),
    ]
    assert [event.pmu for event in resolve("LLC-load-misses", HYBRID)] == ["cpu_atom", "cpu_core"]
    assert [event.pmu for event in resolve("task-clock", HYBRID)] == [""]
    assert [event.attr for event in resolve("r3c", HYBRID)] == [Attr(10, 0x3C), Attr(4, 0x3C)]


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
    names = ("cachemisses", "Cache-Misses", "r", "cpu/", "", "cycles:u", ".//", "../devices/")
    for name in (*names, f"{'x' * 300}/x/"):
        assert repr(name) in assert_refused(EventError, "is no event", resolve, name, INTEL)
    assert_refused(EventError, "but cache-misses is", resolve, "cache-mises", INTEL)


def test_units_become_base_units_and_what_is_no_count_of_one_is_left_out(tmp_path: Path) -> None:
    """Joules are in a golden page."""
    pmu = tmp_path / "bus/event_source/devices/power"
    for name in ("events", "format"):
        (pmu / name).mkdir(parents=True)
    files = {"type": "22", "cpumask": "0", "format/event": "config:0-7", "events/energy-pkg": "event=0x02"}
    for name, text in {**files, "events/energy-pkg.unit": "GiB", "events/energy-pkg.scale": "2"}.items():
        (pmu / name).write_text(f"{text}\n")
    (event,) = resolve("power/energy-pkg/", tmp_path)
    assert (event.unit, event.scale) == ("bytes", 2 << 30)
    for name, text, problem in (("unit", "C", "is in 'C'"), ("snapshot", "1", "counts nothing")):
        (pmu / f"events/energy-pkg.{name}").write_text(f"{text}\n")
        assert_refused(EventAbsent, problem, resolve, "power/energy-pkg/", tmp_path)

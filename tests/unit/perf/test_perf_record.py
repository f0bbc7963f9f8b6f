"""Rounds of a fake perf: its arguments, and the reports of its failures."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.refusals import assert_refused
from tests.support.waiting import wait_for
from tests.unit.perf.fake_perf import FakePerf
from virtscope.perf import perf_record
from virtscope.perf.perf_record import PerfRecord, Profiler, Sampled, Xensyms
from virtscope.toolkit import bounded
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable

CLOCK, MISSES = Sampled("cpu-clock", None), Sampled("cache-misses", 10000)


@pytest.fixture
def perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePerf:
    (tmp_path / "sys").mkdir()
    fake = FakePerf(tmp_path)
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    return fake


@pytest.fixture
def source(perf: FakePerf, tmp_path: Path) -> Iterator[PerfRecord]:
    assert perf
    source = PerfRecord([CLOCK, MISSES], 0.1, 99, str(tmp_path / "proc"), str(tmp_path / "sys"))
    yield source
    source.commands.close()


def set_pmu_mode(folder: Path, mode: str) -> None:
    (folder / "sys/hypervisor/pmu").mkdir(parents=True)
    (folder / "sys/hypervisor/pmu/pmu_mode").write_text(f"{mode}\n")


def test_an_event_with_or_without_a_period() -> None:
    events = {
        "cpu-clock": "cpu-clock",
        "cache-misses@10000": "cache-misses/period=10000/",
        "cpu/event=0x3c,umask=1/@7": "cpu/event=0x3c,umask=1,period=7/",
        "sched:sched_switch@5": "sched:sched_switch/period=5/",
    }
    assert {text: Sampled.parse(text).in_perfs_words() for text in events} == events
    for text in ("", "@5", "cycles@", "cycles@0", "cycles@1k", "a b", "{a,b}", "cycles@1@2"):
        assert_refused(argparse.ArgumentTypeError, "cache-misses@10000", Sampled.parse, text)


def test_a_round_samples_the_whole_machine_and_says_what_fell_where(source: PerfRecord, perf: FakePerf) -> None:
    found, _ = source.read()
    shown = {place.symbol: tuple(hits) for place, hits in found.profile.items()}
    assert shown == {"main": (3, 30 * 1e-9), "copy_page": (1, 10 * 1e-9)}
    assert found.lost == 3
    record, report = perf.asked()
    assert record.startswith("record -o /proc/")
    assert " -a " in record
    assert " -F 99 -e cpu-clock -e cache-misses/period=10000/ " in record
    assert record.endswith(" -- sleep 0.1")
    assert report.startswith("report -i /proc/")


@pytest.mark.parametrize(
    ("mode", "scope"),
    [("all", perf_record.ALL_OF_XEN), ("hv", perf_record.WITH_XEN), ("self", perf_record.THIS_KERNEL)],
)
def test_xens_pmu_mode_decides_how_far_hardware_events_are_sampled(
    source: PerfRecord, perf: FakePerf, tmp_path: Path, mode: str, scope: str
) -> None:
    set_pmu_mode(tmp_path, mode)
    assert source.read()[1] == {CLOCK: perf_record.THIS_KERNEL, MISSES: scope}
    assert perf.asked()[0].startswith("kvm --host --guest record -o " if mode == "all" else "record -o ")


def test_on_a_kvm_host_guests_are_sampled_too_and_nothing_of_a_round_stays_open(
    source: PerfRecord, perf: FakePerf, tmp_path: Path
) -> None:
    (tmp_path / "sys/module/kvm_amd").mkdir(parents=True)
    assert source.read()[1][MISSES] == perf_record.WITH_GUESTS
    assert all(line.startswith("kvm --host --guest re") for line in perf.asked())
    before = len(list(Path("/proc/self/fd").iterdir()))
    source.read()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_hypervisors_symbols_are_read_where_it_is_sampled(
    source: PerfRecord, perf: FakePerf, tmp_path: Path
) -> None:
    """Of its range, ffff800000000000 to ffff87ffffffffff, alone: Documentation/arch/x86/x86_64/mm.rst."""
    perf.reports(
        "# Samples: 4  of event 'cycles'\\n# Overhead\\tSamples\\tPeriod\\tShared Object\\tSymbol\\n"
        "99.00%\\t4\\t4\\t[unknown]\\t[k] 0xffff82d040201abc\\n"
    )
    set_pmu_mode(tmp_path, "hv")
    (tmp_path / "proc/xen").mkdir(parents=True)
    (tmp_path / "proc/xen/xensyms").write_text("ffff82d040201000 T do_softirq\n")
    assert [(place.image, place.symbol) for place in source.read()[0].profile] == [("xen-syms", "do_softirq")]
    symbols = Xensyms("ffff800000000000 T first\nffff87ffffffffff T last\n")
    named = {"0xffff7fffffffffff": "", "0xffff800000000000": "first", "ffff87fffffffffe": "first"}
    named |= {"ffff87ffffffffff": "last", "ffff880000000000": ""}
    assert {address: symbols.symbol(address) for address in named} == named


def test_why_nothing_was_recorded(
    source: PerfRecord, perf: FakePerf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for script, kind, words in (
        ("echo 'perf_event_paranoid setting is 2:' >&2; exit 255", SourceUnavailable, "CAP_PERFMON"),
        ("echo 'The cache-misses event is not supported.' >&2; exit 255", SourceUnavailable, "no event 'cache-misses'"),
        ("echo \"event syntax error: 'nonsense'\" >&2; exit 129", SourceUnavailable, "no event 'nonsense'"),
        ("echo 'WARNING: perf not found for kernel 6.8.0' >&2; exit 2", SourceUnavailable, "not installed"),
        ("echo 'failed to write: No space left on device' >&2; exit 255", SourceError, "No space left"),
        ("kill -9 $$", SourceError, "ended by signal 9"),
    ):
        perf.record(script)
        with pytest.raises(kind, match=words) as caught:
            source.read()
        assert isinstance(caught.value, SourceUnavailable) == (kind is SourceUnavailable), script
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceUnavailable, match="linux-perf"):
        PerfRecord([CLOCK], 1, 99).read()


def test_what_perf_records_is_bounded_by_the_kernel(source: PerfRecord, perf: FakePerf) -> None:
    perf.record('head -c 90000000 /dev/zero > "$data"; wc -c < "$data" > "$folder/size"; exit 1')
    with pytest.raises(SourceError, match=r"more than 32 MiB; .*--profile\.seconds"):
        source.read()
    assert int((perf.folder / "size").read_text()) == 32 << 20


def test_an_old_python_records_into_shared_memory(
    source: PerfRecord, perf: FakePerf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python built for CentOS 7's C library, as on XCP-ng 8 and OpenVZ 7, lacks memfd_create."""
    monkeypatch.delattr(os, "memfd_create")
    perf.record('readlink "$data" > "$folder/link"; echo data > "$data"')
    assert source.read()[0].profile
    link = (perf.folder / "link").read_text()
    assert (link[:9], link[-11:]) == ("/dev/shm/", " (deleted)\n"), "it has no name that could be left behind"
    monkeypatch.setattr(bounded, "SHARED_MEMORY", str(perf.folder / "missing"))
    with pytest.raises(SourceError, match=r"neither memfd_create nor a .*/missing"):
        source.read()


def test_a_report_that_fails_is_malformed_or_hides_the_kernel_s_symbols(source: PerfRecord, perf: FakePerf) -> None:
    perf.report("echo 'incompatible file format' >&2; exit 1")
    with pytest.raises(SourceError, match="incompatible file format"):
        source.read()
    perf.report("echo hello")
    with pytest.raises(SourceMalformed, match="hello"):
        source.read()
    perf.report('echo "Check /proc/sys/kernel/kptr_restrict before running" >&2; cat "$folder/report"')
    source.read()
    assert "CAP_SYSLOG" in source.origin()


def test_a_round_that_fails_adds_nothing_and_is_counted(
    source: PerfRecord, perf: FakePerf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtscope.toolkit.collect.OLDEST", 6000)  # rounds, of 0.2 s
    profiler = Profiler(source, interval=0.2, symbols=10)
    with profiler.background:
        wait_for(lambda: profiler.background.cost.reads >= 1)
        perf.record("exit 7")
        wait_for(lambda: profiler.background.failures["error"] >= 1)
        perf.record('echo data > "$data"')
        reads = profiler.background.cost.reads
        wait_for(lambda: profiler.background.cost.reads >= reads + 2)  # the current one may still fail
        samples = [sample for family in profiler.read() for sample in family.samples]
        rounds = profiler.background.cost.reads - profiler.background.failures["error"]
        (lost,) = [sample.value for sample in samples if sample.name == "perf_profile_lost_samples_total"]
        assert abs(lost - 3 * rounds) <= 3  # another may be running
        paces = {sample.labels["event"]: sample.labels["pace"] for sample in samples if "pace" in sample.labels}
        assert paces == {"cpu-clock": f"{source.frequency} Hz", "cache-misses": "each 10000th"}

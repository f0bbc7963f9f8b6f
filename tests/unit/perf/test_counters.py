"""Events opened, closed and left out, and their messages, on a fake kernel with too few counters."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.unit.perf.fake_kernel import FakeKernel, FakeMachine
from virtscope.perf import groups
from virtscope.perf.cgroups import Cgroup
from virtscope.perf.counters import RETRY_SECONDS, Counters, Counts
from virtscope.perf.kernel import Attr

CACHE = ["cycles", "instructions", "cache-references", "cache-misses"]
TLB = ["instructions", "dTLB-load-misses", "iTLB-load-misses"]
SOFTWARE = ["task-clock", "context-switches"]
WEB, DB, MAIL = Cgroup("/web", 1), Cgroup("/db", 2), Cgroup("/mail", 3)


class Setting:
    """Counters over a fake kernel, with a clock that follows the kernel's time."""

    def __init__(self, folder: Path, kernel: FakeKernel, most_files: int = 1000, **wanted: list[str]) -> None:
        self.kernel, self.machine = kernel, FakeMachine(folder, kernel)
        self.now, self.folder = 1000.0, folder
        self.gone: set[Cgroup] = set()  # since they were found
        file = folder / "groups.yml"
        file.write_text("groups:\n" + "".join(f"  {name}: [{', '.join(events)}]\n" for name, events in wanted.items()))
        plan = groups.load(file, folder / "sys").groups
        rest = {"open_folder": self.open_folder, "most_files": most_files, "clock": lambda: self.now}
        self.counters = Counters(kernel, plan, self.machine, **rest)  # type: ignore[arg-type]

    def open_folder(self, cgroup: Cgroup) -> int:
        if cgroup in self.gone:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), cgroup.path)
        return os.open(self.folder, os.O_RDONLY)

    def after(self, seconds: float, *cgroups: Cgroup) -> Counts:
        self.kernel.pass_time(seconds)
        self.now += seconds
        return self.counters.read(cgroups)


Make = Callable[..., Setting]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(kernel: FakeKernel, most_files: int = 1000, **wanted: list[str]) -> Setting:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        setting = Setting(folder, kernel, most_files, **wanted)
        setting.after(0)  # opens everything
        return setting

    return make


def refusing(refused: Attr | None, error: int, attr: Attr, _cpu: int, _leader: int) -> int:
    return error if refused == attr else 0


def values(counts: Counts, group: str, cpu: int = 0) -> tuple[float | None, ...]:
    (total,) = [count.total for count in counts.host if (count.group.name, count.target) == (group, cpu)]
    return total.values


def reasons(counts: Counts) -> dict[str, str]:
    """Reasons of uncounted events, by group and event; counted ones are left out."""
    return {f"{each.group}/{each.event.name}": no.reason for each, no in counts.support.items() if no}


def test_groups_that_share_the_hardware_are_scaled_to_the_whole_time(make: Make) -> None:
    setting = make(FakeKernel(counters=4), cache=CACHE, tlb=TLB)
    counts = setting.after(10)
    for count in counts.host:
        assert count.total.enabled_seconds == pytest.approx(10)
        assert count.total.running_seconds == pytest.approx(5)
    # 1000 and 2000 a second.
    assert values(counts, "cache")[:2] == pytest.approx((10_000, 20_000), rel=0.01)
    assert values(counts, "tlb")[0] == pytest.approx(20_000, rel=0.01)


def test_what_can_t_be_counted_has_a_reason_and_costs_no_other_event(make: Make) -> None:
    for refused, counters, taken, wanted, counted, why in (
        (None, 4, 1, {"cache": CACHE, "tlb": TLB}, [None] * 4, dict.fromkeys(CACHE, "never_ran")),
        (None, 3, 0, {"cache": CACHE}, [1000, 2000, 3000, None], {"cache-misses": "too_many_events"}),
        (Attr(0, 0), 4, 0, {"cache": CACHE}, [None, 2000, 3000, 4000], {"cycles": "not_supported"}),
    ):
        kernel = FakeKernel(counters=counters)
        kernel.taken, kernel.refuse = taken, partial(refusing, refused, errno.ENOENT)
        counts = make(kernel, **wanted).after(60)
        assert values(counts, "cache") == tuple(each and 60 * each for each in counted), why
        assert reasons(counts) == {f"cache/{event}": reason for event, reason in why.items()}
        assert "tlb" not in wanted or None not in values(counts, "tlb")


def busy(attr: Attr) -> float:
    """A 3 GHz processor: instructions and cycles, and a thousandth of each other event."""
    return 3e9 if (attr.type, attr.config) in {(0, 0), (0, 1)} else 3e6 if attr.type != 1 else 1000.0


def test_a_second_counter_that_stands_at_0_beside_busy_instructions_is_not_believed(make: Make) -> None:
    kernel = FakeKernel(cpus=2, counters=8)
    kernel.rates, kernel.counts_once = busy, True
    setting = make(kernel, cache=CACHE, tlb=TLB, software=SOFTWARE)
    for _ in range(3):
        counts = setting.after(10)
    assert values(counts, "tlb")[0] == 0, "it is shown as it was read"
    assert reasons(counts) == {"tlb/instructions": "reads_zero"}


def test_what_was_refused_is_asked_for_again_but_not_at_each_read(make: Make) -> None:
    kernel = FakeKernel()
    kernel.refuse = lambda _attr, _cpu, _leader: errno.EACCES
    setting = make(kernel, cache=CACHE)
    asked = kernel.asked
    for _ in range(10):
        setting.after(15)
    assert kernel.asked == asked
    assert set(reasons(setting.after(RETRY_SECONDS)).values()) == {"no_permission"}
    assert kernel.asked > asked


def test_a_setting_that_changed_takes_effect_at_once(make: Make) -> None:
    kernel = FakeKernel()
    kernel.refuse = lambda _attr, _cpu, _leader: errno.EACCES
    setting = make(kernel, cache=CACHE)
    kernel.refuse = lambda _attr, _cpu, _leader: 0
    assert not setting.after(15).host
    setting.machine.set_paranoid(-1)
    setting.after(15)
    counts = setting.after(15)
    assert reasons(counts) == {}
    assert values(counts, "cache")[0] == pytest.approx(15_000)


def test_a_refusal_on_one_cpu_is_that_cpus_alone(make: Make) -> None:
    kernel = FakeKernel(cpus=2)
    kernel.refuse = lambda attr, cpu, _leader: errno.ENOENT if cpu == 1 and attr == Attr(0, 3) else 0
    counts = make(kernel, cache=CACHE).after(1)
    assert reasons(counts) == {}
    assert None not in values(counts, "cache", cpu=0)
    assert values(counts, "cache", cpu=1)[3] is None


def test_a_cpu_that_was_offline_goes_on_from_its_total(make: Make) -> None:
    kernel = FakeKernel(cpus=2)
    setting = make(kernel, cache=CACHE)
    setting.after(0, WEB)
    before = setting.after(10, WEB)
    files = kernel.files
    kernel.set_online(0)
    away = setting.after(10, WEB)
    assert [count.target for count in away.host] == [0]
    assert kernel.files == files / 2
    assert (away.cgroups[0].total.values[0] or 0) >= (before.cgroups[0].total.values[0] or 0) > 0
    kernel.set_online(0, 1)
    setting.after(0, WEB)
    assert values(setting.after(10, WEB), "cache", cpu=1)[0] == pytest.approx(20_000)
    assert kernel.files == files


def test_what_is_outside_of_the_cores_moves_to_the_cpu_that_takes_over(tmp_path: Path) -> None:
    pmu = tmp_path / "sys/bus/event_source/devices/uncore_imc_0"
    (pmu / "events").mkdir(parents=True)
    (pmu / "format").mkdir()
    for name, text in {"type": "13", "cpumask": "0", "events/reads": "event=1", "format/event": "config:0-7"}.items():
        (pmu / name).write_text(f"{text}\n")
    kernel = FakeKernel(cpus=4)
    setting = Setting(tmp_path, kernel, memory=["uncore_imc/reads/"])
    assert [count.target for count in setting.after(0).host] == [0]
    (pmu / "cpumask").write_text("1\n")
    kernel.set_online(1, 2, 3)
    setting.after(0)
    (moved,) = setting.after(10).host
    assert moved.target == 1
    assert moved.total.running_seconds == pytest.approx(10)
    kernel.set_online(0, 1, 2, 3)  # it doesn't come back by itself
    assert [count.target for count in setting.after(10).host] == [1]
    assert kernel.files == 1
    (pmu / "cpumask").unlink()
    assert reasons(setting.after(10)) == {"memory/uncore_imc/reads/": "not_supported"}
    assert kernel.files == 0


@pytest.mark.parametrize("wanted", [CACHE, ["cycles"]])
def test_a_cpu_that_was_offline_only_between_two_reads_is_noticed(make: Make, wanted: list[str]) -> None:
    kernel = FakeKernel(cpus=2)
    setting = make(kernel, cache=wanted)
    setting.after(10)
    kernel.set_online(0)
    kernel.set_online(0, 1)
    setting.after(10)
    setting.after(0)
    counts = setting.after(10)
    assert counts.reopened == 1
    assert values(counts, "cache", cpu=1)[0] == pytest.approx(20_000)


def test_cgroups_are_counted_on_all_cpus_while_they_are_there(make: Make) -> None:
    setting = make(FakeKernel(cpus=2), cache=CACHE)
    setting.after(0, WEB, DB)
    counts = setting.after(10, WEB, DB)
    assert {count.target for count in counts.cgroups} == {WEB, DB}
    # Half the time on each of two CPUs, where three groups share the counters.
    assert counts.cgroups[0].total.enabled_seconds == pytest.approx(10)
    assert counts.cgroups[0].total.values[0] == pytest.approx(10_000, rel=0.2)
    files = setting.kernel.files
    assert {count.target for count in setting.after(10, DB).cgroups} == {DB}
    assert setting.kernel.files == files * 2 / 3


def test_cgroups_that_are_counted_stay_counted_when_descriptors_run_out(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = FakeKernel(cpus=2)
    setting = make(kernel, most_files=3 * 8, cache=CACHE)
    setting.after(1, MAIL, WEB)
    for _ in range(3):
        counts = setting.after(1, DB, MAIL, WEB)
        assert counts.left_out == [DB]
        assert {count.target for count in counts.cgroups} == {MAIL, WEB}
    setting.after(1, DB._replace(inode=99), MAIL, WEB)  # replaced by another one: the metric shows it, the log doesn't
    assert len([record for record in caplog.records if "not every cgroup" in record.getMessage()]) == 1
    setting.after(1, DB, WEB)
    assert {count.target for count in setting.after(1, DB, WEB).cgroups} == {DB, WEB}
    assert kernel.files == 3 * 8


def test_the_host_comes_before_cgroups_when_a_cpu_comes(make: Make) -> None:
    kernel = FakeKernel(cpus=2)
    setting = make(kernel, most_files=16, cache=CACHE)
    kernel.set_online(0)
    setting.after(1, WEB, DB, MAIL)
    kernel.set_online(0, 1)
    setting.after(1, WEB, DB, MAIL)
    counts = setting.after(1, WEB, DB, MAIL)
    assert {count.target for count in counts.host} == {0, 1}
    assert len(counts.left_out) == 2

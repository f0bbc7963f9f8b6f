"""Mistakes in group files, by file and key. The events that machines support are in golden pages."""

from pathlib import Path

from tests.support.refusals import assert_refused
from virtscope.perf import groups
from virtscope.toolkit.document import DocumentError

MACHINES = Path(__file__).resolve().parents[2] / "fixtures/sysfs"
INTEL, AMD, HYBRID, NONE = (
    MACHINES / name for name in ("intel-two-sockets", "amd-two-caches", "intel-hybrid", "no-counters")
)


def load(folder: Path, text: str, sysfs: Path = INTEL) -> groups.Plan:
    file = folder / "groups.yml"
    file.write_text(text)
    return groups.load(file, sysfs)


def test_the_groups_that_are_counted_by_default() -> None:
    for sysfs in (INTEL, AMD, NONE):
        plan = groups.load(groups.DEFAULT, sysfs)
        assert [group.name for group in plan.groups] == ["cache", "llc", "tlb", "branches", "software"], sysfs
        names = [event.name for event in plan.groups[0].events]
        assert names == ["cycles", "instructions", "cache-references", "cache-misses"]
        assert not plan.absent, sysfs


def test_guests_can_be_left_out_of_what_the_cores_count(tmp_path: Path) -> None:
    plan = load(tmp_path, "groups: {memory: [cycles, task-clock, uncore_imc/cas_count_read/]}")
    events = [event for group in groups.without_guests(plan.groups) for event in group.events]
    assert [event.name for event in events if event.attr.exclude_guest] == ["cycles"]


def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path) -> None:
    for text, problem in (
        ("", "groups: expected names of groups"),
        ("groups: {}\n", "line 1: groups: expected names of groups"),
        ("others: {cache: [cycles]}\n", "line 1: others: unknown key"),
        ("groups:\n  cache: [cycles]\n  Cache Misses: [cycles]\n", "line 3: groups.Cache Misses: is no name"),
        ("groups:\n  cache: [cycles]\n  cache: [instructions]\n", "line 3: cache is given twice"),
        ("groups:\n  cache: cycles\n", "line 2: groups.cache: expected a list"),
        ("groups:\n  cache: []\n", "line 2: groups.cache: expected a list"),
        ("groups:\n  cache:\n  - cycles\n  - cycles\n", "line 2: groups.cache: expected a list of different events"),
        ("groups:\n  cache:\n  - cycles\n  - [cycles]\n", "line 2: groups.cache: expected a list"),
        ("groups:\n  cache:\n  - cache-mises\n", "line 2: groups.cache: 'cache-mises' is no event, but cache-misses"),
    ):
        said = assert_refused(DocumentError, "", load, tmp_path, text)
        assert said.startswith(f"{tmp_path}/groups.yml: {problem}"), text

"""resctrl's groups and values, and the kernel's texts instead of a value."""

import shutil
from pathlib import Path

import pytest

from virtscope.perf import resctrl
from virtscope.perf.resctrl import Resctrl
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/sysfs"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Intel's resctrl, to be changed."""
    return shutil.copytree(FIXTURES / "intel-two-sockets", tmp_path / "sys")


def samples(sysfs: Path) -> dict[str, dict[tuple[str, ...], float]]:
    """Exposed values by family and labels. Intel's are in a golden page."""
    families = resctrl.families(Resctrl(sysfs).read())
    return {made.name: {tuple(each.labels.values()): each.value for each in made.samples} for made in families}


def test_a_machine_with_fewer_counters_than_groups() -> None:
    exposed = samples(FIXTURES / "amd-two-caches")
    assert exposed["resctrl_memory_bytes"] == {("/", "0"): 2097152, ("/vm 1", "12"): 4194304}
    assert len(exposed["resctrl_llc_occupancy_bytes"]) == 4
    assert exposed["resctrl_missing_values"]["unassigned",] == 4


def test_a_processor_that_measures_occupancy_alone(sysfs: Path) -> None:
    for file in sysfs.glob("fs/resctrl/**/mbm_*"):
        file.unlink()
    exposed = samples(sysfs)
    assert (len(exposed["resctrl_llc_occupancy_bytes"]), exposed["resctrl_memory_bytes"]) == (7, {})
    assert exposed["resctrl_missing_values"] == {("unavailable",): 0, ("error",): 1, ("unassigned",): 0}


def test_a_cache_s_nodes_are_in_its_sum(sysfs: Path) -> None:
    """Sub-NUMA Clusters: mon_sub_L3_YY is in the cache's folder. Later kernels also have other kinds of folders."""
    before = Resctrl(sysfs).read()
    cache = sysfs / "fs/resctrl/mon_data/mon_L3_00"
    shutil.copytree(cache, sysfs / "fs/resctrl/mon_data/mon_PERF_PKG_00")
    for node in ("mon_sub_L3_00", "mon_sub_L3_01"):
        (cache / node).mkdir()
        (cache / node / "llc_occupancy").write_text("1\n")
    assert Resctrl(sysfs).read() == before


def test_groups_come_and_go(sysfs: Path) -> None:
    resctrl, groups = Resctrl(sysfs), sysfs / "fs/resctrl"
    shutil.copytree(groups / "web", groups / "größe")
    assert {each.group for each in resctrl.read()} > {"/größe", "/größe/mon_groups/db"}
    shutil.rmtree(groups / "größe")
    shutil.rmtree(groups / "web/mon_data")  # as during its removal
    assert {each.group for each in resctrl.read()} == {"/", "/mon_groups/cron", "/web/mon_groups/db"}


def test_malformed_text_is_refused(sysfs: Path) -> None:
    file = sysfs / "fs/resctrl/web/mon_data/mon_L3_00/llc_occupancy"
    for text in ("", "-1", "1.5", "²", "Available", "9" * 5000):
        file.write_text(text)
        with pytest.raises(SourceMalformed, match=str(file)):
            Resctrl(sysfs).read()


def test_where_it_is_absent_it_says_how_to_have_it(tmp_path: Path, sysfs: Path) -> None:
    with pytest.raises(SourceUnavailable, match="has no resctrl"):
        Resctrl(tmp_path).read()
    (tmp_path / "fs/resctrl").mkdir(parents=True)
    with pytest.raises(SourceUnavailable, match=f"mount -t resctrl resctrl {tmp_path}/fs/resctrl"):
        Resctrl(tmp_path).read()
    shutil.rmtree(sysfs / "fs/resctrl/mon_data")
    with pytest.raises(SourceUnavailable, match="limit its caches, not measure"):
        Resctrl(sysfs).read()

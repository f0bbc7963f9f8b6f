"""Disk quotas, from the kernel's text to samples. A whole host's are in tests/golden/openvz-i386-2.6.18-cycles.prom."""

from pathlib import Path

from tests.support.refusals import refusal
from tests.unit.openvz import fake_host
from virtscope.openvz import quota
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable

HOSTS = Path(__file__).resolve().parents[2] / "fixtures/openvz"
TEXT = (HOSTS / "i386-2.6.18-cycles/proc/vz/vzquota").read_text()


def exposed(text: str) -> dict[tuple[str, ...], float]:
    return fake_host.exposed(quota.families(quota.parse(text)), "openvz_quota_")


def test_no_limit_is_absent() -> None:
    for unlimited in (0, 2**31 - 1, 2**32 - 1, 2**53, 2**54 - 1):
        found = exposed(TEXT.replace(f"{1048576:15}{1153434:15}", f" {unlimited} {unlimited}"))
        assert found["used_bytes", "205"] == 734003 * 1024
        assert not {("soft_limit_bytes", "205"), ("hard_limit_bytes", "205")} & found.keys(), unlimited
    found = exposed(TEXT.replace(f"{1048576:15}", f" {2**53 - 1}"))
    assert found["soft_limit_bytes", "205"] == (2**53 - 1) * 1024, "the largest"


def test_unknown_and_missing_columns() -> None:
    found = exposed("qid: path usage novelty hardlimit\n7: /vz\n 1k-blocks 5 99 6\n inodes 7 99 8\n")
    assert (found["used_bytes", "7"], found["hard_limit_inodes", "7"], found["unknown_columns",]) == (5120, 8, 1)
    assert not any("soft" in name or "grace" in name for name, *_ in found)


def test_a_malformed_quota_costs_only_itself() -> None:
    for bad in ("7: /vz\n", "7: /vz\n  1k-blocks 1 2 3 4 5\n", "7: /vz\n  1k-blocks 1 -2 3 4 5\n", "x\n"):
        found = quota.parse(TEXT + bad)
        assert found.quotas == quota.parse(TEXT).quotas, bad
        assert found.refused > 0, bad


def test_a_cut_end_costs_only_the_last_quota() -> None:
    rows = "".join(f"{name:>11}{1:15}{2:15}{3:15}{4:11}{1234:11}\n" for name in ("1k-blocks", "inodes"))
    whole = f"{TEXT}7: /vz/private/7\n{rows}"
    for end in range(len(TEXT) + 1, len(whole) - 1):
        assert quota.parse(whole[:end]).quotas == quota.parse(TEXT).quotas


def test_no_quota_a_malformed_text_and_a_kernel_without_quotas(tmp_path: Path) -> None:
    assert quota.read(HOSTS / "no-container/proc") == ((), 0, 0)
    for text in ("", "\n", "malformed\n", TEXT.replace("qid:", "id:"), TEXT[: TEXT.index("\n")] + "\n7: /"):
        assert "/proc/vz/vzquota" in str(refusal(SourceMalformed, quota.parse, text))
    said = str(refusal(SourceUnavailable, quota.read, tmp_path))
    assert "vzquota is absent: this kernel keeps no disk quotas, as that of Virtuozzo 7" in said

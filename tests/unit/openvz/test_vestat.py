"""/proc/vz/vestat as text: what is read, what is counted as not understood, and what is refused whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.openvz import fake_host
from virtscope.openvz.vestat import VestatReader, decide, families, parse
from virtscope.toolkit.collect import SourceMalformed

CHECKOUT = Path(__file__).resolve().parents[3]
SAMPLES = CHECKOUT.parent / "shared" / "samples" / "vestat"
UUID = "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"
ROWS = (fake_host.row("101", 3600, waits=9), fake_host.row(UUID, 86400), fake_host.row("7", 60))
TEXT = fake_host.vestat(ROWS)


@pytest.mark.parametrize("widths", [fake_host.WIDTHS_32, fake_host.WIDTHS_64], ids=["32 bit", "64 bit"])
def test_every_column_is_taken_by_its_position(widths: list[int]) -> None:
    row = ROWS[0]._replace(user=1, nice=2, system=3, uptime_jiffies=4, idle=5, strv=6, uptime=7, used=8)
    row = row._replace(maxlat=9, totlat=10, numsched=11)
    assert parse(fake_host.vestat([row], widths)) == ("2.2", (row,), 0, 0)


def test_ids_may_be_wider_than_their_column() -> None:
    assert [row.ctid for row in parse(TEXT).rows] == ["101", UUID, "7"]


def test_numbers_may_fill_their_columns() -> None:
    row = ROWS[0]._replace(user=2**64 - 1, used=2**64 - 1)
    assert parse(fake_host.vestat([row])).rows == (row,)


def test_no_container() -> None:
    assert parse(fake_host.vestat([])) == ("2.2", (), 0, 0)


def test_columns_and_versions_to_come() -> None:
    """A version we have not seen is read as long as its columns begin as those we know."""
    text = "Version: 2.3\n" + "".join(
        f"{line} {more}\n" for line, more in zip(TEXT.splitlines()[1:], "x123", strict=True)
    )
    assert parse(text) == ("2.3", ROWS, 0, 1)


def test_an_unknown_column_between_the_known_ones() -> None:
    text = TEXT.replace("used", "hue used").replace(f"{ROWS[0].used:20}", f"  77 {ROWS[0].used}")
    parsed = parse(text)
    assert (parsed.rows, parsed.refused, parsed.unknown_columns) == (ROWS[:1], 2, 1)


@pytest.mark.parametrize(("used", "shown"), [(2**63 - 1, True), (2**63, False), (2**64 - 1, False)])
def test_a_difference_below_zero_is_absent(used: int, shown: bool) -> None:
    vestat = parse(fake_host.vestat([ROWS[0]._replace(used=used)]))
    units = decide(vestat.rows, None)
    made = families(vestat, units, None, 0)
    found = {family.name: family.samples for family in made}
    assert bool(found["openvz_container_cpu_used_seconds"]) is shown
    assert found["openvz_container_cpu_idle_seconds"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "Version: 2.2",
        TEXT.replace("Version", "Vision"),
        TEXT.replace(" used ", " lost "),
        TEXT.replace("numsched", ""),
        TEXT.replace("strv", "uptime"),
        "\n".join([*TEXT.splitlines()[:2], "malformed"]),
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(SourceMalformed, match="/proc/vz/vestat"):
        parse(text)


@pytest.mark.parametrize(
    "bad", ["1 2 3", "102 -1" + " 0" * 10, "102 1.5" + " 0" * 10, f"102 {'9' * 21}" + " 0" * 10, "102 ²" + " 0" * 10]
)
def test_a_bad_row_costs_only_itself(bad: str) -> None:
    assert parse(f"{TEXT}{bad}\n") == ("2.2", ROWS, 1, 0)


def test_a_second_row_of_one_id_is_refused() -> None:
    assert parse(fake_host.vestat([*ROWS, ROWS[0]._replace(user=5)])) == ("2.2", ROWS, 1, 0)


@pytest.mark.parametrize("id_of_last", ["7", UUID])
def test_a_row_cut_anywhere_is_refused(id_of_last: str) -> None:
    """Also within its last number, which would look like a smaller one."""
    last = fake_host.row(id_of_last, 60, waits=12345)
    whole = fake_host.vestat([ROWS[0], last])
    start = whole.rindex("\n", 0, -1) + 1
    for end in range(whole.index(id_of_last, start) + 1, len(whole) - 1):
        assert parse(whole[:end]) == ("2.2", ROWS[:1], 1, 0)
    assert parse(whole[:-1]).rows == (ROWS[0], last)  # only the newline is missing


def test_where_it_is_read() -> None:
    assert VestatReader(Path("/host/proc")).origin() == "/host/proc/vz/vestat"


needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"no {SAMPLES}: recordings of other people's hosts, which lie beside the checkout"
)


@needs_samples
def test_recording_of_a_host_that_counts_cycles() -> None:
    parsed = parse((SAMPLES / "vz_tools-2007-i386-vestat22.txt").read_text())
    decided = decide(parsed.rows, None)
    assert (len(parsed.rows), parsed.refused) == (9, 0)
    assert decided == ("cycles", 1_994_700_000, 1000, "/proc/vz/vestat")
    ct411 = next(row for row in parsed.rows if row.ctid == "411")
    assert (ct411.user, ct411.nice, ct411.system) == (226491, 717, 132060)
    assert ct411.used / decided.per_second == pytest.approx(525.7, abs=0.05)


@needs_samples
def test_recordings_of_a_host_that_counts_nanoseconds() -> None:
    texts = [(SAMPLES / f"cloudvm-2.6.32-vestat22-{time}.txt").read_text() for time in ("t0", "t1")]
    first, second = (parse(text).rows for text in texts)
    decided = decide(first, None)
    assert decided == decide(second, None) == ("nanoseconds", 10**9, 1000, "/proc/vz/vestat")
    used = {a.ctid: (b.used - a.used) / decided.per_second for a, b in zip(first, second, strict=True)}
    assert used["1562"] == 0
    assert used["1563"] == pytest.approx(13.862, abs=0.01)  # 13862 of 13862 jiffies

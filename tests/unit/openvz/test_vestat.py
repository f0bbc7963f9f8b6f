"""/proc/vz/vestat as text: parsed rows, counted malformed rows, and files refused as a whole."""

from tests.support.refusals import refusal
from tests.unit.openvz import fake_host
from virtscope.openvz.vestat import counted, decide, families, parse
from virtscope.toolkit.collect import SourceMalformed
from virtscope.toolkit.totals import Totals

UUID = "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"
ROWS = (fake_host.row("101", 3600, waits=9), fake_host.row(UUID, 86400), fake_host.row("7", 60))
TEXT = fake_host.vestat(ROWS)


def test_every_column_is_taken_by_its_position_whatever_its_width() -> None:
    row = ROWS[0]._replace(user=1, nice=2, system=3, uptime_jiffies=4, idle=5, strv=6, uptime=7, used=8)
    row = row._replace(maxlat=9, totlat=10, numsched=11)
    for widths in (fake_host.WIDTHS_32, fake_host.WIDTHS_64):
        assert parse(fake_host.vestat([row], widths)) == ("2.2", (row,), 0, 0)
    assert [row.ctid for row in parse(TEXT).rows] == ["101", UUID, "7"]
    wide = ROWS[0]._replace(user=2**64 - 1, used=2**64 - 1)
    assert parse(fake_host.vestat([wide])).rows == (wide,)
    assert parse(fake_host.vestat([])) == ("2.2", (), 0, 0)


def test_columns_and_versions_to_come() -> None:
    """An unknown version is read if its first columns are the known ones."""
    text = "Version: 2.3\n" + "".join(
        f"{line} {more}\n" for line, more in zip(TEXT.splitlines()[1:], "x123", strict=True)
    )
    assert parse(text) == ("2.3", ROWS, 0, 1)
    between = parse(TEXT.replace("used", "hue used").replace(f"{ROWS[0].used:20}", f"  77 {ROWS[0].used}"))
    assert (between.rows, between.refused, between.unknown_columns) == (ROWS[:1], 2, 1)


def test_a_difference_below_zero_is_absent() -> None:
    for used, shown in ((2**63 - 1, True), (2**63, False), (2**64 - 1, False)):
        vestat = parse(fake_host.vestat([ROWS[0]._replace(used=used)]))
        made = families(vestat, decide(vestat.rows, None), Totals(), None, 0)
        found = {family.name: family.samples for family in made}
        assert bool(found["openvz_container_cpu_used_seconds"]) is shown, used
        assert found["openvz_container_cpu_idle_seconds"]


def test_the_total_of_waits_is_exposed_once_a_container_has_waited() -> None:
    units, totals = decide(ROWS, None), Totals(remembered=1)
    assert units
    shown = []
    for uptime, rows in enumerate(([0], [0, 7], [0, 9], []), start=3600):
        vestat = parse(
            fake_host.vestat(
                [ROWS[0]._replace(ctid=f"{place}", totlat=each * 10**9) for place, each in enumerate(rows)]
            )
        )
        counters, _ = counted(vestat, units)
        totals.add(counters, uptime, ages=dict.fromkeys(counters, uptime))
        made = families(vestat, units, totals, None, 0)
        name = "openvz_host_containers_scheduling_latency_seconds"
        shown.append([each.samples[0].value for each in made if each.name == name])
    assert shown == [[], [0], [2], [3]]


def test_malformed_text_is_refused() -> None:
    misnamed = [TEXT.replace(*names) for names in (("Version", "Vision"), (" used ", " lost "), ("numsched", ""))]
    no_row = "\n".join([*TEXT.splitlines()[:2], "malformed"])
    for text in ("", "\n", "Version: 2.2", *misnamed, TEXT.replace("strv", "uptime"), no_row):
        assert "/proc/vz/vestat" in str(refusal(SourceMalformed, parse, text))


def test_a_bad_row_and_the_second_of_one_id_cost_only_themselves() -> None:
    numbers = [" 0" * 10, "-1" + " 0" * 10, "1.5" + " 0" * 10, "9" * 21 + " 0" * 10, "²" + " 0" * 10]
    for bad in ("1 2 3", *(f"102 {each}" for each in numbers)):
        assert parse(f"{TEXT}{bad}\n") == ("2.2", ROWS, 1, 0), bad
    assert parse(fake_host.vestat([*ROWS, ROWS[0]._replace(user=5)])) == ("2.2", ROWS, 1, 0)


def test_a_row_cut_anywhere_is_refused() -> None:
    """Also within its last number, which would look like a smaller one."""
    for ctid in ("7", UUID):
        last = fake_host.row(ctid, 60, waits=12345)
        whole = fake_host.vestat([ROWS[0], last])
        start = whole.rindex("\n", 0, -1) + 1
        for end in range(whole.index(ctid, start) + 1, len(whole) - 1):
            assert parse(whole[:end]) == ("2.2", ROWS[:1], 1, 0)

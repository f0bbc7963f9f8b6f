"""Cycles or nanoseconds, and the length of a jiffy: decided on evidence, or left open."""

from tests.support.refusals import refusal
from tests.unit.openvz import fake_host
from virtscope.openvz.vestat import Row, Stats, Units, decide, parse_stats
from virtscope.toolkit.collect import SourceMalformed

NANOSECONDS = 10**9
DAY = 86400
FROM_ROWS = Units("nanoseconds", NANOSECONDS, 1000, "/proc/vz/vestat")


def up(seconds: int, hz: int, per_second: int) -> Row:
    return fake_host.row("101", seconds, hz=hz, per_second=per_second)


def off(hz: int, parts: float, jiffies: int = 10**12) -> Row:
    """A container whose uptime in nanoseconds is off by this many parts of it."""
    return up(1, 1, 1)._replace(uptime_jiffies=jiffies, uptime=round(jiffies * NANOSECONDS // hz * (1 + parts)))


def cycles(per_second: int, hz: int, decided_by: str = "/proc/vz/vestat") -> Units:
    return Units("cycles", per_second, hz, decided_by)


def refused(row: Row, stats: Stats | None = None) -> str:
    return str(refusal(SourceMalformed, decide, [row], stats))


def test_units_are_recognised_from_the_file_where_only_one_is_likely() -> None:
    """Nanoseconds at 1000 Hz could be cycles of a 1.0 GHz clock, which gives the same seconds. Clocks are exact to 0.1
    MHz.

    At the minimum uptime, a jiffy is a ten-thousandth; a row's two uptimes aren't read at the same moment.
    """
    short, longer = up(10, 1000, NANOSECONDS), up(100, 1000, NANOSECONDS)
    for row, units in (
        (up(DAY, 1000, NANOSECONDS), FROM_ROWS),
        (off(1000, 9.95e-6), FROM_ROWS),
        (off(1000, -9.95e-6), FROM_ROWS),
        (off(1000, 1.01e-5), cycles(1_000_000_000, 1000)),
        *((short._replace(uptime=short.uptime + more * 1_000_000), FROM_ROWS) for more in (-1, 1)),
        (short._replace(uptime=short.uptime + 2_000_000), cycles(1_000_200_000, 1000)),
        *((longer._replace(uptime_jiffies=longer.uptime_jiffies + more), FROM_ROWS) for more in (-1, 0, 1)),
        (up(DAY, 1000, 2_393_964_000), cycles(2_394_000_000, 1000)),  # 0.60 GHz at 250 Hz
        (up(DAY, 1000, 2_393_949_000), cycles(2_393_900_000, 1000)),
        (up(DAY, 250, 2_200_000_000), cycles(2_200_000_000, 250)),  # 8.8 GHz at 1000 Hz, 0.88 GHz at 100 Hz
        # The limits of a plausible clock.
        (up(DAY, 1000, 1_000_100_000), cycles(1_000_100_000, 1000)),  # 1 GHz at least
        (up(DAY, 1000, 3_999_900_000), cycles(3_999_900_000, 1000)),  # 0.99998 GHz at 250 Hz
        (up(DAY, 250, 1_250_100_000), cycles(1_250_100_000, 250)),  # 5.0004 GHz at 1000 Hz
        # 0.99996 GHz at 100 Hz, almost equal to nanoseconds at 100 Hz: taken for those, all values were wrong by a
        # factor of 2.5.
        (up(DAY, 250, 2_499_900_000), cycles(2_499_900_000, 250)),
        (up(DAY, 100, 2_000_100_000), cycles(2_000_100_000, 100)),  # 5.00025 GHz at 250 Hz
        (up(DAY, 100, 5_000_000_000), cycles(5_000_000_000, 100)),  # 5 GHz at most
    ):
        assert decide([row], None) == units, row


def test_units_are_not_guessed() -> None:
    for row, said in (
        (off(1000, -1.01e-5), "a clock of 0.10 GHz at 100 Hz or 0.25 GHz at 250 Hz or 1.00 GHz at 1000"),
        (up(10, 1000, NANOSECONDS)._replace(uptime=10 * NANOSECONDS - 2_000_000), "1.00 GHz at 1000 Hz"),
        (up(DAY, 250, 3_000_112_000), "3.00 GHz at 250 Hz"),  # or 1.2 GHz at 100 Hz
        (up(DAY, 1000, 4_000_100_000), "4.00 GHz at 1000 Hz"),  # or 1.000025 GHz at 250 Hz
        (up(DAY, 1000, 5_000_000_000), "5.00 GHz at 1000 Hz"),  # or 1.25 GHz at 250 Hz
        (up(DAY, 250, 2_500_100_000), "2.50 GHz at 250 Hz"),  # or 1.00004 GHz at 100 Hz
        (up(DAY, 1000, 999_900_000), "1.00 GHz at 1000 Hz"),  # none is plausible
        (up(DAY, 100, 5_000_001_000), "5.00 GHz at 100 Hz"),
    ):
        assert said in refused(row), row
    for hz, clock, clock_hz in ((250, 4_000_000_000, 1000), (100, 2_500_000_000, 250)):
        for row in (up(DAY, hz, NANOSECONDS), up(DAY, clock_hz, clock), off(hz, 9.95e-6), off(hz, -9.95e-6)):
            said = refused(row)
            assert f"nanoseconds at {hz} Hz or a clock of " in said
            assert f"{clock / 1e9:.2f} GHz at {clock_hz} Hz" in said
            assert f"GHz at {hz} Hz" not in said
            assert "load the module" in said


def test_it_takes_some_uptime_to_decide() -> None:
    early = off(1000, 0, 9_999)
    said = str(refusal(SourceMalformed, decide, [off(1000, 0, 9_998), early], None))
    assert "too early" in said
    assert "up for more than 9999 jiffies; it takes 10000" in said
    assert decide([early, off(1000, 0, 10_000)], None)
    assert decide([], None) is None


def test_a_migrated_container_does_not_decide() -> None:
    """It brought its uptime in cycles of another machine's clock."""
    for clock in (1_500_000_000, 3_000_000_000):
        rows = [up(DAY, 1000, 2_000_000_000), up(900 * DAY, 1000, clock), up(2 * DAY, 1000, 2_000_000_000)]
        assert decide(rows, None) == cycles(2_000_000_000, 1000)


def test_the_kernels_own_word_is_taken() -> None:
    for per_jiffy, hz in ((1_000_000, 1000), (4_000_000, 250), (10_000_000, 100), (3_333_000, 300), (976_000, 1024)):
        assert decide([], Stats(per_jiffy, hz)) == ("nanoseconds", NANOSECONDS, hz, "/proc/vz/stats"), (per_jiffy, hz)
    for per_jiffy, hz in ((4_000_000, 1000), (10_000_000, 250), (999_999, 1000), (3_333_333, 300), (3_334_000, 300)):
        assert decide([], Stats(per_jiffy, hz)) == cycles(per_jiffy * hz, hz, "/proc/vz/stats"), (per_jiffy, hz)
    by_stats = decide([up(DAY, 250, 3_000_112_000)], Stats(12_000_448, 250))
    assert by_stats == cycles(3_000_112_000, 250, "/proc/vz/stats")


def test_how_far_the_two_files_may_be_from_each_other() -> None:
    for per_jiffy, per_second, agree in (
        (1_000_000, 1_099_000_000, True),
        (1_000_000, 1_101_000_000, False),
        (1_000_000, 901_000_000, True),
        (1_000_000, 899_000_000, False),
        (1_110_000, NANOSECONDS, True),
        (1_112_000, NANOSECONDS, False),
        (910_000, NANOSECONDS, True),
        (908_000, NANOSECONDS, False),
        (2_000_000, 3_000_000_000, True),  # a container that was migrated here
    ):
        row, stats = up(DAY, 1000, per_second), Stats(per_jiffy, 1000)
        if agree:
            assert getattr(decide([row], stats), "decided_by", "") == "/proc/vz/stats", (stats, per_second)
        else:
            assert "/proc/vz/stats says" in refused(row, stats)


def test_a_container_that_has_just_begun_does_not_contradict_the_kernel() -> None:
    early = up(1, 1, 1)._replace(uptime_jiffies=9_999, uptime=2 * 9_999 * 1_000_000)
    assert decide([early], Stats(1_000_000, 1000))
    refused(early._replace(uptime_jiffies=10_000, uptime=2 * 10_000 * 1_000_000), Stats(1_000_000, 1000))


def test_stats() -> None:
    assert parse_stats(fake_host.stats(2_393_964, 1000)) == Stats(2_393_964, 1000)
    assert parse_stats("cycles_per_jiffy:\t5\njiffies_per_second: 6\n") == Stats(5, 6)
    cut, zero = "cycles_per_jiffy: 1000000\njiffies_per_second: 10", "cycles_per_jiffy: 0\njiffies_per_second: 1000\n"
    for text in ("", cut, zero, "jiffies_per_second: 1000\n"):
        assert parse_stats(text) is None, text

"""From the kernel's pairs of cgroups to few monotonic counters."""

from virtscope.sched.cpu import IDLE, MAX_PAIRS, NOBODY, OTHER, STOLEN, THROTTLED
from virtscope.sched.names import HOST, REST, Found, Name
from virtscope.sched.pairs import MAX_NAMED, Pairs, Waited

MS = 1_000_000
BACKUP = "/system.slice/backup.service"

Kernel = dict[tuple[int, int], Waited]


def made() -> Pairs:
    return Pairs(NOBODY, MAX_PAIRS)


def container(number: int) -> str:
    return f"/docker/{number:064x}"


def found(*containers: int, **others: tuple[int, Name]) -> Found:
    """These containers, the host, whose root is 1, and others by their ids."""
    names = {1: Name(HOST, HOST)} | {number: Name(container(number), container(number)) for number in containers}
    names |= dict(others.values())
    shown, running = ({name[part] for name in names.values()} for part in (0, 1))
    return Found(names, frozenset(shown), frozenset(running))


def counted(pairs: Pairs) -> dict[str, dict[str, int]]:
    rows = {name: {who: ns for who, ns in row.ns.items() if ns} for name, row in pairs.rows.items()}
    return {name: row for name, row in rows.items() if row}


def named(pairs: Pairs, number: int) -> set[str]:
    return {who for who in pairs.rows[container(number)].ns if who.startswith("/") and who != container(number)}


def each(ms: float, *running: int) -> Kernel:
    """Container 2 waited this long for each of these."""
    return {(2, number): Waited(int(ms * MS), 1) for number in running}


def test_the_cgroups_of_a_container_are_one() -> None:
    pairs = made()
    kernel = {
        (2, 4): Waited(5 * MS, 3),
        (3, 4): Waited(7 * MS, 1),
        (3, 2): Waited(MS, 2),
        (4, THROTTLED): Waited(9 * MS, 1),
    }
    pairs.add(kernel, found(2, 4, inner=(3, Name(container(2), container(2)))), 0)
    assert counted(pairs) == {container(2): {container(4): 12 * MS, container(2): MS}, container(4): {"(cap)": 9 * MS}}
    assert [pairs.rows[container(number)].waits for number in (2, 4)] == [6, 1]


def test_who_is_nobody_has_a_name_too_and_a_unit_s_waiting_is_the_host_s() -> None:
    pairs = made()
    kernel = {(2, who): Waited(MS * n, 1) for n, who in enumerate((1, 7, IDLE, OTHER, THROTTLED, STOLEN), 1)}
    kernel |= {(7, 2): Waited(MS, 1), (1, 2): Waited(2 * MS, 1)}
    assert pairs.add(kernel, found(2, unit=(7, Name(HOST, BACKUP))), 0) == []
    assert counted(pairs) == {
        container(2): {HOST: MS, BACKUP: 2 * MS, "(idle)": 3 * MS, REST: 4 * MS, "(cap)": 5 * MS, "(stolen)": 6 * MS},
        HOST: {container(2): 3 * MS},
    }


def test_all_that_are_there_are_shown_from_the_first_read_with_what_is_no_other_one_s_at_0() -> None:
    pairs = made()
    pairs.add({}, found(2, 3), 0)
    assert {name: row.waits for name, row in pairs.rows.items()} == {HOST: 0, container(2): 0, container(3): 0}
    assert pairs.rows[container(2)].ns == dict.fromkeys((container(2), HOST, *NOBODY.values()), 0)
    assert pairs.rows[HOST].ns == dict.fromkeys((HOST, *NOBODY.values()), 0)


def test_who_comes_late_but_matters_takes_the_place_of_who_matters_least() -> None:
    pairs, there, late = made(), found(*range(2, 60)), 50
    kernel: Kernel = {(2, other): Waited(2 * MS * other, 1) for other in range(10, 10 + MAX_NAMED + 4)}
    pairs.add(kernel, there, 0)
    assert named(pairs, 2) == {container(other) for other in range(14, 14 + MAX_NAMED)}  # the longest waits
    pairs.add(kernel | each(900, late), there, 15)
    assert pairs.rows[container(2)].ns[container(late)] == 900 * MS
    assert named(pairs, 2) == {container(other) for other in (*range(15, 14 + MAX_NAMED), late)}


def test_who_does_hardly_more_than_the_least_is_named_only_where_that_mattered_an_hour_ago() -> None:
    pairs = made()
    pairs.add(each(0.5, 3), found(2, 3), 0)
    assert counted(pairs) == {container(2): {REST: MS // 2}}, "half a millisecond is nothing"
    for ms, later, takes in ((30, 15, False), (3, 3600, True)):
        pairs, there = made(), found(*range(2, 60))
        kernel = each(20, *range(10, 10 + MAX_NAMED))
        pairs.add(kernel, there, 0)
        pairs.add(kernel | each(ms, 50), there, later)
        assert (container(50) in named(pairs, 2)) is takes, later
        assert pairs.rows[container(2)].ns[REST] == (0 if takes else ms * MS), later


def test_who_is_gone_ends_and_the_rest_does_not_jump() -> None:
    pairs = made()
    kernel = each(500, 4) | {(4, 2): Waited(5 * MS, 1)}
    pairs.add(kernel, found(2, 4, 5), 0)
    unneeded = pairs.add(kernel | {(2, 4): Waited(501 * MS, 2)}, found(2, 5), 15)
    assert (counted(pairs), set(unneeded)) == ({container(2): {REST: MS}}, {(2, 4), (4, 2)})
    assert container(4) not in pairs.rows
    pairs.forget(unneeded)
    assert pairs.add({}, found(2, 5), 30) == []
    assert counted(pairs) == {container(2): {REST: MS}}


def test_one_that_comes_again_begins_at_0_and_one_gone_between_two_reads_takes_nobody_else_s_name() -> None:
    pairs, again = made(), found(2, new=(9, Name(container(4), container(4))))
    pairs.add({(4, 2): Waited(5 * MS, 1)}, found(2, 4), 0)
    unneeded = pairs.add(each(4, 77) | {(78, 2): Waited(9 * MS, 1)}, found(2), 15)
    assert (counted(pairs), set(unneeded)) == ({container(2): {REST: 4 * MS}}, {(2, 77), (78, 2)})
    pairs.add({(9, 2): Waited(MS, 1)}, again, 30)
    assert counted(pairs)[container(4)] == {container(2): MS}


def test_what_the_kernel_has_forgotten_begins_again() -> None:
    pairs, there = made(), found(2, 4)
    pairs.add({(2, 4): Waited(500 * MS, 10)}, there, 0)
    pairs.forget([(2, 4)])
    pairs.add(each(600, 4), there, 15)
    assert counted(pairs) == {container(2): {container(4): 1100 * MS}}
    assert pairs.rows[container(2)].waits == 11


def test_where_room_is_scarce_idle_pairs_make_some() -> None:
    for pairs_there, makes_room in ((MAX_PAIRS // 2, False), (MAX_PAIRS // 2 + 1, True)):
        pairs, there = made(), found(*range(2, 200))
        keys = [(number // 190 + 2, number % 190 + 2) for number in range(pairs_there)]
        kernel: Kernel = dict.fromkeys(keys, Waited(MS, 1))
        assert pairs.add(kernel, there, 0) == [], pairs_there
        kernel[keys[0]] = Waited(2 * MS, 2)
        assert pairs.add(kernel, there, 15) == (keys[1:] if makes_room else []), pairs_there

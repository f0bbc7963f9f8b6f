"""Whose a thing is that several guests claim."""

from __future__ import annotations

from tests.unit.kvm.test_guests import QEMU, Machine
from tests.unit.kvm.test_threads import stat
from virtscope.kvm.model import A_USERS, UNKNOWN, VOUCHED_FOR, owners


def test_the_one_of_the_highest_standing_owns_it() -> None:
    for standings, owner in (
        ([UNKNOWN, UNKNOWN], None),
        ([UNKNOWN, VOUCHED_FOR, A_USERS], 1),
        ([VOUCHED_FOR, VOUCHED_FOR, UNKNOWN], None),
        ([VOUCHED_FOR, UNKNOWN, VOUCHED_FOR], None),
        ([A_USERS, A_USERS, UNKNOWN, A_USERS], 2),
    ):
        machine = Machine()
        machine.runs(9, QEMU, stat("qemu", 5))
        (guest,) = machine.look().guests
        claims = [("web", guest._replace(pid=pid, standing=standing)) for pid, standing in enumerate(standings)]
        assert owners([*claims, ("other", guest)]) == {"other": 9} | ({} if owner is None else {"web": owner})
        assert owners([("a", guest), ("a", guest)]) == {"a": 9}, "who claims it twice is one"

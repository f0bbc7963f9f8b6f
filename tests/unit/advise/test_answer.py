"""What is said of a move."""

from collections.abc import Sequence

import pytest

from advise.answer import Answer
from advise.checked import Calibration
from advise.options import Option
from advise.reading import Place
from advise.seen import Guest


def guest(platform: str, memory: float | None) -> Guest:
    return Guest("web", Place("b", platform), 0.1, memory=memory)


@pytest.mark.parametrize(
    ("guests", "cost", "copied"),
    [
        ([guest("kvm", 9e8)], "900 MB to copy, 8 s at 1 Gbit/s", 9e8),
        ([guest("kvm", 9e8), guest("kvm", 9e8)], "1800 MB to copy, 16 s at 1 Gbit/s", 1.8e9),
        ([guest("kvm", 9e8), guest("kvm", None)], "memory of unknown size to copy", None),
        ([guest("cgroup", 9e8)], "it is stopped and started again", None),
    ],
)
def test_what_a_move_costs(guests: Sequence[Guest], cost: str, copied: float | None) -> None:
    there = guests[0].place
    of = tuple(Place("a", each.place.platform) for each in guests)
    option = Option(there, of, tuple(guests), (), None)
    answer = Answer("web", [option], option, {there: ["move it"]}, {}, [])
    assert [*answer.lines(Calibration(()))] == [f"Move to b: {cost}.", "  move it"]
    assert answer.document(Calibration(()))["candidates"][0]["copied_bytes"] == copied

"""When the toolstack is asked early, and what is shown until it has answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_for
from tests.unit.xen.fake_xl import FakeXl
from virtscope.toolkit import collect
from virtscope.xen import xl
from virtscope.xen.model import Domain, Host
from virtscope.xen.toolstack import Keeper

REAL = Path(__file__).resolve().parents[2] / "fixtures/toolstack/xl-4.17-credit"


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    """Asks a fake xl once, and then only when it is woken."""
    monkeypatch.setenv("PATH", FakeXl(tmp_path, REAL).path)
    monkeypatch.setenv("XENSTORED_PATH", str(tmp_path / "no-socket"))
    monkeypatch.setattr(xl, "_FOLDERS", ())
    monkeypatch.setattr(collect, "REST", 0.05)
    keeper = Keeper(600)
    keeper.start()
    yield keeper
    keeper.close()


def test_after_a_reboot_a_guest_without_id_is_shown_when_the_toolstack_was_asked_again(keeper: Keeper) -> None:
    name = "app-server-with-a-rather-long-name"

    def is_shown(seconds: float) -> bool:
        guest = Domain(None, name, seconds, 1, None, 0, frozenset(), (), (), ())
        return any(keeper.add_to(Host(None, None, None, None, None, (guest,))).guests)

    wait_for(lambda: keeper.background.peek() is not None)
    toolstack = keeper.background.latest()
    used = next(guest.cpu_seconds for guest in toolstack.guests.values() if guest.name == name)
    assert is_shown(used)
    asked = keeper.background.cost.reads
    assert not is_shown(used - 0.5)  # CPU time that would do for the one before
    wait_for(lambda: keeper.background.cost.reads > asked)
    wait_for(lambda: is_shown(used - 0.5))

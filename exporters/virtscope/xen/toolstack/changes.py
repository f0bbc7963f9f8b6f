"""How often weights and caps were changed, counted by comparing each round of the toolstack with the one before."""

from __future__ import annotations

from typing import NamedTuple

from virtscope.xen.toolstack.model import Guest, Toolstack


class _Seen(NamedTuple):
    has_run: bool
    weight: int | None
    cap: int | None
    weight_changes: int
    cap_changes: int


class Changes:
    """Counts the changes of each domain from when it first ran for as long as it lives, under whatever names.

    While it is being made it has used no CPU time, and the toolstack sets what its configuration says.
    Two changes between two rounds count as one, and none if the second took back the first.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], _Seen] = {}  # by domid and uuid: ids are used again

    def note(self, toolstack: Toolstack) -> Toolstack:
        """Return the toolstack with the changes counted so far; to be given each round in its turn."""
        self._seen = {(guest.domid, guest.uuid): self._count(guest) for guest in toolstack.guests.values()}
        return toolstack._replace(
            guests={
                domid: guest._replace(
                    weight_changes=self._seen[domid, guest.uuid].weight_changes,
                    cap_changes=self._seen[domid, guest.uuid].cap_changes,
                )
                for domid, guest in toolstack.guests.items()
            }
        )

    def _count(self, guest: Guest) -> _Seen:
        weight, cap = guest.share.weight, guest.share.cap
        has_run = guest.cpu_seconds > 0
        before = self._seen.get((guest.domid, guest.uuid))
        if before is None or not before.has_run:
            return _Seen(has_run, weight, cap, 0, 0)
        # What isn't told this time has not changed.
        return _Seen(
            True,
            before.weight if weight is None else weight,
            before.cap if cap is None else cap,
            before.weight_changes + (None not in {weight, before.weight} and weight != before.weight),
            before.cap_changes + (None not in {cap, before.cap} and cap != before.cap),
        )

"""Under which names there may be another guest than when the toolstack was asked, as a source without ids sees it."""

from __future__ import annotations

from collections import Counter

from virtscope.xen.model import Host


class Successors:
    """Notes when the only bearer of a name appears, or its CPU time goes back: it was made, renamed or rebooted.

    Of young guests the CPU time alone doesn't tell that.
    """

    def __init__(self) -> None:
        self._last: dict[str, float | None] | None = None  # CPU seconds by name; None: before the first look
        self._noted: dict[str, float] = {}  # by name, when last

    def note(self, host: Host, now: float) -> bool:
        """Look at a host, to be given each scrape in its turn; return whether there was anything to note."""
        names = Counter(domain.name.strip() for domain in host.domains)
        bearers = {domain.name.strip(): domain.cpu_seconds for domain in host.domains if domain.domid is None}
        bearers = {name: seconds for name, seconds in bearers.items() if names[name] == 1}
        last = bearers if self._last is None else self._last
        new = {name for name, seconds in bearers.items() if name not in last or _went_back(last[name], seconds)}
        self._noted = {name: then for name, then in self._noted.items() if name in bearers}
        self._noted.update(dict.fromkeys(new, now))
        self._last = bearers
        return bool(new)

    def since(self, moment: float) -> set[str]:
        """Return the names that something was noted of then or later."""
        return {name for name, then in self._noted.items() if then >= moment}


def _went_back(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and now < before

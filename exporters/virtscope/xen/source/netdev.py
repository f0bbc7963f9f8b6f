"""Dom0's /proc/net/dev, read at each scrape: the guests' interfaces."""

from __future__ import annotations

from pathlib import Path

from virtscope.toolkit.sources import SourceUnavailable
from virtscope.xen.netdev import Vif, by_name, by_nodename, parse


class NetDev:
    """Reads Dom0's ends of the guests' interfaces."""

    def __init__(self, procfs: str = "/proc", sysfs: str = "/sys") -> None:
        self.path = Path(procfs, "net/dev")
        self._class_net = Path(sysfs, "class/net")

    def read(self) -> list[tuple[Vif, tuple[int, ...]]]:
        """Return all interfaces that are a vif's, with their figures.

        Raises SourceUnavailable where there is no such file (Dom0 is no Linux), SourceRubbish at another form of it.
        """
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise SourceUnavailable(f"{self.path}: {error.strerror}") from error
        return [
            (vif, figures)
            for name, figures in parse(text).items()
            if (vif := by_name(name) or self._renamed(name)) is not None
        ]

    def _renamed(self, name: bytes) -> Vif | None:
        """Return which vif an interface is that bears a name of its own, as by vifname= in xl.cfg."""
        try:
            return by_nodename((self._class_net / name.decode() / "device/nodename").read_bytes())
        except (OSError, UnicodeDecodeError):  # no vif: nothing else has this file
            return None

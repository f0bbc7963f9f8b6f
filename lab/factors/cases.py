"""The virtual servers that run side by side in a step: their number, their CPUs, and their limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

BASE = "base"
WEIGHT = 100  # the default of each cgroup, and of everything else on the machine


@dataclass(frozen=True, order=True)
class Case:
    """Virtual servers with one busy thread each, or a program on the machine itself, or one in a guest."""

    servers: int = 1
    cpus: int = 1
    """Shared by the servers: the machine's last ones."""
    pinned: bool = True
    """Each server to one CPU, in turn; otherwise the scheduler moves them among all of these."""
    weights: tuple[int, ...] = ()
    """Of each server, in units of cgroup version 2; if empty, all have `WEIGHT`."""
    cap: float | None = None
    """Of each server, in CPUs."""
    elsewhere: str = ""
    """`BASE` outside cgroups, or a guest's name, for a single program."""

    @property
    def name(self) -> str:
        """In words, such as "4 servers on 2 CPUs, free"; `parse` reads it."""
        servers, cpus = "server" if self.servers == 1 else "servers", "CPU" if self.cpus == 1 else "CPUs"
        return self._said(f"{self.servers} {servers} on {self.cpus} {cpus}, ", ", ", " ", ":") or self.elsewhere

    @property
    def slug(self) -> str:
        """For a step's name, such as "4on2-free"."""
        return self._said(f"{self.servers}on{self.cpus}-", "-", "-", "-") or re.sub(r"[^\w.-]+", "-", self.elsewhere)

    def _said(self, begin: str, between: str, blank: str, of_weights: str) -> str:
        if self.elsewhere:
            return ""
        weights = f"{between}weights{blank}{of_weights.join(map(str, self.weights))}" if self.weights else ""
        cap = "" if self.cap is None else f"{between}cap{blank}{self.cap:g}"
        return f"{begin}{'pinned' if self.pinned else 'free'}{weights}{cap}"

    def of_server(self, server: int) -> str:
        """The name of one of its virtual servers, from 0, if they differ."""
        return f"{self.name}, server {server + 1}"

    @property
    def overcommit(self) -> float:
        return self.servers / self.cpus

    def places(self, cpus: list[int]) -> list[str]:
        """The CPUs of each virtual server, as lists for cpuset; `cpus` are the machine's shared ones."""
        every = ",".join(map(str, cpus))
        return [str(cpus[server % len(cpus)]) if self.pinned else every for server in range(self.servers)]

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The case with this name; None if it isn't a case of virtual servers."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        servers, cpus, pinned, weights, cap = found.groups()
        each = tuple(map(int, weights.split(":"))) if weights else ()
        return cls(int(servers), int(cpus), pinned == "pinned", each, float(cap) if cap else None)


_NAME = re.compile(
    r"(\d{1,6}) servers? on (\d{1,6}) CPUs?, (pinned|free)"
    r"(?:, weights ((?:\d{1,6}:){0,99}\d{1,6}))?(?:, cap (\d{1,6}(?:\.\d{1,9})?))?",
    re.ASCII,
)

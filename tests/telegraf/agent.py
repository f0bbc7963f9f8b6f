"""Telegraf with copies of the sensors, for the duration of a test."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Self

import requests

from tests.support.program import Program, program_path
from tests.support.waiting import wait_for
from tests.telegraf.page import Totals, totals

FOLDER = Path(__file__).resolve().parents[2] / "telegraf"
WAIT_SECONDS = 60


def telegraf() -> Path:
    """Telegraf, built if it is missing; skips on machines that can't build it, except in CI."""
    return program_path("telegraf")


class Agent(Program):
    """The project's Telegraf, with its files in `folder`. Sensors run twice a second."""

    def __init__(self, folder: Path) -> None:
        super().__init__("telegraf", folder)
        self._sensors = folder / "sensors"
        self._sensors.mkdir(parents=True)
        (folder / "state").mkdir()
        own = {"TELEGRAF_PORT": str(self.port), "TELEGRAF_FOLDER": str(FOLDER), "STATE_DIRECTORY": f"{folder}/state"}
        self.environment |= own

    def add(self, sensor: str, filled_in: dict[str, str]) -> None:
        """A copy of a sensor with replaced texts, each of which must exist in the file."""
        copy = (FOLDER / "sensors" / f"{sensor}.conf").read_text()
        for old, new in filled_in.items():
            assert copy.count(old) == 1, f"{sensor}.conf has not one {old!r}"
            copy = copy.replace(old, new)
        copy = re.sub('interval = "(5|10)s"', 'interval = "500ms"', copy)
        (self._sensors / f"{len(list(self._sensors.iterdir()))}.conf").write_text(copy)

    def add_access_log(self, log: Path, app: str = "shop", server: str = "apache") -> None:
        """A copy of one of the two access-log sensors."""
        default = {"apache": "/var/log/apache2/access.log", "nginx": "/var/log/nginx/access.log"}[server]
        self.add(f"{server}_access_log", {f"access_log.pl {default}": f"access_log.pl '{log}'", '"shop"': f'"{app}"'})

    def __enter__(self) -> Self:
        self.start(f"--config={FOLDER / 'telegraf.conf'}", f"--config-directory={self._sensors}")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def is_ready(self) -> bool:
        return bool(self.page())

    def page(self) -> str:
        answer = requests.get(f"{self.url}/metrics", timeout=10)
        answer.raise_for_status()
        return answer.text

    def totals(self, app: str = "shop") -> Totals:
        """The totals of an app; waits until its sensor has some."""
        return self._wait_for(app, lambda found: bool(found.requests))

    def wait_for_lines(self, lines: int, app: str = "shop") -> Totals:
        """The totals of an app once this many lines have been counted; AssertionError if that isn't in time."""

        def complete(found: Totals) -> bool:
            assert found.lines <= lines, f"{found.lines} lines are counted of {lines}"
            # A sensor's output may arrive in two flushes: it is complete when every line is counted as request or
            # unparsed.
            return bool(found.requests) and (found.lines, found.count + found.unparsed) == (lines, lines)

        return self._wait_for(app, complete)

    def _wait_for(self, app: str, until: Callable[[Totals], bool]) -> Totals:
        return wait_for(
            lambda: totals(self.page(), app), WAIT_SECONDS, every=0.05, until=until, explain=self.log.read_text
        )

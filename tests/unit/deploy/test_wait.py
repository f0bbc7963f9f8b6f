"""What `make up` waits for while Telegraf, which is built beside it, may come at any moment."""

from __future__ import annotations

import pytest

from deploy import health, stack, telegraf
from deploy.parts import NODE_EXPORTER, TELEGRAF, Part
from deploy.plan import Plan
from deploy.targets import Machine


def test_a_telegraf_that_comes_while_others_are_scraped_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Part] = []
    scraped: list[Part] = []

    def wait_until_healthy(part: Part, _: int) -> int:
        waited.append(part)
        return 1

    monkeypatch.setattr(telegraf, "is_ready", lambda: bool(scraped))
    monkeypatch.setattr(health, "wait_until_healthy", wait_until_healthy)
    monkeypatch.setattr(health, "wait_until_scraped", lambda parts, _ports: scraped.extend(parts))
    parts = (NODE_EXPORTER, TELEGRAF)
    stack._wait(Plan(Machine("host1", "base", "said so"), parts, {part.name: 1 for part in parts}, {}))
    assert (scraped, waited) == ([NODE_EXPORTER], [NODE_EXPORTER] * 2)  # healthy before and after

"""What `make up` waits for while Telegraf, which is built beside it, may come at any moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tools import health, stack, telegraf
from tools.parts import NODE_EXPORTER, TELEGRAF, Part
from tools.targets import Machine


def test_a_telegraf_that_comes_while_others_are_scraped_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    is_ready = False
    waited: list[Part] = []
    scraped: list[Part] = []

    def wait_until_healthy(part: Part, _: int) -> int:
        waited.append(part)
        return 1

    def wait_until_scraped(parts: Sequence[Part], _: Mapping[str, int]) -> None:
        nonlocal is_ready
        scraped.extend(parts)
        is_ready = True

    monkeypatch.setattr(telegraf, "is_ready", lambda: is_ready)
    monkeypatch.setattr(health, "wait_until_healthy", wait_until_healthy)
    monkeypatch.setattr(health, "wait_until_scraped", wait_until_scraped)
    parts = (NODE_EXPORTER, TELEGRAF)
    stack._wait(stack.Plan(Machine("host1", "base", "said so"), parts, {part.name: 1 for part in parts}, {}))
    assert scraped == [NODE_EXPORTER]
    assert waited == [NODE_EXPORTER, NODE_EXPORTER]  # before and after

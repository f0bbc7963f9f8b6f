"""What `make up` and `make status` say of a source that this machine lacks."""

from __future__ import annotations

import pytest
from prometheus_client import Metric

from tests.support import Exposition
from tools import health
from tools.parts import SCHED_EXPORTER
from virtscope.toolkit.collect import SourceUnavailable
from virtscope.toolkit.exposition import Format
from virtscope.toolkit.scrape import Exporter, Source


def page(why: str) -> str:
    """As sched-exporter shows it, beside a source that answers."""

    def read() -> list[Metric]:
        if why:
            raise SourceUnavailable(why)
        return []

    sources = [Source("here", list, lambda: "/sys"), Source("sched_switch", read, lambda: "absent", required=False)]
    return Exporter("sched", sources).scrape(Format.TEXT, 30).decode()


def absent(text: str) -> list[str]:
    with Exposition(text) as exporter:
        return health.why_absent(SCHED_EXPORTER, int(exporter.address.rpartition(":")[2]))


@pytest.mark.parametrize("why", ["this kernel has no types: /sys/kernel/btf is absent", r'it said "no", in C:\ or so'])
def test_the_reason_is_the_exporter_s_own(why: str) -> None:
    text = page(why)
    assert "\nsched_up 1.0\n" in f"\n{text}"
    assert absent(text) == [why]


def test_a_reason_is_one_line() -> None:
    assert absent(page("no\nlibrary")) == ["no library"]


def test_what_answers_is_not_absent() -> None:
    assert absent(page("")) == []


def test_of_an_exporter_that_does_not_answer_nothing_is_said() -> None:
    assert health.why_absent(SCHED_EXPORTER, 1) == []

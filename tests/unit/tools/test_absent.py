"""What `make up` and `make status` say of a source that this machine lacks."""

from __future__ import annotations

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


def test_the_reason_is_the_exporter_s_own_in_one_line() -> None:
    for why in ("this kernel has no types: /sys/kernel/btf is absent", r'it said "no", in C:\ or so'):
        assert "\nsched_up 1.0\n" in f"\n{page(why)}"
        assert absent(page(why)) == [why]
    assert absent(page("no\nlibrary")) == ["no library"]
    assert absent(page("")) == [], "what answers is not absent"
    assert health.why_absent(SCHED_EXPORTER, 1) == [], "of an exporter that does not answer nothing is said"

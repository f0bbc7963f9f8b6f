"""A domain with all values of every source, against a golden page: no real host here has them all."""

from __future__ import annotations

from pathlib import Path

from tests.golden_pages import assert_golden
from virtscope.toolkit.exposition import Encoder
from virtscope.xen import metrics
from virtscope.xen.model import (
    IDLE,
    REST,
    RUNSTATES,
    STATES,
    Bandwidth,
    Block,
    Child,
    Domain,
    Guest,
    Host,
    Info,
    Network,
    Placement,
    Pool,
    Requests,
    Share,
    Timing,
    Toolstack,
    Traffic,
    Vcpu,
    WaitEstimates,
    Waiting,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden/xen-every-source.prom"

GUEST = Guest(
    domid=3,
    name="web01",
    cpu_seconds=12.5,
    uuid="9c7721eb-45db-4e13-9bcf-e43b0ac91ad3",
    type="pvh",
    os="Debian GNU/Linux 12",
    cpupool="Pool-0",
    share=Share(weight=512, cap=50, period=0.01, budget=0.004, cpupool="Pool-0"),
    placements={0: Placement(7, "4-7", "all")},
    cache_bytes={0: 2654208},
    bandwidth=Bandwidth({0: 1048576}, {0: 524288}),
    weight_changes=1,
    cap_changes=2,
)

DOMAIN = Domain(
    domid=3,
    name="web01",
    cpu_seconds=12.75,
    memory_bytes=1 << 30,
    memory_limit_bytes=1 << 31,
    ssid=0,
    states=frozenset({STATES[0]}),
    vcpus=(Vcpu(True, 12.75),),
    networks=(Network("0", Traffic(1000, 10, 1, 2), Traffic(2000, 20, 3, 4)),),
    blocks=(Block("xvda", "ca:0", "BlkBack", Requests(5, 4096), Requests(6, 8192), 1),),
)

WAITING = Waiting(3, "web01", {state: float(number) for number, state in enumerate(RUNSTATES)}, 7, 31.25)


# A domain that has ended, 9, is shown neither as who waited nor as who ran.
ESTIMATES = WaitEstimates(
    {3: {3: 1.5, 0: 2.5, 7: 421.5, 9: 4.0, IDLE: 0.25, REST: 8.0}, 9: {3: 5.0}},
    windows=17,
    lost_records=2,
)
NAMES = {0: "Domain-0", 3: "web01", 7: "batch-7"}


def test_golden_page() -> None:
    pool = Pool("Pool-0", "credit2", 8, Timing(0.03, 0.001))
    toolstack = Toolstack("xl", Info("4.17.7", "credit2", 8, 10**9, 1 << 34, 1 << 33), (pool,), {3: GUEST}, ())
    page = Encoder().text(
        [
            *metrics.host_families(Host("4.17.7", 8, 2_400_000_000, 1 << 34, 1 << 33, (DOMAIN,), (GUEST,))),
            *metrics.waiting_families([WAITING]),
            *metrics.wait_estimate_families(ESTIMATES, NAMES),
            *metrics.child_families(Child(1.4, 0, 1)),
            *metrics.toolstack_families(toolstack, {("sched-credit2", "complaint"): 1}),
        ]
    )
    assert_golden(GOLDEN, page)


def test_a_guest_called_like_what_is_no_domain_is_known_by_its_id() -> None:
    estimates = WaitEstimates({3: {7: 1.5, IDLE: 0.25}}, 1, 0)
    [waits, *_] = metrics.wait_estimate_families(estimates, {3: "web01", 7: "(idle)"})
    labels = [(sample.labels["running_domid"], sample.labels["running"]) for sample in waits.samples]
    assert labels == [("7", "(idle)"), ("", "(idle)")]

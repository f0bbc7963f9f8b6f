"""A domain with all values of every source, against a golden page: no real host here has them all."""

from pathlib import Path

from tests.golden_pages import assert_golden
from virtscope.toolkit.exposition import Encoder
from virtscope.xen import metrics, model

GOLDEN = Path(__file__).resolve().parents[2] / "golden/xen-every-source.prom"

GUEST = model.Guest(
    domid=3,
    name="web01",
    cpu_seconds=12.5,
    uuid="9c7721eb-45db-4e13-9bcf-e43b0ac91ad3",
    type="pvh",
    os="Debian GNU/Linux 12",
    cpupool="Pool-0",
    share=model.Share(weight=512, cap=50, period=0.01, budget=0.004, cpupool="Pool-0"),
    placements={0: model.Placement(7, "4-7", "all")},
    cache_bytes={0: 2654208},
    bandwidth=model.Bandwidth({0: 1048576}, {0: 524288}),
    weight_changes=1,
    cap_changes=2,
)
DOMAIN = model.Domain(
    domid=3,
    name="web01",
    cpu_seconds=12.75,
    memory_bytes=1 << 30,
    memory_limit_bytes=1 << 31,
    ssid=0,
    states=frozenset({model.STATES[0]}),
    vcpus=(model.Vcpu(True, 12.75),),
    networks=(model.Network("0", model.Traffic(1000, 10, 1, 2), model.Traffic(2000, 20, 3, 4)),),
    blocks=(model.Block("xvda", "ca:0", "BlkBack", model.Requests(5, 4096), model.Requests(6, 8192), 1),),
)
WAITING = model.Waiting(3, "web01", {state: float(number) for number, state in enumerate(model.RUNSTATES)}, 7, 31.25)
TOTALS = model.Totals(250.5, 90.25, 3000, 4000, 50000, 60000)
# Domain 9 has ended, so it appears neither as waiting nor as running. Domain 7 has a name that no other domain has.
ESTIMATES = model.WaitEstimates(
    {3: {3: 1.5, 0: 2.5, 7: 421.5, 9: 4.0, model.IDLE: 0.25, model.REST: 8.0}, 9: {3: 5.0}}, 17, 2
)
NAMES = {0: "Domain-0", 3: "web01", 7: "(idle)"}


def test_golden_page() -> None:
    pool = model.Pool("Pool-0", "credit2", 8, model.Timing(0.03, 0.001))
    counts = {("sched-credit2", "complaint"): 1}
    toolstack = model.Toolstack("xl", model.Host(), (pool,), {3: GUEST}, (), counts)
    page = Encoder().text(
        [
            *metrics.host_families(
                model.Host("4.17.7", 8, 2_400_000_000, 1 << 34, 1 << 33, (DOMAIN,), (GUEST,), totals=TOTALS)
            ),
            *metrics.waiting_families([WAITING], 40.5),
            *metrics.wait_estimate_families(ESTIMATES, NAMES),
            *metrics.child_families(model.Child(1.4, 0, 1)),
            *metrics.toolstack_families(toolstack),
        ]
    )
    assert_golden(GOLDEN, page)

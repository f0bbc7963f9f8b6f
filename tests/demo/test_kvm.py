"""demo-kvm's files, read by kvm-exporter: its guests use and wait for what shop.yml says, and no more than there is."""

from __future__ import annotations

import pytest

from demo import kvm, shop, story
from demo.model import Counters
from virtscope.kvm.exporter import HostView
from virtscope.kvm.host_files import RecordedFiles

FULL_HOUR = 480000 * story.CYCLE
SECONDS = 60
MIDDLE = {"quiet": 3, "batch": 15, "capped batch": 28, "sale": 45}  # minutes
Rates = dict[str, dict[str, float]]


def rates(minute: int) -> Rates:
    """How fast each counter grows in this minute of the hour, per second: by name, then by guest ("": the host)."""
    counters, files = Counters(shop.HOST, FULL_HOUR - story.CYCLE), RecordedFiles()
    view = HostView(files, [tuple], recorded_ones=True)
    found: Rates = {}
    for at, sign in ((0, -1), (SECONDS, 1)):
        files.show(kvm.files(counters, FULL_HOUR + 60 * minute + at))
        for family in view.families(0):
            for sample in family.samples:
                values = found.setdefault(sample.name, {})
                guest = sample.labels.get("guest", "")
                values[guest] = values.get(guest, 0) + sign * sample.value / SECONDS
    return found


@pytest.fixture(scope="module", params=list(MIDDLE.values()), ids=list(MIDDLE))
def played(request: pytest.FixtureRequest) -> Rates:
    return rates(request.param)


def test_each_guest_costs_between_5_and_15_percent_of_what_it_computes(played: Rates) -> None:
    for guest, computed in played["kvm_guest_guest_seconds_total"].items():
        over = played["kvm_guest_cpu_seconds_total"][guest] / computed - 1
        # Ticks of 10 ms; batch computes little while its job doesn't run.
        assert 0.05 - 0.02 / computed / SECONDS - 0.005 < over < 0.15, guest


def test_the_host_is_never_over_full(played: Rates) -> None:
    used = played["kvm_host_cpu_seconds_total"][""]
    assert used == pytest.approx(sum(played["kvm_guest_cpu_seconds_total"].values()) + 0.035, abs=0.02)
    assert used < 4
    assert played["kvm_host_guest_seconds_total"][""] == pytest.approx(
        sum(played["kvm_guest_guest_seconds_total"].values()), abs=0.01
    )


def test_no_vcpu_runs_and_waits_for_longer_than_there_is_time(played: Rates) -> None:
    for guest, ran in played["kvm_vcpu_run_seconds_total"].items():
        assert ran + played["kvm_vcpu_wait_seconds_total"][guest] < shop.GUESTS[guest]["vcpus"], guest


def test_the_threads_of_a_guest_add_up_to_it(played: Rates) -> None:
    for guest, used in played["kvm_guest_cpu_seconds_total"].items():
        others = played["kvm_guest_thread_cpu_seconds_total"][guest]
        assert played["kvm_vcpu_run_seconds_total"][guest] + others == pytest.approx(used, abs=0.005)


def test_the_batch_job_takes_what_is_left() -> None:
    played = rates(MIDDLE["batch"])
    # 2,800 clients that think for 7 s and wait 0.12 s for an answer: 393.3 requests per second of 1.5 ms each.
    assert played["kvm_guest_guest_seconds_total"]["shop-web"] == pytest.approx(0.590, abs=0.002)
    assert played["kvm_guest_guest_seconds_total"]["batch"] == pytest.approx(2.6, abs=0.002)
    # 1.25 s for each second of that.
    assert played["kvm_vcpu_wait_seconds_total"]["shop-web"] == pytest.approx(0.737, abs=0.002)


def test_the_sale_uses_up_the_shop_s_cap() -> None:
    played = rates(MIDDLE["sale"])
    # 4,200 clients / 7.13 s * 1.5 ms, and 12 % for KVM and QEMU: all but 1 % of its cap of a CPU.
    assert played["kvm_guest_cpu_seconds_total"]["shop-web"] == pytest.approx(0.990, abs=0.002)
    assert played["kvm_guest_throttled_seconds_total"]["shop-web"] == pytest.approx(0.6, abs=0.002)


def test_capped_the_batch_job_stays_below_its_cap() -> None:
    played = rates(MIDDLE["capped batch"])
    assert played["kvm_guest_cpu_seconds_total"]["batch"] == pytest.approx(0.94 * 1.05, abs=0.002)

"""The chart's pod on a node with cgroups v2 and systemd as cgroup driver: each exporter sees other pods by their paths.

Containers have cgroup namespaces of their own there, relative to which the kernel shows paths in /proc.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.distributions.chroots import MissingError
from tests.kubernetes import pods
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.machine import Machine
from tests.support import Prometheus
from tests.support.disk import need_emulation
from tests.support.needs import missing
from tests.support.pages import Page
from tests.support.waiting import wait_for

# The first run builds Kubernetes and the machine.
pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

PORTS = {"sched": 10298, "perf": 10292, "kvm": 10297}
READY_SECONDS = 600
SEEN_SECONDS = 600
UIDS = {name: f"7f8c1e0a-5b1d-4c33-9a52-00000000000{number}" for number, name in enumerate(("checkout", "etl-7", "vm"))}
WAITED = 20.0
OWN_GUEST = f"systemd-run --quiet --scope --slice=machine.slice --unit=own {pods.QEMU} -name own -daemonize"


class Watched(NamedTuple):
    """The machine with its pods, the exporters' addresses by name, and the Prometheus that scrapes them."""

    machine: Machine
    exporters: dict[str, str]
    prometheus: Prometheus

    def page(self, exporter: str) -> Page:
        return Page.of(self.exporters[exporter])


@pytest.fixture(scope="module")
def watched(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    need_emulation()
    workdir = tmp_path_factory.mktemp("node")
    try:
        machine = Machine(workdir, images, [*PORTS.values()])
    except MissingError as error:
        missing(str(error))
    with machine:
        machine.start_kubelet()
        kubelet = machine.kubelet
        kubelet.run(pods.chart(workdir, PORTS))
        kubelet.wait_until_ready("virtscope", seconds=READY_SECONDS)
        machine.run(OWN_GUEST)
        kubelet.run(pods.guest("default", "vm", UIDS["vm"]))
        kubelet.run(pods.burner("shop", "checkout", UIDS["checkout"], cpu="2"))
        kubelet.run(pods.burner("batch", "etl-7", UIDS["etl-7"]))
        kubelet.wait_until_ready(*UIDS, seconds=READY_SECONDS)
        exporters = {exporter: machine.forwarded[port] for exporter, port in PORTS.items()}
        with Prometheus(workdir, kubelet.targets(exporters), interval="15s") as prometheus:
            yield Watched(machine, exporters, prometheus)


def path(name: str) -> str:
    """The path of a pod's cgroup."""
    uid = UIDS[name].replace("-", "_")
    return f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"


def test_sched_exporter_charges_a_pod_s_wait_to_its_neighbour(watched: Watched) -> None:
    def charged() -> dict[str, float]:
        samples = watched.page("sched").all("sched_wait_seconds_total", cgroup=path("checkout"))
        return {sample.labels["running"]: sample.value for sample in samples}

    first = wait_for(charged, SEEN_SECONDS, every=2)
    last = wait_for(charged, SEEN_SECONDS, every=2, until=lambda now: sum(now.values()) - sum(first.values()) > WAITED)
    of_neighbour = last[path("etl-7")] - first.get(path("etl-7"), 0)
    assert of_neighbour > 0.5 * (sum(last.values()) - sum(first.values()))  # containerd and the kubelet compute, too


def test_sched_exporter_keeps_no_capability(watched: Watched) -> None:
    status = watched.machine.run("cat /proc/$(pgrep --full '^python3 -m virtscope.sched')/status").splitlines()
    assert [line.split()[1] for line in status if line.startswith(("CapEff", "CapPrm"))] == ["0" * 16] * 2


def test_perf_exporter_counts_pods(watched: Watched) -> None:
    def seconds() -> float:
        return watched.page("perf").total(
            "perf_cgroup_event_seconds_total", cgroup=path("checkout"), event="task-clock"
        )

    wait_for(seconds, SEEN_SECONDS, every=2)


def test_kvm_exporter_finds_guests_in_pods_and_outside(watched: Watched) -> None:
    def found() -> dict[str, str]:
        samples = watched.page("kvm").all("kvm_guest_cgroup_info")
        return {sample.labels["guest"]: sample.labels["cgroup"] for sample in samples}

    expected = {"default_vm": path("vm"), "own": "/machine.slice/own.scope"}
    wait_for(found, SEEN_SECONDS, every=2, until=expected.__eq__)


def test_records_call_pods_by_name(watched: Watched) -> None:
    checkout, etl = f"shop/checkout-{NAME}", f"batch/etl-7-{NAME}"
    caused = f'vserver:delay:rate{{vserver="{checkout}", resource="cpu", reason="neighbour", by="{etl}"}}'
    watched.prometheus.wait_for(f"{caused} > 0", SEEN_SECONDS, watched.machine.log)
    used = 'count by (vserver) (vserver:cpu_usage:rate{platform="cgroup", role="guest"})'

    def named() -> set[str]:
        return {each["metric"]["vserver"] for each in watched.prometheus.query(used)}

    # The guest's pod is the guest once kvm-exporter has been scraped.
    wait_for(named, SEEN_SECONDS, every=2, until={checkout, etl, f"virtscope/virtscope-{NAME}"}.__eq__)

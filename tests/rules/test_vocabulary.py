"""The vocabulary as a real Prometheus records it from exporters' metrics, with the shipped configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support import Exposition, Prometheus
from tools.vocabulary_reference import vocabulary

# Records over hours or weeks; prometheus/tests/history_usual.yml and history_forecast.yml assert their labels.
NEEDS_HISTORY = {
    record
    for record in vocabulary()
    if record.endswith(("_median1w", "_max1w", "_max1h", "_p10_1d")) or "_in_a_week:" in record
} | {"app:overcommit_borne:ratio"}
NEEDS_AN_END = {
    "vserver:ended_cpu_usage:rate",
    "app:neighbour_predicted:rate",
    "app:neighbour_regained:rate",
}  # of a guest; asserted in prometheus/tests/xen.yml, kvm.yml, openvz.yml, cgroup.yml and derived_neighbours.yml

# Each domain uses one CPU. Two have the same name, one has a name that is odd but legal.
XENTOP = r"""
process_cpu_seconds_total SECONDS
xen_host_cpus 4
xen_host_vcpus 6
xen_domain_cpu_seconds_total{domid="0",domain="Domain-0"} SECONDS
xen_domain_cpu_seconds_total{domid="1",domain="web"} SECONDS
xen_domain_cpu_seconds_total{domid="2",domain="web"} SECONDS
xen_domain_cpu_seconds_total{domid="7",domain="Käse \"db\" \\ 1"} SECONDS
xen_domain_cpu_limit_cpus{domid="1",domain="web"} 0.5
xen_domain_scheduler_weight{domid="1",domain="web"} 256
xen_domain_scheduler_changes_total{domid="1",domain="web",what="cap"} SECONDS
xen_domain_state{domid="1",domain="web",state="crashed"} 0
xen_domain_memory_bytes{domid="0",domain="Domain-0"} 1e9
xen_domain_memory_bytes{domid="1",domain="web"} 2e9
xen_domain_memory_limit_bytes{domid="1",domain="web"} 4e9
xen_domain_memory_bytes{domid="2",domain="web"} 3e9
xen_domain_network_receive_bytes_total{domid="2",domain="web",vif="0"} SECONDS
xen_domain_block_write_bytes_total{domid="2",domain="web",vbd="xvda"} SECONDS
xen_domain_memory_bytes{domid="7",domain="Käse \"db\" \\ 1"} 4e9
xen_domain_wait_estimated_seconds_total{domid="2",domain="web",running_domid="7",running="Käse \"db\" \\ 1"} SECONDS
"""
KVM = r"""
process_cpu_seconds_total SECONDS
kvm_host_cpus 4
kvm_host_cpu_seconds_total SECONDS
kvm_host_guest_seconds_total 0
kvm_guest_info{guest="db_1",pid="10",uuid="u",id="1",title="",manager="libvirt",accelerator="kvm"} 1
kvm_guest_cgroup_info{guest="db_1",pid="10",cgroup="/machine.slice/machine-qemu\\x2d1\\x2ddb1.scope"} 1
kvm_guest_cpu_seconds_total{guest="db_1",pid="10"} SECONDS
kvm_guest_guest_seconds_total{guest="db_1",pid="10"} SECONDS
kvm_guest_vcpus{guest="db_1",pid="10"} 1
kvm_vcpu_run_seconds_total{guest="db_1",pid="10",vcpu="0"} SECONDS
kvm_vcpu_wait_seconds_total{guest="db_1",pid="10",vcpu="0"} SECONDS
kvm_vcpu_exits_total{guest="db_1",pid="10",vcpu="0"} SECONDS
kvm_guest_throttled_seconds_total{guest="db_1",pid="10",part="all"} 0
kvm_guest_throttled_seconds_total{guest="db_1",pid="10",part="vcpu"} 0
kvm_guest_cpu_limit_cpus{guest="db_1",pid="10"} 0.5
kvm_guest_cpu_weight{guest="db_1",pid="10"} 100
kvm_guest_memory_resident_bytes{guest="db_1",pid="10"} 1e9
kvm_guest_memory_limit_bytes{guest="db_1",pid="10"} 2e9
kvm_guest_network_receive_bytes_total{guest="db_1",pid="10",device="vnet0"} SECONDS
kvm_guest_block_read_bytes_total{guest="db_1",pid="10",device="vda"} SECONDS
kvm_guest_state{guest="db_1",pid="10",state="crashed"} 0
"""
VESTAT = """
process_cpu_seconds_total SECONDS
openvz_host_containers 2
openvz_container_cpu_used_seconds_total{ctid="101"} SECONDS
openvz_container_cpu_used_seconds_total{ctid="4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"} SECONDS
openvz_container_scheduling_latency_seconds_total{ctid="101"} SECONDS
openvz_container_scheduling_latency_seconds_total{ctid="4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"} SECONDS
openvz_container_uptime_seconds{ctid="101"} SECONDS
openvz_beancounter_limit_bytes{ctid="101",resource="physpages"} 2e9
openvz_beancounter_failures_total{ctid="101",resource="numproc"} SECONDS
openvz_beancounter_failures_total{ctid="0",resource="numproc"} 0
openvz_container_io_read_bytes_total{ctid="101"} SECONDS
openvz_container_io_read_bytes_total{ctid="0"} SECONDS
"""
GUEST = """
process_cpu_seconds_total SECONDS
node_cpu_seconds_total{cpu="0",mode="idle"} SECONDS
node_cpu_seconds_total{cpu="0",mode="steal"} SECONDS
"""
PERF = """
process_cpu_seconds_total SECONDS
perf_events_total{cpu="0",group="cache",pmu="",event="instructions"} SECONDS
perf_events_total{cpu="0",group="cache",pmu="",event="cycles"} SECONDS
perf_events_total{cpu="0",group="cache",pmu="",event="cache-misses"} SECONDS
perf_group_enabled_seconds_total{cpu="0",group="cache",pmu=""} SECONDS
perf_group_running_seconds_total{cpu="0",group="cache",pmu=""} SECONDS
perf_events_total{cpu="0",group="tlb",pmu="",event="instructions"} SECONDS
perf_events_total{cpu="0",group="tlb",pmu="",event="dTLB-load-misses"} SECONDS
perf_events_total{cpu="0",group="tlb",pmu="",event="iTLB-load-misses"} SECONDS
"""
CGROUPS = """
perf_cgroup_events_total{cgroup="/machine.slice/101",group="cache",pmu="",event="instructions"} SECONDS
"""
CGROUP_OF_KVM_GUEST = CGROUPS.replace("/101", r"/machine-qemu\\x2d1\\x2ddb1.scope")
CGROUP_OF_TIER = """
perf_cgroup_events_total{cgroup="/virtscope/auction-1-web",group="cache",pmu="",event="instructions"} SECONDS
perf_cgroup_events_total{cgroup="/virtscope/auction-1-web",group="cache",pmu="",event="cycles"} SECONDS
"""

# What waits and what runs: a KVM guest, and the containers of CADVISOR.
SCHED_OF_KVM = r"""
process_cpu_seconds_total SECONDS
sched_switches_total SECONDS
sched_waits_total{cgroup="/machine.slice/machine-qemu\\x2d1\\x2ddb1.scope"} SECONDS
sched_wait_seconds_total{cgroup="/machine.slice/machine-qemu\\x2d1\\x2ddb1.scope",running="(host)"} SECONDS
"""
SCHED_OF_DOCKER = """
process_cpu_seconds_total SECONDS
sched_switches_total SECONDS
sched_waits_total{cgroup="/docker/DOCKER_ID"} SECONDS
sched_waits_total{cgroup="/virtscope/auction-1-web"} SECONDS
sched_wait_seconds_total{cgroup="/virtscope/auction-1-web",running="/docker/DOCKER_ID"} SECONDS
sched_wait_seconds_total{cgroup="/virtscope/auction-1-web",running="(cap)"} SECONDS
"""

NODE = """
process_cpu_seconds_total SECONDS
node_cpu_seconds_total{cpu="0",mode="user"} SECONDS
node_cpu_seconds_total{cpu="0",mode="idle"} SECONDS
node_cpu_seconds_total{cpu="0",mode="steal"} 0
node_memory_MemTotal_bytes 8e9
node_memory_MemAvailable_bytes 5e9
node_network_receive_bytes_total{device="eth0"} BYTES
node_network_receive_bytes_total{device="veth101.0"} SECONDS
node_disk_read_bytes_total{device="sda"} SECONDS
"""
DOCKER_ID = 8 * "0123abcd"
# A container known by its name, with a cgroup inside, and a capped one known by its path.
CADVISOR = r"""
process_cpu_seconds_total SECONDS
machine_cpu_cores{machine_id="1",boot_id="2",system_uuid="3"} 2
container_start_time_seconds{id="/"} 1e9
container_start_time_seconds{id="/docker/DOCKER_ID",name="auction-db",image="mariadb"} 1e9
container_start_time_seconds{id="/docker/DOCKER_ID/init.scope"} 1e9
container_start_time_seconds{id="/virtscope/auction-1-web"} 1e9
container_cpu_usage_seconds_total{id="/",cpu="total"} SECONDS
container_cpu_usage_seconds_total{id="/docker/DOCKER_ID",name="auction-db",image="mariadb",cpu="total"} SECONDS
container_cpu_usage_seconds_total{id="/docker/DOCKER_ID/init.scope",cpu="total"} SECONDS
container_cpu_usage_seconds_total{id="/virtscope/auction-1-web",cpu="total"} SECONDS
container_pressure_cpu_waiting_seconds_total{id="/virtscope/auction-1-web"} SECONDS
container_cpu_cfs_throttled_seconds_total{id="/virtscope/auction-1-web"} 0
container_spec_cpu_quota{id="/virtscope/auction-1-web"} 200000
container_spec_cpu_period{id="/virtscope/auction-1-web"} 100000
container_memory_working_set_bytes{id="/virtscope/auction-1-web"} 1e9
container_network_receive_bytes_total{id="/docker/DOCKER_ID",name="auction-db",image="mariadb",interface="eth0"} BYTES
container_network_receive_bytes_total{id="/virtscope/auction-1-web",interface="eth0"} BYTES
container_fs_writes_bytes_total{id="/virtscope/auction-1-web",device="/dev/sda"} SECONDS
container_spec_memory_limit_bytes{id="/virtscope/auction-1-web"} 2e9
""".replace("DOCKER_ID", DOCKER_ID)
# One request a second to the lab's application, all answered within 0.1 s.
SENSOR = """
app_request_duration_seconds_bucket{app="auction-1",tier="web",method="GET",status="2xx",le="0.1"} SECONDS
app_request_duration_seconds_bucket{app="auction-1",tier="web",method="GET",status="2xx",le="0.3"} SECONDS
app_request_duration_seconds_bucket{app="auction-1",tier="web",method="GET",status="2xx",le="+Inf"} SECONDS
app_request_duration_seconds_sum{app="auction-1",tier="web",method="GET",status="2xx"} SECONDS
app_request_duration_seconds_count{app="auction-1",tier="web",method="GET",status="2xx"} SECONDS
"""


def counting(text: str) -> Callable[[], str]:
    """The text with a clock's seconds in place of SECONDS, and a hundred thousand times that in place of BYTES."""
    return lambda: text.replace("SECONDS", str(time.monotonic())).replace("BYTES", str(1e5 * time.monotonic()))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes a Dom0 by two addresses, a KVM and an OpenVZ host, and bare machines, one without `host` in its entry.

    Also one of the Dom0's guests from inside, and a guest without labels. One of the bare machines has containers that
    are an auction site, with a sensor. Events are counted in the Dom0, in that guest, and on the KVM host
    and both hosts with containers, for one guest or two.
    """
    with (
        Exposition(counting(XENTOP)) as xentop,
        Exposition(counting(KVM)) as kvm,
        Exposition(counting(PERF + CGROUP_OF_KVM_GUEST)) as perf_of_kvm,
        Exposition(counting(VESTAT)) as vestat,
        Exposition(counting(NODE)) as node,
        Exposition(counting(GUEST)) as guest,
        Exposition(counting(PERF)) as perf,
        Exposition(counting(PERF + CGROUPS)) as perf_of_cgroups,
        Exposition(counting(CADVISOR)) as cadvisor,
        Exposition(
            counting(PERF + CGROUPS.replace("machine.slice/101", f"docker/{DOCKER_ID}") + CGROUP_OF_TIER)
        ) as perf_of_docker,
        Exposition(counting(SCHED_OF_KVM)) as sched_of_kvm,
        Exposition(counting(SCHED_OF_DOCKER.replace("DOCKER_ID", DOCKER_ID))) as sched_of_docker,
        Exposition(counting(SENSOR)) as sensor,
    ):
        port = node.address.partition(":")[2]
        targets = {
            "xentop": [
                xentop.group("xen1"),
                {**xentop.group("xen1"), "targets": [xentop.address.replace("127.0.0.1", "localhost")]},
            ],
            "kvm": [kvm.group("kvm1", platform="kvm")],
            "vestat": [vestat.group("vz1", platform="openvz")],
            "cadvisor": [cadvisor.group("docker1", platform="cgroup")],
            "telegraf": [sensor.group("docker1", platform="cgroup")],
            "perf": [
                perf.group("xen1"),
                perf_of_kvm.group("kvm1", platform="kvm"),
                perf_of_cgroups.group("vz1", platform="openvz"),
                perf_of_docker.group("docker1", platform="base"),
            ],
            "sched": [
                sched_of_kvm.group("kvm1", platform="kvm"),
                sched_of_docker.group("docker1", platform="base"),
            ],
            "guest": [
                {
                    "targets": [guest.address.replace("127.0.0.1", "localhost"), perf.address],
                    "labels": {"host": "xen1", "platform": "xen", "vserver": "web/2"},
                },
                {"targets": [guest.address], "labels": {"platform": "base"}},
            ],
            "node": [
                node.group("vz1", platform="openvz"),
                node.group("server1", platform="base"),
                {"targets": [f"localhost:{port}"], "labels": {"platform": "base"}},
                node.group("docker1", platform="base"),
            ],
        }
        with Prometheus(tmp_path_factory.mktemp("vocabulary"), targets) as prometheus:
            prometheus.wait_for("count(up == 1) == 19", seconds=60)
            prometheus.wait_for("count(vserver:cpu_usage:rate) == 15", seconds=60)
            yield prometheus


@pytest.mark.parametrize("record", sorted(vocabulary().keys() - NEEDS_HISTORY - NEEDS_AN_END))
def test_series_have_exactly_the_labels_of_the_vocabulary(prometheus: Prometheus, record: str) -> None:
    for series in prometheus.wait_for(record, seconds=90):  # objectives over long ranges are evaluated once a minute
        assert set(series["metric"]) - {"__name__"} == set(vocabulary()[record].labels)


def test_guests_are_identified_by_name(prometheus: Prometheus) -> None:
    roles = {
        s["metric"]["vserver"]: s["metric"]["role"]
        for s in prometheus.wait_for('vserver:memory:bytes{host="xen1"}', 60)
    }
    assert roles == {"Domain-0": "host", "web/1": "guest", "web/2": "guest", 'Käse "db" \\ 1': "guest"}


def test_a_target_without_a_host_is_known_by_its_address(prometheus: Prometheus) -> None:
    used = 'vserver:cpu_usage:rate{platform="base"}'
    found = prometheus.wait_for(f"{used} and on () (count({used}) == 3)", 60)
    assert {series["metric"]["host"] for series in found} == {"server1", "docker1", "localhost"}


def test_a_guest_scraped_from_inside_adds_only_its_waiting(prometheus: Prometheus) -> None:
    prometheus.wait_for('vserver:cpu_wait:rate{host="xen1",vserver="web/2",role="guest"} > 0', seconds=60)
    assert {series["metric"]["vserver"] for series in prometheus.query('vserver:cpu_wait:rate{host="xen1"}')} == {
        "web/2"
    }
    assert (
        prometheus.query('vserver:cpu_usage:rate{host="127.0.0.1"}') == []
    )  # the guest without labels is not taken for a host


def test_a_host_scraped_twice_is_counted_once(prometheus: Prometheus) -> None:
    assert len(prometheus.query('up{host="xen1",job="xentop"}')) == 2
    prometheus.wait_for('sum(vserver:memory:bytes{host="xen1"}) == 10e9', 60)
    prometheus.wait_for('host:overhead:ratio{host="xen1"} > 0.2 < 0.3', seconds=30)  # one of four CPUs


def test_events_are_those_of_dom0_and_the_guests_that_count(prometheus: Prometheus) -> None:
    prometheus.wait_for('count(vserver:instructions:rate{host="xen1"}) == 2', seconds=60)
    counted = prometheus.query('vserver:instructions:rate{host="xen1"}')
    assert {s["metric"]["vserver"]: s["metric"]["role"] for s in counted} == {"Domain-0": "host", "web/2": "guest"}
    prometheus.wait_for('host:events_covered:ratio{host="xen1"} > 0.45 < 0.55', seconds=30)  # two of four domains count


@pytest.mark.parametrize("vserver", ["db_1", "101", "auction-db"])
def test_events_and_cpu_of_a_guest_have_the_same_name(prometheus: Prometheus, vserver: str) -> None:
    counted = f'vserver:instructions:rate{{vserver="{vserver}"}}'
    prometheus.wait_for(f"{counted} and on (host, platform, vserver, role) vserver:cpu_usage:rate", seconds=60)


def test_who_was_waited_for_is_called_by_its_name(prometheus: Prometheus) -> None:
    caused = prometheus.wait_for('vserver:cpu_wait_caused:rate{vserver="virtscope/auction-1-web"} > 0.5', seconds=90)
    ran = {(series["metric"]["reason"], series["metric"]["by"]) for series in caused}
    assert ran == {("neighbour", "auction-db"), ("cap", "(cap)")}
    (named,) = prometheus.wait_for('app:neighbour:ratio{app="auction-1"}', seconds=30)
    assert named["metric"]["by"] == "auction-db"
    assert prometheus.query('vserver:cpu_wait_caused:rate{host="kvm1",vserver="db_1",reason="host",by="host"}')


def test_containers_appear_beside_their_machine(prometheus: Prometheus) -> None:
    used = prometheus.wait_for(
        'vserver:cpu_usage:rate{host="docker1"} and on () (count(vserver:cpu_usage:rate{host="docker1"}) == 4)', 60
    )
    assert {(s["metric"]["platform"], s["metric"]["vserver"], s["metric"]["role"]) for s in used} == {
        ("base", "docker1", "host"),
        ("cgroup", "docker1", "host"),
        ("cgroup", "auction-db", "guest"),
        ("cgroup", "virtscope/auction-1-web", "guest"),
    }


def test_an_applications_sensor_and_containers_are_joined(prometheus: Prometheus) -> None:
    # The web tier uses one CPU; no overhead, as the machine uses no more than its containers; one request a second.
    prometheus.wait_for('app:cpu_per_request:seconds{app="auction-1"} > 0.9 < 1.1', seconds=60)
    prometheus.wait_for('app:response_seconds:p95{app="auction-1",tier="web"} > 0 < 0.1', seconds=30)
    assert prometheus.value('app:errors:ratio{app="auction-1",tier="web"}') == 0

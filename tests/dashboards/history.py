"""Simulated hosts of which all numbers are known, a quarter of an hour long, as input of promtool's unit tests.

Those of hosts.py and consolidated.py as they are scraped, and alerts that fire. test_values.py has what panels show.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.dashboards import consolidated, counted, experiments, hosts

MINUTES, STEP_SECONDS = 12, 15

# Of the lab two steps of a whole history: one site visited by 800 clients, and four.
_STEP = 1e6
LAB = consolidated.Lab(step_seconds=_STEP)


# A platform's own metrics: a series, its value, and what is added to it each second. A series OF a guest is there for
# two, db with ten times as much as web. No two metrics of one kind are alike, so that none is taken for another.
_FACTORS = {"web": 1, "db": 10}
XEN = """
xen_host_domains 3
xen_host_cpus 8
xen_host_cpu_hertz 2.4e9
xen_host_memory_bytes 16e9
xen_host_memory_free_bytes 5e9
xen_host_info{version="4.17"} 1
xen_cpupool_info{cpupool="Pool-0",scheduler="credit2"} 1
xen_cpupool_cpus{cpupool="Pool-0"} 6
xen_cpupool_timeslice_seconds{cpupool="Pool-0"} 0.03
xen_cpupool_ratelimit_seconds{cpupool="Pool-0"} 0.001
xen_trace_windows_total 0 0.0625
xen_trace_lost_records_total 0 17
xentop_up 1
xentop_source_up{source="xl"} 0
xentop_source_up{source="libxenstat"} 1
xentop_source_info{source="xl",detail="xl"} 1
xentop_source_errors_total{source="xl",reason="timeout"} 0 0.05
xentop_source_reads_total{source="xl"} 0 0.2
xentop_source_seconds_total{source="xl"} 0 0.06
xentop_source_cpu_seconds_total{source="xl"} 0 0.02
xentop_source_age_seconds{source="xl"} 4
xentop_encode_seconds_total 0 0.003
xentop_encode_errors_total 0 0.01
xentop_iteration_age_seconds 1.4
xentop_iteration_unknown_lines 6
xentop_build_info{version="0.1.0",python="3.9"} 1
process_cpu_seconds_total 0 0.005
process_open_fds 20
process_max_fds 80
xen_domain_info{OF,type="pvh",os="Debian",cpupool="Pool-0",uuid="u"} 1
xen_domain_vcpus{OF} 2
xen_domain_memory_bytes{OF} 1e9
xen_domain_cpu_seconds_total{OF} 0 0.5
xen_domain_scheduler_changes_total{OF,what="cap"} 0 0.5
xen_domain_scheduler_weight{OF} 256
xen_domain_cpu_limit_cpus{OF} 0.75
xen_domain_scheduler_budget_seconds{OF} 0.004
xen_domain_scheduler_period_seconds{OF} 0.01
xen_domain_runstate_missed_changes_total{OF} 0 19
xen_domain_cache_occupancy_bytes{OF,socket="0"} 3e6
xen_domain_memory_bandwidth_bytes_per_second{OF,socket="0",memory="local"} 4e6
xen_vcpu_cpu_seconds_total{OF,vcpu="0"} 0 0.3
xen_vcpu_cpu_seconds_total{OF,vcpu="1"} 0 0.2
xen_vcpu_cpu{OF,vcpu="0"} 7
xen_domain_network_receive_errors_total{OF,vif="0"} 0 2
xen_domain_network_transmit_errors_total{OF,vif="0"} 0 3
xen_domain_network_receive_drops_total{OF,vif="0"} 0 5
xen_domain_network_transmit_drops_total{OF,vif="0"} 0 7
xen_domain_network_receive_packets_total{OF,vif="0"} 0 110
xen_domain_network_transmit_packets_total{OF,vif="0"} 0 130
xen_domain_block_info{OF,vbd="xvda",type="BlkBack",device="ca:0"} 1
xen_domain_block_out_of_requests_total{OF,vbd="xvda"} 0 1.5
xen_domain_block_read_requests_total{OF,vbd="xvda"} 0 20
xen_domain_block_write_requests_total{OF,vbd="xvda"} 0 30
"""
PERF = """
resctrl_llc_occupancy_bytes{OF,cache="0"} 7e6
resctrl_memory_bytes_total{OF,cache="0"} 0 500
resctrl_local_memory_bytes_total{OF,cache="0"} 0 400
perf_event_bytes_total{event="reads",group="memory"} 0 6000
perf_event_joules_total{event="pkg",group="power"} 0 35
perf_event_seconds_total{event="task-clock",group="clock"} 0 1.25
perf_cgroup_event_seconds_total{cgroup="/web",event="task-clock"} 0 0.125
perf_open_counters 48
perf_profile_seconds_total 0 0.75
perf_profile_lost_samples_total 0 9
perf_profile_info{event="cycles",pace="99 Hz",scope="kernel"} 1
perf_profile_samples_total{event="cycles",symbol="copy",image="vmlinux",space="kernel"} 0 30
perf_profile_samples_total{event="cycles",symbol="main",image="httpd",space="user"} 0 10
"""
SSH = """
ssh_failures_total{target="dom0"} 0 0.01
ssh_connections_total{target="dom0"} 0 0.02
ssh_connected{target="dom0"} 1
ssh_requests_total{target="dom0"} 0 0.5
ssh_received_bytes_total{target="dom0"} 0 4000
ssh_client_cpu_seconds_total{target="dom0"} 0 0.03
"""
KVM = """
kvm_host_guests 2
kvm_host_cpus 16
kvm_host_cpu_seconds_total 0 1.4
kvm_host_guest_seconds_total 0 0.66
kvm_guest_info{OF,title="t",manager="libvirt",accelerator="kvm",id="1",uuid="u"} 1
kvm_guest_state{OF,state="running"} 1
kvm_guest_state{OF,state="paused"} 0
kvm_guest_time_absent{OF,reason="tcg"} 1
kvm_guest_start_time_seconds{OF} 30
kvm_guest_vcpus{OF} 2
kvm_guest_memory_resident_bytes{OF} 1e9
kvm_guest_memory_balloon_bytes{OF} 2e9
kvm_guest_memory_limit_bytes{OF} 3e9
kvm_guest_cpu_seconds_total{OF} 0 0.1
kvm_guest_guest_seconds_total{OF} 0 0.06
kvm_vcpu_run_seconds_total{OF,vcpu="0"} 0 0.07
kvm_vcpu_run_seconds_total{OF,vcpu="1"} 0 0.01
kvm_vcpu_guest_seconds_total{OF,vcpu="0"} 0 0.055
kvm_vcpu_guest_seconds_total{OF,vcpu="1"} 0 0.005
kvm_vcpu_system_seconds_total{OF,vcpu="0"} 0 0.01
kvm_vcpu_system_seconds_total{OF,vcpu="1"} 0 0.002
kvm_vcpu_wait_seconds_total{OF,vcpu="0"} 0 0.03
kvm_vcpu_wait_seconds_total{OF,vcpu="1"} 0 0.02
kvm_vcpu_exits_total{OF,vcpu="0"} 0 100
kvm_vcpu_exits_total{OF,vcpu="1"} 0 20
kvm_guest_thread_cpu_seconds_total{OF,role="emulator"} 0 0.005
kvm_guest_thread_cpu_seconds_total{OF,role="iothread"} 0 0.004
kvm_guest_thread_cpu_seconds_total{OF,role="worker"} 0 0.003
kvm_guest_thread_cpu_seconds_total{OF,role="vhost"} 0 0.002
kvm_guest_thread_cpu_seconds_total{OF,role="kvm"} 0 0.001
kvm_guest_halt_poll_seconds_total{OF,result="success"} 0 0.004
kvm_guest_halt_poll_seconds_total{OF,result="fail"} 0 0.003
kvm_guest_throttled_seconds_total{OF,part="all"} 0 0.015
kvm_guest_throttled_periods_total{OF,part="all"} 0 3
kvm_guest_periods_total{OF,part="all"} 0 10
kvm_guest_network_receive_packets_total{OF,device="vnet0"} 0 110
kvm_guest_network_transmit_packets_total{OF,device="vnet0"} 0 130
kvm_guest_network_receive_drops_total{OF,device="vnet0"} 0 5
kvm_guest_network_transmit_drops_total{OF,device="vnet0"} 0 7
kvm_guest_network_receive_errors_total{OF,device="vnet0"} 0 2
kvm_guest_network_transmit_errors_total{OF,device="vnet0"} 0 3
kvm_guest_block_read_requests_total{OF,device="vda"} 0 20
kvm_guest_block_read_seconds_total{OF,device="vda"} 0 0.04
kvm_guest_block_write_requests_total{OF,device="vda"} 0 30
kvm_guest_block_write_seconds_total{OF,device="vda"} 0 0.09
kvm_guest_block_flush_requests_total{OF,device="vda"} 0 4
kvm_guest_block_flush_seconds_total{OF,device="vda"} 0 0.2
"""
OPENVZ = """
openvz_host_info{version="042stab120.6"} 1
openvz_vestat_info{version="2.2"} 1
openvz_host_latency_seconds_total{type="scheduling"} 0 0.9
openvz_host_latency_calls_total{type="scheduling"} 0 70
openvz_host_latency_max_seconds{type="scheduling"} 0.008
openvz_container_info{OF,name="n",hostname="h",template="t"} 1
openvz_container_processes{OF} 40
openvz_container_addresses{OF} 2
openvz_container_uptime_seconds{OF} 5000 1
openvz_container_cpu_idle_seconds_total{OF} 0 0.3
openvz_container_cpu_seconds_total{OF,mode="user"} 0 0.05
openvz_container_cpu_seconds_total{OF,mode="nice"} 0 0.01
openvz_container_cpu_seconds_total{OF,mode="system"} 0 0.02
openvz_container_scheduling_latency_max_seconds{OF} 0.002
openvz_container_schedulings_total{OF} 0 60
openvz_container_io_dirty_bytes{OF} 65536
openvz_container_io_dirtied_bytes{OF} 0 900
openvz_container_io_cancelled_bytes_total{OF} 0 800
openvz_container_io_missed_bytes_total{OF} 0 700
openvz_container_io_vfs_reads_total{OF} 0 11
openvz_container_io_vfs_writes_total{OF} 0 13
openvz_container_io_vfs_read_bytes_total{OF} 0 1100
openvz_container_io_vfs_write_bytes_total{OF} 0 1300
openvz_container_io_fsyncs_total{OF} 0 2
openvz_container_io_fdatasyncs_total{OF} 0 3
openvz_container_io_syncs_total{OF} 0 5
openvz_container_io_range_syncs_total{OF} 0 7
openvz_container_io_fsyncs_active{OF} 1
openvz_container_io_syncs_active{OF} 2
openvz_container_io_range_syncs_active{OF} 3
openvz_container_io_fuse_requests_total{OF} 0 17
openvz_container_io_fuse_bytes_total{OF} 0 1700
openvz_container_io_unknown{OF,field="ploop"} 3
openvz_beancounter_failures_total{OF,resource="kmemsize"} 0 0.5
openvz_beancounter_held_bytes{OF,resource="kmemsize"} 1e6
openvz_beancounter_maxheld_bytes{OF,resource="kmemsize"} 2e6
openvz_beancounter_barrier_bytes{OF,resource="kmemsize"} 3e6
openvz_beancounter_limit_bytes{OF,resource="kmemsize"} 4e6
openvz_beancounter_failures_total{OF,resource="numproc"} 0 0.25
openvz_beancounter_held{OF,resource="numproc"} 10
openvz_beancounter_maxheld{OF,resource="numproc"} 20
openvz_beancounter_barrier{OF,resource="numproc"} 30
openvz_beancounter_limit{OF,resource="numproc"} 40
openvz_quota_used_bytes{OF} 1e9
openvz_quota_soft_limit_bytes{OF} 2e9
openvz_quota_hard_limit_bytes{OF} 3e9
openvz_quota_used_inodes{OF} 100
openvz_quota_soft_limit_inodes{OF} 200
openvz_quota_hard_limit_inodes{OF} 300
openvz_quota_on{OF} 1
openvz_quota_grace_period_seconds{OF,limit="bytes"} 604800
openvz_quota_grace_end_timestamp_seconds{OF,limit="bytes"} 1000
"""


def _platform(text: str, label: str) -> Callable[[float], str]:
    """A page of one of these, where OF is this label, and on Xen the domain's ID as well."""

    def page(seconds: float) -> str:
        lines = []
        for line in text.strip().split("\n"):
            sample = re.fullmatch(r"(\w+(?:\{.*\})?) (\S+)(?: (\S+))?", line)
            assert sample, line
            series, value, pace = sample[1], float(sample[2]), float(sample[3] or 0)
            for guest, factor in _FACTORS.items() if "OF" in series else [("", 1)]:
                times = 1 if re.match(r".*_(info|state|absent|on)\{", series) else factor
                of = f'{label}="{guest}"' + (f',domid="{factor}"' if label == "domain" else "")
                lines.append(f"{series.replace('OF', of)} {times * (value + seconds * pace)}")
        return "\n".join(lines)

    return page


def prometheus(seconds: float) -> str:
    """What a Prometheus says of itself that fails twice a minute and takes a fifth of its interval for its rules."""
    groups = {"fleet": (1, 5), "xen": (3, 60)}
    return "\n".join(
        [
            f'prometheus_rule_evaluation_failures_total{{rule_group="fleet"}} {seconds // 30}',
            *(
                f'prometheus_rule_group_last_duration_seconds{{rule_group="rules/{name}.yml;{name}"}} {took}\n'
                f'prometheus_rule_group_interval_seconds{{rule_group="rules/{name}.yml;{name}"}} {interval}'
                for name, (took, interval) in groups.items()
            ),
            f"prometheus_tsdb_head_samples_appended_total {1500 * seconds}",
            "process_resident_memory_bytes 3e8",
            "prometheus_tsdb_head_series 7000",
            "prometheus_tsdb_storage_blocks_bytes 4e9",
            "prometheus_tsdb_wal_storage_size_bytes 2e8",
            "prometheus_tsdb_head_chunks_storage_size_bytes 1e7",
            f"process_cpu_seconds_total {seconds * 0.02}",
        ]
    )


def _nothing(_seconds: float) -> str:
    return ""


def _of_step(step: int, page: Callable[[float], str]) -> Callable[[float], str]:
    """The page of a lab while it is at that step."""
    return lambda seconds: page(seconds + step * _STEP)


# Job, host, platform, other labels, page, and whether it is up.
TARGETS: list[tuple[str, str, str, str, Callable[[float], str], int]] = [
    ("xentop", "xen1", "xen", "", hosts.xen, 1),
    ("guest", "xen1", "xen", 'vserver="web 1"', counted.perf, 1),
    ("perf", "xen1", "xen", "", counted.perf, 1),
    ("telegraf", "xen1", "xen", "", _of_step(5, LAB.telegraf), 1),
    ("node", "base1", "base", "", hosts.base, 1),
    ("perf", "base1", "base", "", counted.perf, 1),
    ("stack", "stack1", "base", "", hosts.parts_of_the_stack, 1),
    ("prometheus", "stack1", "base", "", prometheus, 1),
    ("cadvisor", "lab1", "cgroup", "", _of_step(5, LAB.cadvisor), 1),
    ("telegraf", "lab1", "cgroup", "", _of_step(5, LAB.telegraf), 1),
    ("lab", "lab1", "cgroup", "", _of_step(5, LAB.runner), 1),
    ("node", "lab1", "base", "", _of_step(5, LAB.node), 1),
    ("perf", "lab1", "base", "", _of_step(5, LAB.perf), 1),
    ("sched", "lab1", "base", "", _of_step(5, LAB.sched), 1),
    ("cadvisor", "lab2", "cgroup", "", _of_step(1, LAB.cadvisor), 1),
    ("telegraf", "lab2", "cgroup", "", _of_step(1, LAB.telegraf), 1),
    ("node", "lab2", "base", "", _of_step(1, LAB.node), 1),
    ("experiments", "lab1", "cgroup", "", experiments.page, 1),
    ("xentop", "mute1", "xen", "", hosts.mute_xen, 1),
    # One of its targets is down, and another host is.
    ("xentop", "xen2", "xen", "", _platform(XEN, "domain"), 1),
    ("node", "xen2", "xen", "", _nothing, 0),
    ("perf", "xen2", "xen", "", _platform(PERF, "group"), 1),
    ("kvm", "kvm1", "kvm", "", _platform(KVM, "guest"), 1),
    ("vestat", "vz1", "openvz", "", _platform(OPENVZ, "ctid"), 1),
    ("xentop", "down1", "xen", "", _nothing, 0),
    ("node", "down1", "xen", "", _nothing, 0),
    ("ssh", "stack1", "base", "", _platform(SSH, ""), 1),
]

_OF_XEN1, _OF_LAB1, _OF_OLD1 = (
    f'host="{host}",platform="{platform}"'
    for host, platform in (("xen1", "xen"), ("lab1", "cgroup"), ("old1", "cgroup"))
)
# Records of hours and days, which no quarter of an hour has; and of old1, where no exporter is, two applications that
# differ, and values that have changed since the sixth minute.
RECORDS: dict[str, float | str] = {
    f"host:headroom:apps_p10_1d{{{_OF_LAB1}}}": 3.7,
    f"host:headroom_in_a_week:apps{{{_OF_LAB1}}}": 1.2,
    f'vserver:llc_misses_per_instruction:ratio_median1w{{{_OF_XEN1},vserver="web 1",role="guest"}}': 0.004,
    f'app:cpu_wait_per_cpu:ratio_median1w{{{_OF_LAB1},app="auction-1"}}': 0.9,
    f'app:requests:rate_max1w{{{_OF_LAB1},app="auction-2"}}': 60,
    f'app:neighbour_predicted:rate{{{_OF_LAB1},app="auction-1",by="batch"}}': 0.33,
    f'app:neighbour_regained:rate{{{_OF_LAB1},app="auction-1",by="batch"}}': 0.29,
    f'vserver:ended_cpu_usage:rate{{{_OF_XEN1},vserver="old 1"}}': 0.25,
    f'vserver:ended_cpu_usage:rate{{{_OF_XEN1},vserver="old 2"}}': 0.5,
    **{
        f'app:slo_error:ratio_rate{window}{{{_OF_OLD1},app="shop",objective="latency"}}': errors
        for window, errors in {"5m": 0.01, "1h": 0.02, "6h": 0.03, "1d": 0.04, "3d": 0.05}.items()
    },
    f'app:slo_objective:ratio{{{_OF_OLD1},app="shop",objective="latency"}}': 0.9,
    **{
        f'app:{record}{{{_OF_OLD1},app="{app}",{others}}}': value
        for app, values in {"shop": (0.4, 0.9, 0.02), "blog": (0.7, 0.3, 0.05)}.items()
        for (record, others), value in zip(
            [
                ("slo_response:ratio", 'objective="mean"'),
                ("slo_budget_left:ratio", 'objective="latency"'),
                ("errors:ratio", 'tier="web"'),
            ],
            values,
            strict=True,
        )
    },
    **{
        f"host:{record}{{{_OF_OLD1}}}": f"10x24 {10 * times}x24"
        for record, times in {
            "traffic:rate": 2,
            "instructions_per_byte:ratio": 3,
            "cycles_per_byte:ratio": 4,
            "llc_misses:rate": 5,
            "dtlb_misses:rate": 6,
            "itlb_misses:rate": 7,
            "dtlb_misses_per_instruction:ratio": 8,
            "itlb_misses_per_instruction:ratio": 9,
        }.items()
    },
    **{
        f'app:slo_threshold:seconds{{{_OF_OLD1},app="{app}",objective="mean"}}': threshold
        for app, threshold in {"shop": 0.3, "blog": 0.2}.items()
    },
    f'app:cause:score{{{_OF_OLD1},app="shop",cause="load"}}': "2x24 1x24",
    f'ALERTS{{{_OF_OLD1},app="shop",objective="latency",alertname="OwnOne",alertstate="firing",severity="none"}}': 1,
    # Scraped twice; memory is written back; a recording is played.
    'stack_part_up{job="stack",host="stack1",platform="base",instance="b",part="alertmanager"}': 0,
    'xentop_source_reads_total{job="xentop",host="xen2",platform="xen",instance="b",source="xl"}': "0+3x48",
    f'xen_host_domains{{{_OF_OLD1},instance="a"}}': 3,
    f'xen_host_domains{{{_OF_OLD1},instance="b"}}': 4,
    f'xen_trace_windows_total{{{_OF_OLD1},instance="a"}}': "0+1.5x48",
    f'xen_trace_windows_total{{{_OF_OLD1},instance="b"}}': "0+3x48",
    f'xentop_source_info{{{_OF_OLD1},job="xentop",source="xl",detail="replay:old.json"}}': 1,
    f'openvz_container_io_dirtied_bytes{{{_OF_OLD1},ctid="web"}}': "1000-10x48",
    'host:guests:count{host="demo-xen",platform="xen"}': 3,
    **{
        f'perf_profile_samples_total{{{_OF_OLD1},event="many",symbol="symbol {number}"}}': f"0+{15 * number}x48"
        for number in range(1, 46)
    },
    f'perf_profile_samples_total{{{_OF_OLD1},event="cycles",symbol="then"}}': "0+30x24 720x24",
    f'perf_profile_samples_total{{{_OF_OLD1},event="cycles",symbol="now"}}': "0x24 0+30x24",
}

# Of each state and severity another number: 2 critical ones, 4 warnings, one that is for programs, 1 + 2 pending.
ALERTS = [
    (f'{_OF_XEN1},alertname="GuestCrashed",severity="critical",vserver="db"', "firing", 0),
    (f'{_OF_XEN1},alertname="HostOverheadHigh",severity="warning"', "firing", 5),
    (f'{_OF_XEN1},alertname="CapBindsLong",severity="warning",vserver="db"', "pending", 6),
    ('host="down1",platform="xen",alertname="HostDown",severity="critical"', "firing", 7),
    ('host="mute1",platform="xen",alertname="SourceFailing",severity="warning"', "firing", 8),
    ('host="mute1",platform="xen",alertname="ClockSkewed",severity="critical"', "pending", 8),
    (f'{_OF_LAB1},alertname="ObjectiveBurnsSlow",severity="warning",app="auction-1",objective="latency"', "firing", 4),
    (f'{_OF_LAB1},alertname="ObjectiveMean",severity="warning",app="auction-2",objective="mean"', "firing", 9),
    (f'{_OF_LAB1},alertname="CpuWaitHigh",severity="critical",app="auction-2"', "pending", 9),
    ('host="base1",platform="base",alertname="Watchdog",severity="none"', "firing", 1),
]

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")


def series() -> dict[str, str]:
    """Each series of the hosts with its values, a sample each STEP_SECONDS, in promtool's notation."""
    moments = [moment * STEP_SECONDS for moment in range(MINUTES * 60 // STEP_SECONDS + 1)]
    found: dict[str, list[str]] = {}
    for number, (job, host, platform, others, page, up) in enumerate(TARGETS):
        own = f'job="{job}",instance="{host}:{9000 + number}",host="{host}",platform="{platform}"'
        own += f",{others}" if others else ""
        for moment in moments:
            for line in page(moment).splitlines():
                if sample := _SAMPLE.fullmatch(line.strip()):
                    name, labels, value = sample.groups()
                    found.setdefault(f"{name}{{{own}{',' + labels if labels else ''}}}", []).append(value)
        found[f"up{{{own}}}"] = [str(up)] * len(moments)
        found[f"scrape_duration_seconds{{{own}}}"] = ["0.25"] * len(moments)
        found[f"scrape_samples_scraped{{{own}}}"] = ["100"] * len(moments)
    records = {name: value if isinstance(value, str) else f"{value}x{len(moments)}" for name, value in RECORDS.items()}
    return {name: " ".join(values) for name, values in found.items()} | records | _alerts(len(moments))


def _alerts(samples: int) -> dict[str, str]:
    found = {}
    for labels, state, minute in ALERTS:
        before = minute * 60 // STEP_SECONDS
        active = f"x{samples - before}"
        missing = f"_x{before} " if before else ""
        found[f'ALERTS{{{labels},alertstate="{state}"}}'] = f"{missing}1{active}"
        found[f"ALERTS_FOR_STATE{{{labels}}}"] = f"{missing}{minute * 60}{active}"
    return found

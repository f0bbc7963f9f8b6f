"""The records of every platform agree about the same simulated host, and have the vocabulary's labels.

The host has a web server, a database, and its own work; conformance.yml has the true value of each record by platform.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from tests.rules.promtool import asks, evaluate, number
from tests.rules.test_rules import rules_in_order
from tests.support.hosts import Target, Watching, exposed
from tests.support.hosts.feeds import Server, cadvisor, kvm, node, perf, sched, sensor, total, vestat, xentop
from tools.vocabulary_reference import vocabulary

TRUE = yaml.safe_load(Path(__file__).with_name("conformance.yml").read_text())
CPUS = 4
REQUESTS = 20.0  # per second
RESPONSE = 0.05  # seconds
CAP, WEIGHT, MEMORY_LIMIT = 2.0, 512.0, 4e9  # of each guest
MEASURED = 0.5  # the share of the time in which events are counted
GROUPS = dict.fromkeys(("cache", "tlb"), MEASURED)

_OF_GUESTS = {"cap": CAP, "weight": WEIGHT, "memory_limit": MEMORY_LIMIT}
SERVERS = {
    "host": Server(0.4, 0.0, 5e8, 0, 0, 0, 0, 4e8, 8e8, 4e6, 2e6, 1e6, 0.2, 0),
    "web": Server(0.6, 0.3, 2e9, 1e5, 4e5, 5e4, 2e4, 9e8, 1e9, 3e6, 2e6, 1e6, 0.15, 2000, **_OF_GUESTS),
    "db": Server(0.3, 0.1, 1e9, 3e4, 7e4, 1e5, 8e4, 5e8, 6e8, 4e6, 1e6, 5e5, 0.05, 500, **_OF_GUESTS),
}
SERVERS["machine"] = total(list(SERVERS.values()))
HOST, WEB, MACHINE = SERVERS["host"], SERVERS["web"], SERVERS["machine"]
GUESTS = ("web", "db")
ALL = ("host", *GUESTS)

# Their names on each platform.
NAMES = {
    "xen": {"host": "Domain-0", "web": "web", "db": "db"},
    "kvm": {"host": "kvm", "web": "web_1", "db": "db"},
    "openvz": {"host": "openvz", "web": "101", "db": "102"},
    "cgroup": {"host": "cgroup", "web": "virtscope/web", "db": "virtscope/db"},
    "base": {"machine": "base"},
}
KVM_CGROUPS = {"web": r"/machine.slice/machine-qemu\\x2d1\\x2dlibvirt.scope", "db": "/qemu.slice/100.scope"}

CGROUPS_BY_NAME = {NAMES["kvm"][each]: cgroup for each, cgroup in KVM_CGROUPS.items()}

# What ran while each guest waited, as shares of its wait. Waiting for its own cap is added.
WAITED = {"neighbour": 0.6, "self": 0.2, "host": 0.15, "wakeup": 0.05}
HELD_BACK = 0.2  # seconds per second throttled by its cap


def named(names: Mapping[str, str], *servers: str) -> dict[str, Server]:
    """These servers under such names."""
    return {names[server]: SERVERS[server] for server in servers}


def waits(cgroups: Mapping[str, str]) -> list[str]:
    """Wait by what ran meanwhile: the other guest, itself, a service or the kernel, idle CPUs."""
    found = {}
    for server, cgroup in cgroups.items():
        (other,) = set(cgroups.values()) - {cgroup}
        shares = {
            other: WAITED["neighbour"],
            cgroup: WAITED["self"],
            "/system.slice/cron.service": WAITED["host"] / 3,
            "(host)": WAITED["host"] * 2 / 3,
            "(idle)": WAITED["wakeup"],
        }
        found[cgroup] = {runs: share * SERVERS[server].wait for runs, share in shares.items()} | {"(cap)": HELD_BACK}
    return [*sched(found)]


IN_CGROUPS = {server: f"/{NAMES['cgroup'][server]}" for server in GUESTS}
IN_SLICES = {server: f"/machine.slice/{NAMES['openvz'][server]}" for server in GUESTS}
_PROCESS = "process_cpu_seconds_total ~0.01"
TARGETS = [
    Target("xentop", "xen", "xen", [_PROCESS, *xentop(named(NAMES["xen"], *ALL), CPUS, vcpus=2 * CPUS)]),
    Target("perf", "xen", "xen", [*perf(HOST, GROUPS)]),
    Target("node", "xen", "xen", [*node(replace(HOST, read=MACHINE.read, write=MACHINE.write), CPUS)]),
    Target("kvm", "kvm", "kvm", [*kvm(named(NAMES["kvm"], *GUESTS), MACHINE, CPUS, CGROUPS_BY_NAME)]),
    Target("perf", "kvm", "kvm", [*perf(MACHINE, GROUPS, named(KVM_CGROUPS, *GUESTS))]),
    Target("sched", "kvm", "kvm", waits(KVM_CGROUPS)),
    Target("node", "kvm", "kvm", [*node(MACHINE, CPUS)]),
    Target("vestat", "openvz", "openvz", [*vestat(named(NAMES["openvz"], *GUESTS), HOST)]),
    Target("node", "openvz", "openvz", [*node(MACHINE, CPUS)]),
    Target("perf", "openvz", "openvz", [*perf(MACHINE, GROUPS, named(IN_SLICES, *GUESTS))]),
    Target("cadvisor", "cgroup", "cgroup", [*cadvisor(named(IN_CGROUPS, *GUESTS), CPUS)]),
    Target("node", "cgroup", "base", [*node(MACHINE, CPUS)]),
    Target("perf", "cgroup", "base", [*perf(MACHINE, GROUPS, named(IN_CGROUPS, *GUESTS))]),
    Target("sched", "cgroup", "base", waits(IN_CGROUPS)),
    Target("node", "base", "base", [*node(MACHINE, CPUS)]),
    Target("perf", "base", "base", [*perf(MACHINE, GROUPS)]),
    *(Target("guest", "xen", "xen", [*perf(SERVERS[each], GROUPS)], vserver=NAMES["xen"][each]) for each in GUESTS),
    *(
        Target("guest", "openvz", "openvz", [*node(SERVERS[each], CPUS)], vserver=NAMES["openvz"][each])
        for each in GUESTS
    ),
    *(
        Target("telegraf", platform, platform, [*sensor("auction-1", REQUESTS, RESPONSE, [0.1, 0.3], [REQUESTS] * 2)])
        for platform in NAMES
    ),
]


_DB = 'domid="1",domain="db",state="crashed"'
# A host of each kind with series that need no true value: an application with a neighbour, a state, a resource that ran
# out.
OTHERS = [
    Target("cadvisor", "other", "cgroup", [*cadvisor({"/virtscope/web": WEB, "/virtscope/batch": WEB}, CPUS)]),
    Target("sched", "other", "base", [*sched({"/virtscope/web": {"/virtscope/batch": 0.3}, "/virtscope/batch": {}})]),
    Target("xentop", "other", "xen", [*xentop({"Domain-0": HOST, "db": WEB}, CPUS, 4), f"xen_domain_state{{{_DB}}} 0"]),
    Target("advise", "other", "base", ['advise_predictions{inside="true"} 9']),
    Target("vestat", "other", "openvz", ['openvz_beancounter_failures_total{ctid="101",resource="numproc"} ~1']),
]


def tiers() -> dict[str, object]:
    """Rules as written by `make rules`: the application tier of each virtual server."""
    by_server = {server: [names[server] for names in NAMES.values() if server in names] for server in SERVERS}
    of_tiers = {"web": "|".join(by_server["web"] + by_server["machine"]), "db": "|".join(by_server["db"])}
    rules = [
        {
            "record": "vserver:app:info",
            "expr": f'group by (host, platform, vserver, role) (vserver:cpu_usage:rate{{vserver=~"{names}"}})',
            "labels": {"app": "auction-1", "tier": tier},
        }
        for tier, names in of_tiers.items()
    ]
    return {"groups": [{"name": "tiers of conformance", "rules": rules}]}


# The part of its wait caused by its own virtual servers, which aren't neighbours.
OF_WAITING = {"self": WAITED["neighbour"] + WAITED["self"], "host": WAITED["host"], "wakeup": WAITED["wakeup"]}

# Records over hours or weeks; prometheus/tests/history_usual.yml and history_forecast.yml assert their labels.
NEEDS_HISTORY = {
    record
    for record in vocabulary()
    if record.endswith(("_median1w", "_max1w", "_max1h", "_p10_1d", ":days")) or "_in_a_week:" in record
} | {"app:overcommit_borne:ratio"}
# Not of the others, nor of containers' machine, whose platform is base as well.
ITS_OWN = 'unless on (host, platform) (up{host="cgroup", platform="base"} or up{host="other"})'
AT = "10m"


def test_platforms_agree_and_records_have_exactly_the_labels_of_the_vocabulary(tmp_path: Path) -> None:
    """One test for all: most of the time goes into evaluating the rules' history."""
    of_tiers = tmp_path / "tiers.yml"
    of_tiers.write_text(yaml.safe_dump(tiers()))
    cases = []
    for group in TRUE["virtual servers"]:
        for record, values in group["records"].items():
            wanted = {
                f'{{host="{platform}", vserver="{NAMES[platform][server]}"}}': number(values[server])
                for platform, servers in group["having"].items()
                for server in servers.split()
            }
            cases.append(asks(f"sum by (host, vserver) ({record} {ITS_OWN})", AT, wanted))
    for group in TRUE["host and application"]:
        for record, value in group["records"].items():
            wanted = {f'{{host="{platform}"}}': number(value) for platform in group["having"].split()}
            cases.append(asks(f"sum by (host) ({record} {ITS_OWN})", AT, wanted))
    for platform in ("kvm", "cgroup"):
        caused = f'sum by (reason) (app:delay:rate{{host="{platform}",resource="cpu",reason!="cap"}})'
        of_reasons = {f'{{reason="{reason}"}}': share * MACHINE.wait for reason, share in OF_WAITING.items()}
        cases.append(asks(caused, AT, of_reasons))
    for record in vocabulary().keys() - NEEDS_HISTORY:
        labels = vocabulary()[record].labels
        # Without these no label is left, and each of them exists.
        cases.append(asks(f"group without ({', '.join(labels)}) ({record})", AT, {"{}": 1}))
        cases.append(asks(" or ".join(f'{record}{{{label}=""}}' for label in labels), AT, {}))
    watching = Watching(scrape=15, seconds=600)
    evaluate(
        tmp_path / "conformance.yml",
        rules_in_order(of_tiers),
        interval=watching.scrape,
        evaluation=watching.scrape,
        given=exposed([*TARGETS, *OTHERS], watching),
        expected=cases,
    )

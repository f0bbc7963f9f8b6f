"""Each study, shortened, on real cgroups and namespaces, and its report."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from deploy import programs
from lab.network.scenario import FILES, PATHS
from tests.lab.conftest import program, require_cgroups, require_packages
from tests.lab.runs import complete, lab, left, measured, report, running_stack, start
from tests.lab.tapped import guest
from tests.support.program import program_path

RUN_SECONDS = 600
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_allocation_switches_caps(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_cgroups()
    scenario = """\
study: allocation
about: A few switches, as short as may be.
magnitudes: [[0.2, 0.8]]
intervals: 3s
duration: 9s
warm_up: 0s
repetitions: 2
load: transactional
"""
    with running_stack(tmp_path_factory.mktemp("s"), scenario) as checkout:
        stack = set(checkout.processes())
        name, _ = complete(checkout, RUN_SECONDS)
        assert left(checkout, stack, "allocation-*") == []
        steps = {f"transactional-2x{of}-3s-{number}" for of in ("static", "control", "0.2-0.8") for number in (1, 2)}
        # The containers used all the CPU that their caps allow.
        for test, limit in (("containers' CPU", 1.5), ("requests", float("inf"))):
            found = measured(checkout, name, test, "step")
            assert found.keys() == steps
            assert all(0 < value < limit for value in found.values())
        assert "2 containers, unpinned, transactional: " in report(checkout, name)
        assert "not complete" not in report(checkout, name)


def test_factors_obey_overcommitment_and_caps(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_cgroups()
    require_packages(programs.BENCHMARKS)
    scenario = """\
study: factors
about: A few cases, as short as may be.
workloads: [cpu, network]
factors: [virtualisation, overcommit, caps]
cpus: 1
servers: 1
overcommit: 2
caps: 0.2
duration: 2s
warm_up: 1s
repetitions: 2
"""
    with running_stack(tmp_path_factory.mktemp("s"), scenario) as checkout:
        stack = set(checkout.processes())
        name, _ = complete(checkout, RUN_SECONDS)
        assert left(checkout, stack, "factors-*") == []
        of_cpu = ("base", "1on1-pinned", "1on1-free", "2on1-free", "1on1-pinned-cap-0.2")
        assert measured(checkout, name, "cpu", "step").keys() == {f"cpu-{of}-{n}" for of in of_cpu for n in (1, 2)}
        value = measured(checkout, name, "cpu")
        alone = value["1 server on 1 CPU, pinned"]
        assert 0 < value["2 servers on 1 CPU, free"] < 0.75 * alone
        assert 0 < value["1 server on 1 CPU, pinned, cap 0.2"] < 0.35 * alone
        for test in ("network sent", "network received"):
            sent = measured(checkout, name, test, "step")
            assert sent.keys() == {f"network-{of}-{n}" for of in ("base", "1on1-pinned") for n in (1, 2)}
            assert all(rate > 0 for rate in sent.values())
        assert "**With 2 busy virtual servers per CPU" in report(checkout, name)
        assert "not complete" not in report(checkout, name)


def namespaces() -> set[str]:
    """The network namespaces that processes are in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # already ended
            found.add(str((process / "ns/net").readlink()))
    return found


def test_network_costs_in_namespaces_and_to_a_guest_behind_a_tap(tmp_path_factory: pytest.TempPathFactory) -> None:
    if subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode:
        pytest.skip("network namespaces need root")
    program_path("vegeta")
    require_packages(programs.BENCHMARKS, programs.WEB_SERVER)
    scenario = """\
study: network
about: As short as may be.
paths: [loopback, veth, bridge]
directions: [send, receive]
sizes: [256, 131072]
offloads: "on"
web_rates: 50
guests:
  - {name: tapped, ssh: tapped, platform: kvm, emulated: true}
duration: 1s
warm_up: 1s
repetitions: 2
"""
    with guest(tmp_path_factory.mktemp("guest")), running_stack(tmp_path_factory.mktemp("n"), scenario) as checkout:
        before = namespaces()
        name, _ = complete(checkout, RUN_SECONDS)
        assert namespaces() <= before
        # Small messages cost more per byte on every path.
        cost = measured(checkout, name, "CPU per byte")
        assert len(cost) == 4 * (len(PATHS) + 1)
        for path in PATHS:
            small, large = (cost[f"{path}, send, {size} bytes, offloads on"] for size in (256, 131_072))
            assert 0 < large < small
        for test in ("CPU per request", "latency p99"):
            found = measured(checkout, name, test)
            everywhere = (*PATHS, "guest tapped")
            assert set(found) == {f"{at}, web, {size} bytes, 50 requests/s" for at in everywhere for size in FILES}
            assert all(value > 0 for value in found.values())
        marked = checkout.query(f'last_over_time(lab_measurement{{run="{name}", emulated="yes"}}[15m])')
        assert {series["metric"]["environment"].partition(",")[0] for series in marked} == {"guest tapped"}
        text = report(checkout, name)
        assert "Over bridge, a byte costs up to " in text
        assert "Over bridge, a request costs up to " in text
        assert "On emulated hardware, so no more than a sign that it works. To and from guest tapped, a byte " in text
        assert "not complete" not in text


# Two guests that always use their caps of 0.5 CPUs, with a fake virsh.
_VIRSH = """\
case "$*" in
*domstats*)
    for guest in web1 web2; do
        printf "Domain: '%s'\\n  cpu.time=%s\\n\\n" $guest "$(awk '{printf "%d", $1 * 5e8}' /proc/uptime)"
    done ;;
*--live*) echo "$*" >>"$CALLS" ;;
*) printf 'global_period  : 100000\\nglobal_quota   : -1\\n' ;;
esac
"""
# ssh to this machine under several host names, one of which is unreachable while a file exists.
_SSH = """\
while [ "$1" != -- ]; do shift; done
if [ "$2" = root@kvm2 ] && [ -e "$AWAY" ]; then
    echo "ssh: connect to host kvm2 port 22: No route to host"
    exit 255
fi
CALLS="$CALLS-$2" exec sh -c "$3"
"""
TWO_HOSTS = """\
study: allocation
about: Guests of two hosts.
magnitudes: [[0.2, 0.8]]
intervals: 3s
duration: 6s
warm_up: 0s
repetitions: 1
target:
  - {platform: kvm, host: root@kvm1, guests: [web1, web2]}
  - {platform: kvm, host: root@kvm2, guests: [web1, web2]}
"""


def test_each_host_of_a_list_has_its_run_and_one_that_is_away_is_run_later(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program(tmp_path, "ssh", _SSH)
    program(tmp_path, "virsh", _VIRSH)
    away = tmp_path / "away"
    away.touch()
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "CALLS": str(tmp_path / "calls"),
        "AWAY": str(away),
    }
    with running_stack(tmp_path_factory.mktemp("s"), TWO_HOSTS) as checkout:

        def run() -> tuple[int, str]:
            with start(checkout, **environment) as run:
                said, _ = run.communicate(timeout=RUN_SECONDS)
            return run.returncode, said

        def reports() -> list[str]:
            return sorted(file.parent.name[-len("kvm1") :] for file in lab(checkout, "reports").glob("*/report.md"))

        status, said = run()
        assert status == 1
        assert "error: root@kvm2: no answer to true: ssh: connect to host kvm2 port 22: No route to host" in said
        assert reports() == ["kvm1"]
        away.unlink()
        status, said = run()
        assert status == 0, said
        assert "kvm1" not in said
        assert reports() == ["kvm1", "kvm2"]
        for host in ("kvm1", "kvm2"):
            [found] = lab(checkout, "reports").glob(f"*-{host}/report.md")
            assert f"of root@{host} (kvm)" in found.read_text()
            # Switched, and at the end uncapped as before.
            calls = (tmp_path / f"calls-root@{host}").read_text().splitlines()
            assert any("web1 --live global_period=20000 global_quota=4000" in call for call in calls)
            assert calls[-1].endswith("web2 --live global_period=100000 global_quota=-1")

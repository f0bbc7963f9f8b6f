"""Each study, shortened, on real cgroups and namespaces, and its report."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import programs
from lab.network.scenario import FILES, PATHS
from lab.suites.running import WORK
from tests.lab.conftest import require_cgroups, require_packages, require_servers
from tests.lab.reached import guest
from tests.lab.runs import complete, left, measured, report, running_stack
from tests.stack.conftest import Checkout
from tests.support.program import program_path
from tests.telegraf.agent import telegraf

RUN_SECONDS = 600
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@contextlib.contextmanager
def studied(folder: Path, scenario: str, cgroups: str = "none") -> Iterator[tuple[Checkout, str, str]]:
    """The stack after a complete run, which has left nothing; its name and its report."""
    with running_stack(folder, scenario) as checkout:
        stack = set(checkout.processes())
        name, _ = complete(checkout, RUN_SECONDS)
        assert left(checkout, stack, cgroups) == []
        text = report(checkout, name)
        assert "not complete" not in text
        yield checkout, name, text


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
    with studied(tmp_path_factory.mktemp("s"), scenario, "allocation-*") as (checkout, name, text):
        steps = {f"transactional-2x{of}-3s-{number}" for of in ("static", "control", "0.2-0.8") for number in (1, 2)}
        # The containers used all the CPU that their caps allow.
        for test, limit in (("containers' CPU", 1.5), ("requests", float("inf"))):
            found = measured(checkout, name, test, "step")
            assert found.keys() == steps
            assert all(0 < value < limit for value in found.values())
        assert "2 containers, unpinned, transactional: " in text


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
    with studied(tmp_path_factory.mktemp("s"), scenario, "factors-*") as (checkout, name, text):
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
        assert "**With 2 busy virtual servers per CPU" in text


def test_suites_measure_a_cgroup_beside_the_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_cgroups()
    require_packages(programs.LMBENCH, programs.STRESS_NG)
    scenario = """\
study: suites
about: As short as may be.
suites: [lmbench, stress-ng, nbench]
environments: [base, {name: capped, cap: 0.5}]
repetitions: 2
settle: 0s
megabytes: 4
interval: 0.001s
stress_time: 1s
"""
    with studied(tmp_path_factory.mktemp("s"), scenario, "environment") as (checkout, name, text):
        assert not WORK.exists()
        counted = f'count by (environment, repetition) (last_over_time(lab_measurement{{run="{name}"}}[1h]))'
        assert [series["value"][1] for series in checkout.query(counted)] == ["47"] * 4
        assert "capped: lmbench's 39 tests reach " in text  # 2p/0K is in two tables and counts once
        assert "base, capped without nbench: no distribution packages it" in text


def test_network_costs_in_namespaces_and_to_a_guest_over_ssh(tmp_path_factory: pytest.TempPathFactory) -> None:
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
  - {name: reached, ssh: reached, platform: kvm, emulated: true}
duration: 1s
warm_up: 1s
repetitions: 2
"""
    folders = tmp_path_factory.mktemp("guest"), tmp_path_factory.mktemp("n")
    with guest(folders[0]), studied(folders[1], scenario) as (checkout, name, text):
        # Small messages cost more per byte on every path.
        cost = measured(checkout, name, "CPU per byte")
        assert len(cost) == 4 * (len(PATHS) + 1)
        for path in PATHS:
            small, large = (cost[f"{path}, send, {size} bytes, offloads on"] for size in (256, 131_072))
            assert 0 < large < small
        for test in ("CPU per request", "latency p99"):
            found = measured(checkout, name, test)
            everywhere = (*PATHS, "guest reached")
            assert set(found) == {f"{at}, web, {size} bytes, 50 requests/s" for at in everywhere for size in FILES}
            assert all(value > 0 for value in found.values())
        marked = checkout.query(f'last_over_time(lab_measurement{{run="{name}", emulated="yes"}}[15m])')
        assert {series["metric"]["environment"].partition(",")[0] for series in marked} == {"guest reached"}
        assert "Over bridge, a byte costs up to " in text
        assert "Over bridge, a request costs up to " in text
        assert "On emulated hardware, so no more than a sign that it works. To and from guest reached, a byte " in text


def test_the_controller_caps_sites_by_predicted_responses(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_servers()
    telegraf()
    scenario = """\
study: controller
about: Two kinds of caps, as short as may be.
loads: [[0.3, 0.1], [0.1, 0.3]]
phase: 30s
interval: 5s
caps: [none, predicted]
warm_up: 10s
think_time: 0.5s
calibration: 15s
repetitions: 1
"""
    with studied(tmp_path_factory.mktemp("s"), scenario, "auction-*") as (checkout, name, text):
        reserved = measured(checkout, name, "CPUs reserved")
        assert reserved["no caps"] == 1
        assert 0.4 < reserved["caps by prediction"] < 1
        for test in ("mean response", "requests", "objective"):
            found = measured(checkout, name, test)
            assert found.keys() == reserved.keys()
            assert all(value > 0 for value in found.values())
        assert measured(checkout, name, "prediction error").keys() == {"caps by prediction"}
        assert "With caps by prediction: " in text

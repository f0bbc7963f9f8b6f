"""Each study as short as may be, on real cgroups, suites and namespaces: killed, resumed, measured, interrupted."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import programs
from lab.network.scenario import FILES, PATHS
from lab.suites.programs import HELLO, WORK
from tests.lab.conftest import require_cgroups, require_packages
from tests.lab.runs import Study, lab, report, running_stack, start, survive, values
from tests.lab.tapped import guest
from tests.stack.conftest import Checkout
from tests.support.program import program_path

RUN_SECONDS = 600
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@contextlib.contextmanager
def running(folder: Path, study: Study, *packages: programs.Packages) -> Iterator[Checkout]:
    """Skips where cgroups can't be made, or the distribution has no such packages."""
    require_cgroups()
    require_packages(*packages)
    with running_stack(folder, study.scenario) as checkout:
        yield checkout


def test_allocation_switches_caps(tmp_path_factory: pytest.TempPathFactory) -> None:
    steps = [f"transactional-2x{of}-3s-{number}" for of in ("static", "control", "0.2-0.8") for number in (1, 2)]
    study = Study(
        """\
study: allocation
about: A few switches, as short as may be.
magnitudes: [[0.2, 0.8]]
intervals: 3s
duration: 9s
warm_up: 0s
repetitions: 2
load: transactional
""",
        steps={*steps},
        first=["transactional-2xstatic-3s-1"],
        shown="transactional-2xstatic-3s-1: 2 containers, caps of 0.5, never written",
        works="/allocation-1",
        cgroups="allocation-1",
    )
    with running(tmp_path_factory.mktemp("s"), study) as checkout:
        name = survive(checkout, study, RUN_SECONDS)
        # Prometheus has every step, and the containers used what their caps allow.
        query = f'last_over_time(lab_measurement{{run="{name}", test="containers\' CPU"}}[15m])'
        used = {series["metric"]["step"]: float(series["value"][1]) for series in checkout.query(query)}
        assert used.keys() == {*steps}
        assert all(0 < cpus < 1.5 for cpus in used.values())
        sent = checkout.query(f'last_over_time(lab_measurement{{run="{name}", test="requests"}}[15m])')
        assert len(sent) == len(steps)
        assert all(float(series["value"][1]) > 0 for series in sent)
        assert "2 containers, unpinned, transactional: " in report(checkout, name)
        assert "not complete" not in report(checkout, name)


def test_factors_obey_overcommitment_and_caps(tmp_path_factory: pytest.TempPathFactory) -> None:
    of_cpu = ("base", "1on1-pinned", "1on1-free", "2on1-free", "1on1-pinned-cap-0.2")
    steps = (*(f"cpu-{of}" for of in of_cpu), "network-base", "network-1on1-pinned")
    study = Study(
        """\
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
""",
        steps={f"{step}-{number}" for step in steps for number in (1, 2)},
        first=["cpu-base-1"],
        shown="cpu-base-1: ",
        works="/factors-1",
        cgroups="factors-*",
    )
    with running(tmp_path_factory.mktemp("s"), study, programs.BENCHMARKS) as checkout:
        name = survive(checkout, study, RUN_SECONDS)
        query = f'avg by (environment) (last_over_time(lab_measurement{{run="{name}", test="cpu"}}[15m]))'
        value = values(checkout, query, "environment")
        alone = value["1 server on 1 CPU, pinned"]
        assert 0 < value["2 servers on 1 CPU, free"] < 0.75 * alone
        assert 0 < value["1 server on 1 CPU, pinned, cap 0.2"] < 0.35 * alone
        sent = checkout.query(f'last_over_time(lab_measurement{{run="{name}", test=~"network (sent|received)"}}[15m])')
        assert len(sent) == 2 * 2 * 2
        assert all(float(series["value"][1]) > 0 for series in sent)
        assert "**With 2 busy virtual servers per CPU" in report(checkout, name)
        assert "not complete" not in report(checkout, name)


def test_suites_run_in_each_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    there_before = HELLO.exists()

    def files() -> list[str]:
        hello = [str(HELLO)] if HELLO.exists() != there_before else []
        return [*hello, str(WORK)] if WORK.exists() else hello

    study = Study(
        """\
study: suites
about: As short as may be.
suites: [lmbench, stress-ng, nbench]
environments: [base, {name: capped, cap: 0.5}]
repetitions: 2
settle: 0s
megabytes: 4
interval: 0.001s
stress_time: 1s
""",
        steps={
            f"{where}-{suite}-{n}" for where in ("base", "capped") for suite in ("lmbench", "stress-ng") for n in (1, 2)
        },
        first=["base-lmbench-1", "base-stress-ng-1"],
        shown="base-stress-ng-1: ",
        works=str(WORK),
        cgroups="environment",
        others_left=files,
    )
    with running(tmp_path_factory.mktemp("s"), study, programs.LMBENCH, programs.STRESS_NG) as checkout:
        name = survive(checkout, study, RUN_SECONDS)
        counted = checkout.query(
            f'count by (environment, repetition) (last_over_time(lab_measurement{{run="{name}"}}[1h]))'
        )
        assert {(one["metric"]["environment"], one["metric"]["repetition"]): one["value"][1] for one in counted} == {
            (environment, repetition): "47" for environment in ("base", "capped") for repetition in ("1", "2")
        }
        text = report(checkout, name)
        assert "capped: lmbench's 39 tests reach " in text  # 2p/0K, which is in two tables, counts once
        assert "nbench in base, capped: no distribution packages it" in text
        assert "| fork proc | µs | lower | capped | " in text
        assert "not complete" not in text


def namespaces() -> set[str]:
    """The network namespaces that any process is in."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            found.add(str((process / "ns/net").readlink()))
    return found


def test_network_costs_in_namespaces_and_to_a_guest_behind_a_tap(tmp_path_factory: pytest.TempPathFactory) -> None:
    if subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode:
        pytest.skip("network namespaces need root")
    program_path("vegeta")
    before, where = namespaces(), [*((path, "on") for path in PATHS), ("guest-tapped", "unchanged")]
    study = Study(
        """\
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
""",
        steps={
            f"{path}-{what}-{number}"
            for path, offloads in where
            for what in (
                *(f"{way}-{size}-offloads-{offloads}" for way in ("send", "receive") for size in (256, 131_072)),
                *(f"web-{size}-50" for size in FILES),
            )
            for number in (1, 2)
        },
        first=["loopback-send-256-offloads-on-1"],
        shown="loopback-send-256-offloads-on-1: ",
        works="net:[",
        cgroups="auction-1-*",
        others_left=lambda: sorted(namespaces() - before),
    )
    with (
        guest(tmp_path_factory.mktemp("guest")),
        running(tmp_path_factory.mktemp("n"), study, programs.BENCHMARKS, programs.WEB_SERVER) as checkout,
    ):
        name = survive(checkout, study, RUN_SECONDS)

        def measured(test: str) -> dict[str, float]:
            query = f'avg by (environment) (last_over_time(lab_measurement{{run="{name}", test="{test}"}}[15m]))'
            return values(checkout, query, "environment")

        # A byte in small messages costs more on every path.
        cost = measured("CPU per byte")
        assert len(cost) == 4 * (len(PATHS) + 1)
        for path in PATHS:
            small, large = (cost[f"{path}, send, {size} bytes, offloads on"] for size in (256, 131_072))
            assert 0 < large < small
        for test in ("CPU per request", "latency p99"):
            found = measured(test)
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


# Two guests that are always as busy as their caps let them be, for whom virsh is asked: 0.5 CPUs each.
_VIRSH = """\
#!/bin/sh
case "$*" in
*domstats*)
    for guest in web1 web2; do
        printf "Domain: '%s'\\n  cpu.time=%s\\n\\n" $guest "$(awk '{printf "%d", $1 * 5e8}' /proc/uptime)"
    done ;;
*--live*) echo "$*" >>"$CALLS" ;;
*) printf 'global_period  : 100000\\nglobal_quota   : -1\\n' ;;
esac
"""
# ssh to hosts that are this machine, of which one can't be reached as long as there is a file.
_SSH = """\
#!/bin/sh
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
    for name, script in (("ssh", _SSH), ("virsh", _VIRSH)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
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
            # Switched, and at the end as before: without a cap.
            calls = (tmp_path / f"calls-root@{host}").read_text().splitlines()
            assert any("web1 --live global_period=20000 global_quota=4000" in call for call in calls)
            assert calls[-1].endswith("web2 --live global_period=100000 global_quota=-1")

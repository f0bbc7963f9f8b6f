"""A short run of dynamic allocation on real cgroups: killed in the middle, resumed, interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.allocation.containers import Containers
from lab.allocation.scenario import LOADS
from lab.cgroups import Hierarchies
from tests.lab.conftest import require_cgroups
from tests.lab.runs import finished_steps, lab, left, read_until, start
from tests.stack.conftest import Checkout, eventually

SCENARIO = """\
study: allocation
about: A few switches, as short as may be.
magnitudes: [[0.2, 0.8]]
intervals: 3s
duration: 9s
warm_up: 0s
repetitions: 2
load: transactional
"""
_STEPS = ("2xstatic-3s-1", "2xcontrol-3s-1", "2x0.2-0.8-3s-1", "2xcontrol-3s-2", "2x0.2-0.8-3s-2", "2xstatic-3s-2")
STEPS = [f"transactional-{step}" for step in _STEPS]
RUN_SECONDS = 240
CGROUP = "allocation-1"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def scenario() -> str:
    """Skips where cgroups can't be made."""
    require_cgroups()
    return SCENARIO


@pytest.mark.long
def test_caps_are_switched_and_nothing_is_left_however_it_ends(checkout: Checkout) -> None:
    stack = set(checkout.processes())

    # Killed in its second step, it can't clean up; its guard does.
    with start(checkout) as run:
        read_until(run, f"{STEPS[0]}: 2 containers, caps of 0.5, never written")
        assert any("/allocation-1" in thing for thing in left(checkout, stack, CGROUP))
        time.sleep(4)
        run.send_signal(signal.SIGKILL)
    assert eventually(lambda: left(checkout, stack, CGROUP) == [])
    assert finished_steps(checkout) == [STEPS[:1]]

    # The same command runs only the steps that are left.
    with start(checkout) as run:
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, said
    assert "going on after 1 of 6 steps" in said
    assert "static-3s-1" not in said
    assert left(checkout, stack, CGROUP) == []
    assert finished_steps(checkout) == [STEPS]

    # Prometheus has every second of every step, and the containers used what their caps said.
    [name] = [file.parent.name for file in lab(checkout, "runs").glob("*/state.json")]
    of_run = f'{{run="{name}"}}[15m]'
    seconds = checkout.query(f"sum by (step, attempt) (last_over_time(lab_allocation_seconds_total{of_run}))")
    whole = [series["metric"]["step"] for series in seconds if float(series["value"][1]) >= 9]
    assert sorted(whole) == sorted(STEPS)
    used = checkout.query(f"sum by (cap) (last_over_time(lab_allocation_container_cpu_seconds_total{of_run}))")
    by_cap = {series["metric"]["cap"]: float(series["value"][1]) for series in used}
    # One of two has this cap at any time in two steps of 9 s; also where other load leaves them little.
    assert 0 < by_cap["0.2"] < 1.5 * 0.2 * 2 * 9
    assert 0 < by_cap["0.8"] < 1.5 * 0.8 * 2 * 9

    report = (lab(checkout, "reports") / name / "report.md").read_text()
    assert "2 containers, unpinned, transactional: " in report
    assert "not complete" not in report
    assert (lab(checkout, "reports") / name / "report.html").is_file()

    # A completed run isn't resumed: a new one starts. Interrupted, it leaves nothing behind.
    with start(checkout) as run:
        read_until(run, "Run ")
        assert eventually(lambda: any("/allocation-1" in thing for thing in left(checkout, stack, CGROUP)))
        time.sleep(1)
        os.kill(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGINT)  # people press Ctrl-C twice
        said, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, said
    assert "Interrupted; everything was stopped." in said
    assert left(checkout, stack, CGROUP) == []


@pytest.mark.parametrize("load", LOADS)
def test_a_container_works_within_its_cap_until_it_is_removed(
    hierarchies: Hierarchies, tmp_path: Path, load: str
) -> None:
    folder = tmp_path / "containers"
    with Containers(2, None, load, folder, tmp_path / "log") as containers:
        containers.cap(0, 0.1)
        containers.cap(1, 0.9)
        before = containers.sample()
        time.sleep(2)
        now = containers.sample()
        little, much = (used - was for was, used in zip(before.container_cpu, now.container_cpu, strict=True))
        assert now.tasks > before.tasks
        assert now.machine_cpu - before.machine_cpu > 0
        assert 0 < little < 2 * 0.1 * (now.clock - before.clock)  # also where other load leaves them little
        assert much > 0
        containers.check()
    assert not folder.exists()
    assert not [path for root in hierarchies.roots for path in (root / "virtscope").glob("allocation-*")]


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


@pytest.mark.long
def test_each_host_of_a_list_has_its_run_and_one_that_is_away_is_run_later(checkout: Checkout, tmp_path: Path) -> None:
    for name, script in (("ssh", _SSH), ("virsh", _VIRSH)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    away = tmp_path / "away"
    away.touch()
    (checkout.folder / "hosts.yml").write_text(TWO_HOSTS)
    environment = {
        **checkout.environment,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "CALLS": str(tmp_path / "calls"),
        "AWAY": str(away),
    }

    def run() -> tuple[int, str]:
        command = [sys.executable, "-m", "lab", "run", "hosts.yml"]
        done = subprocess.run(
            command,
            cwd=checkout.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def reports() -> list[str]:
        return sorted(file.parent.name[-len("hosts-kvm1") :] for file in lab(checkout, "reports").glob("*/report.md"))

    status, said = run()
    assert status == 1
    assert "error: root@kvm2: no answer to true: ssh: connect to host kvm2 port 22: No route to host" in said
    assert reports() == ["hosts-kvm1"]
    away.unlink()
    status, said = run()
    assert status == 0, said
    assert "kvm1" not in said
    assert reports() == ["hosts-kvm1", "hosts-kvm2"]
    for host in ("kvm1", "kvm2"):
        [report] = lab(checkout, "reports").glob(f"*-hosts-{host}/report.md")
        assert f"of root@{host} (kvm)" in report.read_text()
        # Switched, and at the end as before: without a cap.
        calls = (tmp_path / f"calls-root@{host}").read_text().splitlines()
        assert any("web1 --live global_period=20000 global_quota=4000" in call for call in calls)
        assert calls[-1].endswith("web2 --live global_period=100000 global_quota=-1")

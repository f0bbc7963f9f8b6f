"""The demo's data before Prometheus imports it: counters, files, past alerts, and error messages."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import kvm, model, past, shop, story
from demo.past import Alert, Past, Rule, records
from demo.study import CHECKOUT
from virtscope.kvm.exporter import HostView
from virtscope.kvm.host_files import RecordedFiles

# demo-kvm's files as read by kvm-exporter, in the middle of each phase of the shop's hour.
FULL_HOUR = 480000 * story.CYCLE
SECONDS = 60
MIDDLE = {"quiet": 3, "batch": 15, "capped batch": 28, "sale": 45}  # minutes
WAITS, RUNS, CPU = "kvm_vcpu_wait_seconds_total", "kvm_vcpu_run_seconds_total", "kvm_guest_cpu_seconds_total"
GUEST, THROTTLED = "kvm_guest_guest_seconds_total", "kvm_guest_throttled_seconds_total"
WANTED: dict[str, list[tuple[str, str, float]]] = {
    "batch": [
        # 2,800 clients with 7 s think time and 0.12 s response time: 393.3 requests per second of 1.5 ms each.
        (GUEST, "shop-web", 0.590),
        (GUEST, "batch", 2.6),
        (WAITS, "shop-web", 0.737),  # 1.25 s per second of its own CPU time
    ],
    "capped batch": [(CPU, "batch", 0.94 * 1.05)],
    # 4,200 clients / 7.13 s * 1.5 ms, plus 12 % for KVM and QEMU: 99 % of its cap of one CPU.
    "sale": [(CPU, "shop-web", 0.990), (THROTTLED, "shop-web", 0.6)],
}


def rates(minute: int) -> dict[str, dict[str, float]]:
    """The rate of each counter in this minute of the hour, per second: by name, then by guest ("": the host)."""
    counters, files = model.Counters(shop.HOST, FULL_HOUR - story.CYCLE), RecordedFiles()
    view = HostView(files, [tuple], recorded_ones=True)
    found: dict[str, dict[str, float]] = {}
    for at, sign in ((0, -1), (SECONDS, 1)):
        files.show(kvm.files(counters, FULL_HOUR + 60 * minute + at))
        for family in view.families(0):
            for sample in family.samples:
                values = found.setdefault(sample.name, {})
                guest = sample.labels.get("guest", "")
                values[guest] = values.get(guest, 0) + sign * sample.value / SECONDS
    return found


@pytest.mark.parametrize("phase", MIDDLE)
def test_guests_of_the_kvm_host_use_what_the_story_says_and_no_more_than_there_is(phase: str) -> None:
    played = rates(MIDDLE[phase])
    for metric, guest, rate in WANTED.get(phase, []):
        assert played[metric][guest] == pytest.approx(rate, abs=0.002), metric
    for guest, computed in played[GUEST].items():
        # KVM and QEMU cost 5 to 15 %; ticks are 10 ms long, and batch uses little CPU while its job is stopped.
        assert 0.05 - 0.02 / computed / SECONDS - 0.005 < played[CPU][guest] / computed - 1 < 0.15, guest
    for guest, ran in played[RUNS].items():
        assert ran + played[WAITS][guest] < shop.GUESTS[guest]["vcpus"], f"{guest} has more time than there is"
        others = played["kvm_guest_thread_cpu_seconds_total"][guest]
        assert ran + others == pytest.approx(played[CPU][guest], abs=0.005), f"threads of {guest}"
    used = played["kvm_host_cpu_seconds_total"][""]
    assert used == pytest.approx(sum(played[CPU].values()) + 0.035, abs=0.02)
    assert used < 4
    assert played["kvm_host_guest_seconds_total"][""] == pytest.approx(sum(played[GUEST].values()), abs=0.01)


def test_an_alert_waits_fires_and_goes_on_firing() -> None:
    """True at minutes 1 to 3, 5 and 10. `for` is a minute; it keeps firing for two minutes, with one recurrence."""
    alert = Alert("A", "a", seconds=60, keep=120, labels={})
    states = [(at // 60, state, since // 60) for at, state, since in alert.states({60, 120, 180, 300, 600}, 720)]
    assert states == [(1, "pending", 1), *((minute, "firing", 1) for minute in range(2, 8)), (10, "pending", 10)]
    at_once = Alert("A", "a", seconds=0, keep=0, labels={})
    assert list(at_once.states({60, 180}, 240)) == [(60, "firing", 60), (180, "firing", 180)]


def test_two_series_that_are_one_record_are_written_in_the_order_of_their_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in `started or sum(others)`, whose series only differ in name."""
    answer: list[dict[str, Any]] = [
        {"metric": {"__name__": "started", "host": "h"}, "values": [(3540, "1")]},
        {"metric": {"host": "h"}, "values": [(3420, "3"), (3480, "2"), (3600, "0")]},
    ]
    monkeypatch.setattr(past, "_evaluated", lambda *_: [answer])
    ((name, samples),) = records([Rule("group", "used", "", {})], Past(Path(), Path(), 3400, 3600))
    assert (name, list(samples)) == ('used{host="h"}', [(3420, "3"), (3480, "2"), (3540, "1"), (3600, "0")])


def test_an_alert_waits_as_long_as_its_rule_says(tmp_path: Path) -> None:
    file = tmp_path / "alerts" / "rules" / "all.yml"
    file.parent.mkdir(parents=True)
    rule = {"alert": "Slow", "expr": "up == 0", "for": "1w", "keep_firing_for": "1m30s"}
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": [rule]}]}))
    _, (alert,) = past.read_rules(tmp_path)
    assert (alert.seconds, alert.keep) == (604800, 90)


def test_a_failing_promtool_is_reported_with_its_own_output(tmp_path: Path) -> None:
    promtool = tmp_path / "promtool"
    promtool.write_text("#!/bin/sh\necho 'write samples: no space left on device' >&2\nexit 1\n")
    promtool.chmod(0o755)
    folder = tmp_path / "demo"
    folder.mkdir()
    ports = '--ports={"prometheus": 1, "xentop": 2, "kvm": 3, "vestat": 4, "sensors": 5}'
    command = [sys.executable, "-m", "demo", "prepare", f"--folder={folder}"]
    done = subprocess.run(
        [*command, f"--promtool={promtool}", "--prometheus=none", ports],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "exporters")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "promtool failed: write samples: no space left on device\n")

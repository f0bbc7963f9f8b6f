"""A run's saved state, its scaling and placement, and its output."""

import io
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from deploy import programs
from deploy.targets import this_machine
from lab import LabError, machine, run, scenario, scrapes, stage
from lab.progress import Course
from lab.scenario import Consolidation, Scale, calibrated
from lab.servers.instance import Instance
from lab.state import State
from tests.support.refusals import assert_refused

_, SCENARIO = run.load(scenario.find("scale"))
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_run_goes_on_where_it_was_and_a_damaged_state_is_reported(tmp_path: Path) -> None:
    assert State.unfinished(SCENARIO, tmp_path) is None
    begun = State.begin(SCENARIO, NOON, tmp_path)
    assert begun.run == "20261121T120000-scale"
    begun.scale = Scale(4.0, 0.0105)
    begun.finished.append("1x500-1")
    begun.save()
    assert State.unfinished(SCENARIO, tmp_path) == begun
    other = Consolidation.parse("about: x\ninstances: 1\nclients: 1\nduration: 15s\n", "scale.yml")
    assert State.unfinished(other, tmp_path) is None
    begun.over = True
    begun.save()
    assert State.unfinished(SCENARIO, tmp_path) is None
    for content in ("", "{}", "[]", '{"scale": {"clients": 3}}'):
        (begun.folder / "state.json").write_text(content)
        assert_refused(LabError, r"state\.json is damaged.*NEW=1", State.unfinished, SCENARIO, tmp_path)


def test_clients_follow_from_the_cost_of_a_request() -> None:
    # 20 s of CPU for 2,000 answers is 10 ms each; 0.3 CPUs serve 30 of them per second, for 30 * 7.01 clients.
    scale = calibrated(cpu_seconds=20, answers=2000, think_seconds=7)
    assert scale.request_cpu_seconds == pytest.approx(0.010)
    assert [scale.clients(of_study) for of_study in (800, 400, 1)] == [210, 105, 1]
    assert Scale().clients(3) == 3, "without calibration"
    assert_refused(LabError, "only 12 answers", calibrated, 1, 12, 7)


def test_nodes_are_the_last_cpus_and_clients_keep_off_them() -> None:
    one = machine.cpus("one node", {0, 1, 2, 3})
    assert (one.by_tier, one.others, one.count) == ({"web": "3", "db": "3"}, "0,1,2", 1)
    two = machine.cpus("two nodes", {0, 1})
    assert (two.by_tier, two.count) == ({"web": "1", "db": "0"}, 2)
    with pytest.raises(LabError, match="needs two CPUs"):
        machine.cpus("two nodes", {0})
    assert machine.cpus("one node", {0}).others == "0"


def test_prometheus_is_shown_where_to_look_and_no_longer(tmp_path: Path) -> None:
    for name in ("lab.yml", "lab-laboratory.yml"):  # files of other runs
        (tmp_path / name).touch()
    left_over = tmp_path / "cadvisor-lab-1.yml"  # from a run that ended with a crash of the machine
    left_over.touch()
    with scrapes.targets_written({"telegraf": [1], "lab": [3, 4]}, tmp_path):
        assert not left_over.exists()
        assert (tmp_path / f"telegraf-lab-{os.getpid()}.yml").exists()
        [group] = yaml.safe_load((tmp_path / f"lab-lab-{os.getpid()}.yml").read_text())
        assert group["targets"] == ["127.0.0.1:3", "127.0.0.1:4"]
        assert group["labels"] == {"host": this_machine().host, "platform": "cgroup"}
    assert {file.name for file in tmp_path.iterdir()} == {"lab.yml", "lab-laboratory.yml"}


def test_a_report_will_know_what_the_lab_ran_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "got", lambda _telegraf: programs.Got("1.39.2", "official release"))
    known = machine.description()
    for program in ("apache", "php", "mariadb", "telegraf"):
        assert re.fullmatch(r"\d+\.\d+\.\d+", known[program]), program
    cpuinfo, os_release = tmp_path / "cpuinfo", tmp_path / "os-release"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: A Good CPU @ 3 GHz\n")
    os_release.write_text('NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    known = machine.host(cpuinfo, os_release)
    assert (known["cpu"], known["os"]) == ("A Good CPU @ 3 GHz", "Debian GNU/Linux 12 (bookworm)")
    cpuinfo.write_text("processor\t: 0\nBogoMIPS\t: 100.00\n")  # arm64 has no model name
    assert machine.host(cpuinfo, os_release)["cpu"]


def test_sensors_are_copied_for_an_instance_and_one_that_has_changed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance("auction-1", tmp_path, {"web": 1, "db": 2})
    stage.copy_sensors(instance, tmp_path)
    for sensor in ("apache_access_log", "apache_status", "mysql"):
        assert 'app = "auction-1"' in (tmp_path / f"auction-1-{sensor}.conf").read_text()
    shutil.copytree(stage.TELEGRAF / "sensors", tmp_path / "sensors")
    (tmp_path / "sensors/mysql.conf").write_text('app = "shop"\n')
    monkeypatch.setattr(stage, "TELEGRAF", tmp_path)
    assert_refused(LabError, r"sensors/mysql\.conf no longer has", stage.copy_sensors, instance, tmp_path)


def test_without_a_terminal_progress_is_plain_lines_and_failures_are_not_waited_out() -> None:
    def fails() -> None:
        raise LabError("auction-1's db tier has ended")

    out = io.StringIO()
    with Course(90, Console(file=out, width=40)) as course:
        course.doing("warming up")
        course.say("A line that is longer than the terminal would be, if there were one.")
        with pytest.raises(LabError, match="has ended"):
            course.pass_time(60, fails)
    assert out.getvalue() == "A line that is longer than the terminal would be, if there were one.  (1 min 30 s left)\n"

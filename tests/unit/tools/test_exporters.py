"""An exporter that the distribution installs is known wherever exporters must be named one by one.

What else names them is made of `tools.exporters`. In compose.yaml: tests/compose/test_compose.py.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import yaml

from alerts.generator.histograms import names_dropped
from tools import parts
from tools.exporters import FOLDERS, PLATFORM_OF, prefixes

ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = (ROOT / "prometheus/prometheus.yml").read_text()
JOBS = {job["job_name"]: job for job in yaml.safe_load(CONFIGURATION)["scrape_configs"]}
PARTS = {part.name: part for part in parts.EXPORTERS}

each_exporter = pytest.mark.parametrize("exporter", FOLDERS)


def test_the_stack_has_each_and_no_others() -> None:
    assert {name: part.platform for name, part in PARTS.items()} == {
        f"{exporter}-exporter": PLATFORM_OF.get(exporter) for exporter in FOLDERS
    }


@each_exporter
def test_supervisord_runs_it(exporter: str) -> None:
    programs = configparser.RawConfigParser()
    programs.read(ROOT / "tools/supervisord.conf")
    command = programs[f"program:{exporter}-exporter"]["command"]
    part = PARTS[f"{exporter}-exporter"]
    assert f"-m virtscope.{FOLDERS[exporter]}" in command
    assert f"%(ENV_{part.privileges_variable})s" in command
    assert f"--web.listen-address=127.0.0.1:%(ENV_{part.port_variable})s" in command


@each_exporter
def test_prometheus_has_a_job_for_it_with_a_file_for_its_targets(exporter: str) -> None:
    (found,) = JOBS[exporter]["file_sd_configs"]
    assert found["files"] == [f"targets/{exporter}.yml", f"targets/local/{exporter}.yml"]
    assert (ROOT / f"prometheus/targets/{exporter}.yml").is_file()
    (kept,) = (step["regex"] for step in JOBS[exporter]["metric_relabel_configs"] if step.get("action") == "keep")
    for prefix in (*prefixes(exporter), "process_"):
        assert re.fullmatch(kept, f"{prefix}x")


@each_exporter
def test_applications_and_sensors_can_t_expose_its_metrics(exporter: str) -> None:
    for prefix in prefixes(exporter):
        assert any(re.fullmatch(dropped, f"{prefix}x") for dropped in names_dropped(CONFIGURATION))


def test_what_is_unknown_without_the_exporter_of_a_platform_is_inhibited() -> None:
    rules = yaml.safe_load((ROOT / "alerts/alertmanager.yml").read_text())["inhibit_rules"]
    sources = [" ".join(rule["source_matchers"]) for rule in rules]
    (jobs,) = (match[1] for each in sources if (match := re.search(r'ExporterDown job =~ "(.*)"', each)))
    assert set(jobs.split("|")) == {*PLATFORM_OF, "cadvisor"}


@each_exporter
def test_its_port_is_documented(exporter: str) -> None:
    part = PARTS[f"{exporter}-exporter"]
    row = rf"^\| {part.name}\b.* \| {part.default_port} \| `{part.port_variable}` \|$"
    assert re.search(row, (ROOT / "docs/install.md").read_text(), re.MULTILINE)


@each_exporter
def test_it_has_a_unit_and_a_page(exporter: str) -> None:
    assert (ROOT / f"exporters/systemd/{exporter}-exporter.service").is_file()
    assert (ROOT / f"docs/{exporter}-exporter.md").is_file()

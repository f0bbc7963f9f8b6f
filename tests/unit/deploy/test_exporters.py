"""A distribution's exporter is known in every list of exporters.

Other lists are generated from `deploy.exporters`. compose.yaml: tests/compose/test_compose.py.
"""

import configparser
import re
from pathlib import Path

import yaml

from alerts.generator.histograms import names_dropped
from deploy import parts
from deploy.exporters import FOLDERS, PLATFORM_OF, prefixes

ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = (ROOT / "prometheus/prometheus.yml").read_text()
JOBS = {job["job_name"]: job for job in yaml.safe_load(CONFIGURATION)["scrape_configs"]}
PARTS = {part.name: part for part in parts.EXPORTERS}


def test_the_stack_has_each_and_no_others() -> None:
    platforms = {f"{exporter}-exporter": PLATFORM_OF.get(exporter) for exporter in FOLDERS}
    assert {name: part.platform for name, part in PARTS.items()} == platforms


def test_each_runs_has_a_port_a_unit_and_a_page() -> None:
    programs = configparser.RawConfigParser()
    programs.read(ROOT / "deploy/supervisord.conf")
    ports = (ROOT / "docs/install.md").read_text()
    for exporter, folder in FOLDERS.items():
        part = PARTS[f"{exporter}-exporter"]
        command = programs[f"program:{part.name}"]["command"]
        assert f"-m virtscope.{folder}" in command
        for variable in (part.privileges_variable, part.arguments_variable):
            assert f"%(ENV_{variable})s" in command
        assert f"--web.listen-address=127.0.0.1:%(ENV_{part.port_variable})s" in command
        row = rf"^\| {part.name}\b.* \| {part.default_port} \| `{part.port_variable}` \|$"
        assert re.search(row, ports, re.MULTILINE), exporter
        assert (ROOT / f"exporters/systemd/{part.name}.service").is_file()
        assert (ROOT / f"docs/{part.name}.md").is_file()


def test_prometheus_has_a_job_for_each_and_applications_can_t_expose_its_metrics() -> None:
    for exporter in FOLDERS:
        (found,) = JOBS[exporter]["file_sd_configs"]
        assert found["files"] == [
            f"{folder}/{exporter}.yml" for folder in ("../local/targets", "targets", "targets/local")
        ]
        assert (ROOT / f"prometheus/targets/{exporter}.yml").is_file()
        (kept,) = (step["regex"] for step in JOBS[exporter]["metric_relabel_configs"] if step.get("action") == "keep")
        for prefix in prefixes(exporter):
            assert re.fullmatch(kept, f"{prefix}x")
            assert any(re.fullmatch(dropped, f"{prefix}x") for dropped in names_dropped(CONFIGURATION))
        assert re.fullmatch(kept, "process_x")


def test_what_is_unknown_without_the_exporter_of_a_platform_is_inhibited() -> None:
    rules = yaml.safe_load((ROOT / "alerts/alertmanager.yml").read_text())["inhibit_rules"]
    sources = [" ".join(rule["source_matchers"]) for rule in rules]
    (jobs,) = (match[1] for each in sources if (match := re.search(r'ExporterDown job =~ "(.*)"', each)))
    assert set(jobs.split("|")) == {*PLATFORM_OF, "cadvisor"}

"""The files of deploy/packages/push: the agents' are up to date, and the gate keeps what prometheus.yml keeps."""

import re

import yaml

from tools import push

GATE = yaml.safe_load((push.FOLDER / "gate/relabel.yml").read_text())
OF_JOBS = re.compile(r'\{job(=~?)"(?P<jobs>[\w|]+)",__name__(?P<operator>=~|!~)"(?P<names>.+)"\}')
BY_AGENTS = {"up", "scrape_duration_seconds"}  # agents write these themselves
NAMES = [f"{prefix}_x" for prefix in re.findall(r"[a-z]+", (push.FOLDER / "gate/relabel.yml").read_text())]
NAMES += ["a:b:c", "xen_domain:x", "ALERTS", "ALERTS_FOR_STATE", "UP", "xen", "x_xen_x", "other_total", "perf_cgroup_x"]
NAMES += ["app_request_duration_seconds_bucket", "app_log_lines_total", "app_x"]


def test_the_agents_files_are_fresh() -> None:
    assert (push.FOLDER / "prometheus.yml").read_text() == push.prometheus(), "run: python -m tools.push"
    assert (push.FOLDER / "otelcol.yml").read_text() == push.otelcol(), "run: python -m tools.push"


def test_the_gate_lets_in_the_jobs_that_agents_have() -> None:
    (kept,) = (re.fullmatch(r'\{job=~"(.+)"\}', rule["if"]) for rule in GATE if rule["action"] == "keep")
    assert kept is not None
    assert set(kept[1].split("|")) == {job["job_name"].removesuffix("_in_guests") for job in push.jobs()}


def test_the_gate_keeps_the_names_that_a_scrape_keeps() -> None:
    for job in push.jobs():
        name = job["job_name"].removesuffix("_in_guests")
        of_a_scrape = {metric for metric in NAMES if kept_of_a_scrape(job, metric)}
        at_the_gate = {metric for metric in NAMES if kept_at_the_gate(name, metric)}
        assert at_the_gate - {"scrape_x"} == of_a_scrape, name
        assert 1 < len(of_a_scrape) < len(NAMES), name
        assert all(kept_at_the_gate(name, metric) for metric in BY_AGENTS), name


def kept_of_a_scrape(job: push.Yaml, name: str) -> bool:
    rules = [rule for rule in job["metric_relabel_configs"] if rule.get("source_labels") == ["__name__"]]
    return all((re.fullmatch(rule["regex"], name) is not None) == (rule["action"] == "keep") for rule in rules)


def kept_at_the_gate(job: str, name: str) -> bool:
    """The rules that drop names of a job. Each matched expression is VictoriaMetrics's selector."""
    for rule in GATE:
        found = OF_JOBS.fullmatch(rule.get("if", ""))
        if found and job in found["jobs"].split("|"):
            assert rule["action"] == "drop"
            matches = re.fullmatch(found["names"].replace("\\\\", "\\"), name) is not None
            if matches == (found["operator"] == "=~"):
                return False
    return True

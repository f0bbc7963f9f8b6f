"""Objects for Prometheus Operator: an API server accepts them, and they mean the same as the stack's own files."""

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy import go_programs
from tests.kubernetes.schemas import strict
from tests.mixin.rendered import loaded, rendered

ROOT = Path(__file__).resolve().parents[2]
STACK = yaml.safe_load((ROOT / "prometheus" / "prometheus.yml").read_text())
JOBS = {job["job_name"]: job for job in STACK["scrape_configs"]}
OWN = {"prometheus", "alertmanager", "stack", "lab"}  # an Operator has its own, or they need a checkout

Json = Any


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Objects by file name. The cluster label makes them larger; there is one target."""
    folder = tmp_path_factory.mktemp("operator")
    target = "{ targets: ['dom0:10290'], labels: { host: 'xen1', platform: 'xen' } }"
    rendered(folder, f"{{ clusterLabel: 'cluster', targets+: {{ xentop: [{target}] }} }}")
    return {file.name: loaded(file.read_text()) for file in (folder / "prometheus-operator").iterdir()}


@pytest.fixture(scope="module")
def definitions() -> dict[tuple[str, str], Json]:
    """The schema of each resource of the Operator, by apiVersion and kind."""
    try:
        folder = go_programs.custom_resource_definitions()
    except go_programs.GoProgramsError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no CRDs: {error}")
    found = {}
    for name in ("prometheusrules", "scrapeconfigs", "podmonitors", "servicemonitors"):
        spec = loaded((folder / f"monitoring.coreos.com_{name}.yaml").read_text())["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = strict(schema)
    return found


def test_an_api_server_accepts_them(objects: dict[str, Json], definitions: dict[tuple[str, str], Json]) -> None:
    kinds = set()
    for name, made in objects.items():
        kinds.add(made["kind"])
        checked = {**made, "metadata": {}}  # metadata has Kubernetes's own schema
        if made["kind"] == "ConfigMap":
            assert (made["apiVersion"], set(made)) == ("v1", {"apiVersion", "kind", "metadata", "data"})
        else:
            schema = definitions[made["apiVersion"], made["kind"]]
            schema = {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}
            jsonschema.Draft202012Validator(schema).validate(checked)
        assert set(made["metadata"]) == {"name", "labels"}
        texts = [*made["metadata"]["labels"].values(), *made.get("data", {}).values()]
        assert all(isinstance(value, str) for value in texts)
        # `kubectl apply` keeps each object in an annotation of at most 256 KiB. A ConfigMap's own limit is 1 MiB.
        assert len(json.dumps(made)) < 256 * 1024, name
    assert kinds == {"PrometheusRule", "ScrapeConfig", "PodMonitor", "ServiceMonitor", "ConfigMap"}
    names = [(made["kind"], made["metadata"]["name"]) for made in objects.values()]
    assert len(set(names)) == len(names)


def test_grafanas_sidecar_finds_every_dashboard(objects: dict[str, Json]) -> None:
    maps = [made for made in objects.values() if made["kind"] == "ConfigMap"]
    assert {made["metadata"]["labels"]["grafana_dashboard"] for made in maps} == {"1"}
    uids = {json.loads(text)["uid"] for made in maps for text in made["data"].values()}
    assert uids == {json.loads(file.read_text())["uid"] for file in (ROOT / "dashboards" / "json").glob("*.json")}


def test_jobs_are_scraped_as_the_stack_does(objects: dict[str, Json]) -> None:
    scraped = {made["spec"]["jobName"] for made in objects.values() if made["kind"] == "ScrapeConfig"}
    assert scraped == set(JOBS) - OWN
    for job in scraped:
        spec = dict(objects[f"scrapeConfig-{job.replace('_', '-')}.yaml"]["spec"])
        target = {"targets": ["dom0:10290"], "labels": {"host": "xen1", "platform": "xen"}}
        assert spec.pop("staticConfigs", []) == ([target] if job == "xentop" else [])
        expected = {key: value for key, value in JOBS[job].items() if key != "file_sd_configs"}
        for ours, of_operator in (("scrape_interval", "scrapeInterval"), ("scrape_timeout", "scrapeTimeout")):
            assert spec.pop(of_operator) == expected.pop(ours, STACK["global"][ours]), job
        assert expected.pop("follow_redirects") is False  # a ScrapeConfig can't express it
        expected["honor_labels"] = False
        for part in ("relabel_configs", "metric_relabel_configs"):
            expected[part] = [only_empty(step) for step in expected[part]]
        assert as_configured(spec) == expected, job


def test_nodes_are_scraped_as_hosts_are(objects: dict[str, Json]) -> None:
    """The kubelet has cAdvisor's series, with labels of pods that the Operator's own would hide."""
    limits = ("sampleLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit", "bodySizeLimit")
    for name, job, platform, endpoints in (
        ("podMonitor-sched", "sched", "base", "podMetricsEndpoints"),
        ("podMonitor-perf", "perf", "base", "podMetricsEndpoints"),
        ("podMonitor-kvm", "kvm", "kvm", "podMetricsEndpoints"),
        ("serviceMonitor-kubelet", "cadvisor", "cgroup", "endpoints"),
    ):
        spec, scraped = objects[f"{name}.yaml"]["spec"], objects[f"scrapeConfig-{job}.yaml"]["spec"]
        assert [spec[limit] for limit in limits] == [scraped[limit] for limit in limits]
        (endpoint,) = spec[endpoints]
        assert endpoint["metricRelabelings"] == scraped["metricRelabelings"]
        assert (endpoint["honorLabels"], endpoint["followRedirects"]) == (False, False)
        of_node, *fixed, dropped = endpoint["relabelings"]
        assert of_node["targetLabel"] == "host"
        assert {step["targetLabel"]: step["replacement"] for step in fixed} == {"platform": platform, "job": job}
        for label in ("namespace", "pod", "container", "node", "service", "endpoint"):
            assert re.fullmatch(dropped["regex"], label)


def only_empty(step: Json) -> Json:
    return {**step, "regex": "^$"} if step.get("regex") == "" else step


def as_configured(spec: Json) -> Json:
    """The Prometheus configuration that the Operator generates (pkg/prometheus/promcfg.go); it omits empty fields."""
    made = {NAMES.get(key) or in_snake_case(key): value for key, value in spec.items()}
    for part in NAMES.values():
        made[part] = [{in_snake_case(key): value for key, value in step.items() if value != ""} for step in made[part]]
    return made


NAMES = {"metricRelabelings": "metric_relabel_configs", "relabelings": "relabel_configs"}


def in_snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)

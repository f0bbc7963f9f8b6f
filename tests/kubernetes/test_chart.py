"""The Helm chart: what Helm and kubeconform accept, and which rights the exporters have."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import StackError
from tests.kubernetes import schemas
from tests.support.program import program_path
from tools import chart as tool

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # the first run builds Helm

Json = Any
IMAGE = "registry.example.org/virtscope/exporters"


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart") / "virtscope"
    tool.write(folder)
    return folder


def objects(chart: Path, **values: Json) -> list[Json]:
    file = chart.parent / "values.yaml"
    file.write_text(yaml.safe_dump({"image": {"repository": IMAGE}} | values))
    return list(yaml.load_all(tool.manifests(chart, file), yaml.CSafeLoader))


def only(kind: str, of: list[Json]) -> list[Json]:
    return [each for each in of if each["kind"] == kind]


def test_helm_and_kubeconform_find_nothing_wrong(chart: Path, tmp_path: Path) -> None:
    location = schemas.write(tmp_path)
    everything = {
        "image": {"repository": IMAGE, "tag": "1"},
        "kvm": {"enabled": True, "args": ["--log.level=debug"]},
        "scrapedFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "imagePullSecrets": [{"name": "registry"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-node-critical",
        "podAnnotations": {"note": "x"},
    }
    values = tmp_path / "everything.values"
    values.write_text(yaml.safe_dump(everything))
    least = ("--set", f"image.repository={IMAGE}")
    for given in (least, ("--values", str(values))):
        run("helm", "lint", "--strict", str(chart), *given)
    manifests = tmp_path / "everything.yaml"
    manifests.write_text(tool.manifests(chart, values))
    said = run("kubeconform", "-strict", "-summary", "-schema-location", location, str(manifests))
    assert "Invalid: 0, Errors: 0, Skipped: 0" in said
    manifests.write_text(manifests.read_text().replace("hostPID:", "hostPid:"))
    with pytest.raises(AssertionError, match="hostPid"):
        run("kubeconform", "-strict", "-schema-location", location, str(manifests))


def test_each_exporter_has_its_rights_and_no_others(chart: Path) -> None:
    rights = {"sched": ["BPF", "PERFMON"], "perf": ["PERFMON"], "kvm": None}
    for enabled in ({"sched", "perf"}, {"sched", "perf", "kvm"}, {"sched"}):
        made = objects(chart, **{name: {"enabled": name in enabled} for name in rights})
        (daemons,) = only("DaemonSet", made)
        pod = daemons["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["hostPID"] is ("kvm" in enabled)
        assert not {"hostNetwork", "hostIPC", "serviceAccountName"} & set(pod)
        assert [volume["hostPath"]["path"] for volume in pod["volumes"]] == ["/sys/fs/cgroup"]
        assert {container["name"] for container in pod["containers"]} == enabled
        for container in pod["containers"]:
            assert container["volumeMounts"] == [{"name": "cgroup", "mountPath": "/sys/fs/cgroup", "readOnly": True}]
            given = dict(container["securityContext"])
            added = given.pop("capabilities")
            needed = rights[container["name"]]
            assert added == {"drop": ["ALL"]} | ({"add": needed} if needed else {})
            user = {"runAsUser": 0} if needed else {"runAsNonRoot": True, "runAsUser": 65534}
            assert given == user | {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
            assert "memory" in container["resources"]["limits"]
            assert container["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
            assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"]
        monitors = {monitor["metadata"]["name"] for monitor in only("PodMonitor", made)}
        assert monitors == {f"virtscope-{name}" for name in enabled}
        for monitor in only("PodMonitor", made):
            (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
            (port,) = (c["ports"] for c in pod["containers"] if c["name"] == endpoint["port"])
            assert port[0]["name"] == endpoint["port"]
            assert (
                monitor["spec"]["selector"]["matchLabels"].items()
                <= daemons["spec"]["template"]["metadata"]["labels"].items()
            )


def test_what_other_people_select_by_is_set_and_what_they_have_is_left_out(chart: Path) -> None:
    kinds = {"DaemonSet", "PodMonitor", "ServiceMonitor", "PrometheusRule", "ConfigMap"}
    release = {"release": "kube-prometheus-stack"}
    made = objects(
        chart, prometheusOperator={"labels": release, "scrapeInterval": "10s"}, dashboards={"labels": release}
    )
    assert {each["kind"] for each in made} == kinds
    for each in made:
        if each["kind"] != "DaemonSet":
            assert release.items() <= each["metadata"]["labels"].items()
    assert {each["metadata"]["labels"]["grafana_dashboard"] for each in only("ConfigMap", made)} == {"1"}
    monitors = [*only("PodMonitor", made), *only("ServiceMonitor", made)]
    endpoints = [m["spec"].get("podMetricsEndpoints") or m["spec"]["endpoints"] for m in monitors]
    assert {endpoint["interval"] for (endpoint,) in endpoints} == {"10s"}
    for values, missing in (
        ({"prometheusOperator": {"enabled": False}}, {"PodMonitor", "ServiceMonitor", "PrometheusRule"}),
        ({"kubelet": {"enabled": False}}, {"ServiceMonitor"}),
        ({"dashboards": {"enabled": False}}, {"ConfigMap"}),
    ):
        assert {each["kind"] for each in objects(chart, **values)} == kinds - missing


def test_rules_in_the_chart_are_the_mixin_s(chart: Path) -> None:
    """Helm neither changes a rule nor reads an alert's template as its own."""
    (rules,) = (
        each for each in only("PrometheusRule", objects(chart)) if each["metadata"]["name"] == "virtscope-alerts"
    )
    rendered = yaml.load((chart / "files/prometheusRule-alerts.yaml").read_text(), yaml.CSafeLoader)
    assert rules["spec"] == rendered["spec"]


def test_without_an_image_it_says_which_one(chart: Path) -> None:
    with pytest.raises(StackError, match=r"push the image of exporters/Dockerfile"):
        tool.manifests(chart)


def run(program: str, *arguments: str) -> str:
    ended = subprocess.run([program_path(program), *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout

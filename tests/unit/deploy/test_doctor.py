"""What deploy/doctor.py finds in answers of a Prometheus that no test can wait for."""

from types import SimpleNamespace
from typing import Any, cast

from deploy import doctor
from deploy.api import Api
from deploy.doctor import EXPORTERS, Exporter


def texts(findings: Any) -> list[tuple[str, str]]:
    return [(finding.state, finding.what) for finding in findings]


def test_groups_that_are_evaluated_too_seldom_or_take_too_long() -> None:
    record = {"name": "host:cpu_usage:rate", "query": "1", "health": "ok"}
    groups = [
        {"name": "slow", "interval": 15, "evaluationTime": 20.4, "file": "a.yml", "rules": []},
        {"name": "seldom", "interval": 120, "evaluationTime": 1, "file": "b.yml", "rules": [record]},
        {"name": "others", "interval": 600, "evaluationTime": 1, "file": "c.yml", "rules": []},
    ]
    said = [
        what for state, what in texts(doctor._rules(groups, set())) if state == "wrong" and what.startswith("group ")
    ]
    assert said == ["group slow takes 20 s of 15 s", "group seldom is evaluated every 120 s"]


def test_hosts_without_records_and_hosts_of_containers_without_node_exporter() -> None:
    by_name = {exporter.name: exporter for exporter in EXPORTERS}
    found: dict[Exporter, list[dict[str, str]]] = {
        by_name["xentop-exporter"]: [{"host": host, "platform": "xen"} for host in ("xen1", "xen2")],
        by_name["cAdvisor"]: [{"host": "docker1", "platform": "cgroup"}],
        by_name["node_exporter"]: [{"host": "web1", "platform": "base"}],
    }
    recorded = {
        "host:cpu_usage:rate": [({"host": "xen1", "platform": "xen"}, 1.0)],
        "host:overhead_cpu:rate": [({"host": "xen1", "platform": "xen"}, 1.0)],
        "app:requests:rate": [({"app": "shop"}, 1.0)],
    }
    api = cast("Api", SimpleNamespace(query=recorded.__getitem__))
    assert texts(doctor._records(api, found)) == [
        ("wrong", "nothing is recorded of xen2 (xen)"),
        ("note", "no overhead of containers' hosts docker1"),
        ("ok", "1 of 3 hosts are recorded"),
    ]

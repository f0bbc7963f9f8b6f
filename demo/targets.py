"""What the demo's Prometheus scrapes: the exporters that replay recordings, and the pages of the other sensors."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from demo import story
from demo.model import HOST, rates
from demo.study import CHECKOUT

JOBS = {
    "xen": ("lab", "perf", "telegraf"),
    "openvz": ("lab", "node", "perf", "telegraf"),
    "base": ("lab", "node", "perf", "telegraf"),
    "kvm": ("lab", "perf", "sched", "telegraf"),
}
# By platform, the exporter that replays the host's recording.
_RECORDED = {"xen": "xentop", "openvz": "vestat", "kvm": "kvm"}
RULES = Path(__file__).with_name("rules.yml")
MARK = "DEMO, not live: "  # before an alert's summary and description
# Expected in the demo: it would list a host without problems among hosts that need attention.
NOT_PLAYED = "AlertmanagerNotReached"
_LOCAL = shutil.ignore_patterns("running*.yml", "secrets")
REPLAYED = "replayed"  # label of replayed series: exporters add it themselves, pages get it here


@dataclass(frozen=True, eq=False)  # compared by identity, which avoids hashing its labels as a dictionary key
class Target:
    """An address with the labels that Prometheus adds to its series; `path` is that of its page."""

    job: str
    address: str
    labels: Mapping[str, str]
    path: str = "/metrics"
    played: Mapping[str, str] = field(default_factory=dict)  # labels that an exporter adds itself


def targets(ports: Mapping[str, int]) -> list[Target]:
    """All targets of the demo; guests that don't exist at a given time have an empty page then.

    ports: of the demo's own programs on loopback: prometheus, xentop, kvm, vestat and sensors.
    """
    # The stack's own Prometheus isn't part of the story: its cost is real.
    found = [Target("prometheus", f"127.0.0.1:{ports['prometheus']}", {"host": "demo-base", "platform": "base"})]
    for host, platform in story.PLATFORMS.items():
        if exporter := _RECORDED.get(platform):
            labels = {"host": host, "platform": platform}
            found.append(Target(exporter, f"127.0.0.1:{ports[exporter]}", labels, played={REPLAYED: host}))
    sensors = f"127.0.0.1:{ports['sensors']}"
    return found + [
        Target(job, sensors, {**labels, REPLAYED: labels["host"]}, page_path(job, labels)) for job, labels in pages()
    ]


def pages() -> Iterator[tuple[str, dict[str, str]]]:
    """The job and the labels of each page of the sensors."""
    for host, platform in story.PLATFORMS.items():
        labels = {"host": host, "platform": platform}
        yield from ((job, labels) for job in JOBS[platform])
        if platform in {"xen", "openvz"}:
            yield from (("guest", {**labels, "vserver": guest}) for guest in _guests(platform))


def page_path(job: str, labels: Mapping[str, str]) -> str:
    """The path of a job's page, on a host or in its guest."""
    return "/" + "/".join(filter(None, (labels["host"], labels.get("vserver", ""), job)))


def _guests(platform: str) -> list[str]:
    """Guests with a sensor inside: on Xen a perf-exporter, on OpenVZ a node_exporter."""
    return sorted({name for step in story.STEPS for name in rates(platform, step).work} - {HOST})


def stage(folder: Path, wanted: list[Target]) -> Path:
    """Copy Prometheus's configuration, rules and alerts to `folder`, to scrape only these targets; return its path.

    There is no Alertmanager: the demo's alerts appear in Prometheus, and no notifications are sent.
    """
    for part in ("prometheus", "alerts"):
        shutil.copytree(CHECKOUT / part, folder / part, dirs_exist_ok=True, ignore=_LOCAL)
    shutil.copy(RULES, folder / "prometheus" / "rules" / "demo.yml")
    for pattern in ("prometheus/rules/history.yml", "alerts/rules/*.yml", "alerts/generated/*.yml"):
        for file in folder.glob(pattern):
            _edit(file)
    files = folder / "prometheus" / "targets"
    for file in files.rglob("*.yml"):
        file.write_text("[]\n")
    local = files / "local"
    local.mkdir(exist_ok=True)
    by_job: dict[str, list[dict[str, object]]] = {}
    for target in wanted:
        labels = {**target.labels, "__metrics_path__": target.path}
        by_job.setdefault(target.job, []).append({"targets": [target.address], "labels": labels})
    for job, groups in by_job.items():
        (local / f"{job}.yml").write_text(json.dumps(groups, indent=1) + "\n")
    return folder / "prometheus" / "prometheus.yml"


def _edit(file: Path) -> None:
    """Mark alerts; evaluate each minute: this Prometheus considers series ended after 75 s, as its history has no
    staleness markers."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    for group in content["groups"]:
        if file.stem == "history":
            group["interval"] = "1m"
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") != NOT_PLAYED]
        for rule in group["rules"]:
            if "alert" in rule:
                rule["annotations"]["summary"] = MARK + rule["annotations"]["summary"]
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

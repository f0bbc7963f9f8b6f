"""prometheus.yml of each Prometheus of a fleet: the shipped one, with its share of the hosts, and where it writes."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

from deploy import durations, merge, targets
from deploy.fleet import rules
from deploy.fleet.parts import RUNNING, Kind, Part, alertmanagers, parts, prometheus, writes_to
from deploy.fleet.settings import CHECKOUT, REPLICAS, Settings

# The fleet's own parts, by the job that scrapes them.
OWN_JOBS: dict[str, tuple[Kind, ...]] = {
    "prometheus": ("prometheus",),
    "alertmanager": ("alertmanager",),
    "thanos": ("receive", "query", "rule"),
}
OTHER_SHARDS = "virtscope_shards"  # the job that reads what is shared among them
# What its write queue may hold in memory: max_shards * (capacity + 2 * max_samples_per_send) = 140,000 samples, as each
# shard fills one request while it sends another. What doesn't fit waits in the log of samples on its disk, which goes
# back two hours or more.
_QUEUE = {"max_shards": 10, "capacity": 10_000, "max_samples_per_send": 2_000}
# Each host belongs to a shard by a hash of `host`, which puts it into one of these buckets, each of which is a shard's.
# A hash modulo the number of shards would send nearly all hosts elsewhere when there is one more. This way a new shard
# takes an even part of the others' buckets; what it doesn't take stays, with its history and its alerts' state.
BUCKETS = 840  # can be divided evenly by most small numbers
# The bucket of a target, by its host.
BUCKET = {"source_labels": ["host"], "modulus": BUCKETS, "target_label": "__tmp_bucket", "action": "hashmod"}


def shares(shards: int) -> list[list[int]]:
    """The buckets of each shard, whose numbers differ by one at most."""
    found = [list(range(BUCKETS))]
    while len(found) < shards:
        new: list[int] = []
        for _ in range(BUCKETS // (len(found) + 1)):
            largest = max(found, key=len)
            new.append(largest.pop())
        found.append(sorted(new))
    return found


def external_labels(part: Part) -> dict[str, str]:
    """What a Prometheus adds to all that it sends."""
    return {"shard": str(part.shard), "replica": part.replica}


def configuration(settings: Settings, part: Part, folder: Path) -> dict[str, Any]:
    """What prometheus.yml of one Prometheus says, as a file in a folder of `folder`; `targets` may be anywhere else."""
    config: dict[str, Any] = merge.prometheus()
    config["global"] |= {
        "scrape_interval": settings.scrape_interval,
        "scrape_timeout": f"{max(1, int(durations.parse(settings.scrape_interval) * 2 / 3))}s",
        "evaluation_interval": settings.evaluation_interval,
        "external_labels": config["global"].get("external_labels", {}) | external_labels(part),
    }
    config["rule_files"] = [f"../rules/{pattern}" for pattern in rules.patterns()]
    config["alerting"] = {
        "alert_relabel_configs": _one_alert_of_a_pair(part),
        "alertmanagers": [{"static_configs": [{"targets": [other.address for other in alertmanagers(settings)]}]}],
    }
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    jobs["thanos"] = {
        "metric_relabel_configs": [
            {"source_labels": ["__name__"], "regex": r"(thanos|prometheus|process|go)_\w+", "action": "keep"}
        ]
    }
    watched = {"targets": os.path.relpath(settings.targets, folder / RUNNING)}
    if settings.targets == CHECKOUT / "prometheus" / "targets":
        watched["../local/targets"] = os.path.relpath(CHECKOUT / "local" / "targets", folder / RUNNING)
    assert part.shard is not None
    share = shares(settings.shards)[part.shard]
    files = os.path.relpath(CHECKOUT / "prometheus", folder / RUNNING)
    config["scrape_configs"] = [
        _with_files(_job(settings, name, job, share, watched), files) for name, job in jobs.items()
    ]
    if settings.shards > 1:
        config["scrape_configs"].append(_other_shards(settings, part))
    config["remote_write"] = [*config.get("remote_write", ()), _remote_write(settings, part)]
    return config


def _job(
    settings: Settings, name: str, shipped: dict[str, Any], share: list[int], watched: dict[str, str]
) -> dict[str, Any]:
    """A job, with the hosts in the buckets of one shard alone; `watched`: folders of targets by their shipped names."""
    job: dict[str, Any] = {"job_name": name, **copy.deepcopy(shipped)}
    if name in OWN_JOBS:
        job.pop("file_sd_configs", None)
        job["static_configs"] = [_target(part) for part in parts(settings) if part.kind in OWN_JOBS[name]]
    for discovery in job.get("file_sd_configs", []):
        discovery["files"] = [
            f"{place}{file.removeprefix(shipped_place)}"
            for file in discovery["files"]
            for shipped_place, place in watched.items()
            if file.startswith(f"{shipped_place}/")
        ]
    # The last of all: by then `host` is settled.
    job["relabel_configs"] = [
        *job.get("relabel_configs", []),
        dict(BUCKET),
        {"source_labels": ["__tmp_bucket"], "regex": "|".join(map(str, share)), "action": "keep"},
    ]
    return job


def _with_files(value: Any, folder: str) -> Any:
    """Passwords and certificates, which are named relative to prometheus/, by their paths from here."""
    if isinstance(value, list):
        return [_with_files(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{folder}/{each}" if key.endswith("_file") and not each.startswith("/") else _with_files(each, folder)
        for key, each in value.items()
    }


def _other_shards(settings: Settings, part: Part) -> dict[str, Any]:
    """What this shard's rules need of the hosts of all others, from both of each pair: while one is down, the other
    has it.

    With the times at which it was recorded: a Prometheus that has just started offers, for five minutes, what it had
    before. That is as old as the mark of its end here, and is refused.
    """
    name, tier = rules.SHARED
    return {
        "job_name": OTHER_SHARDS,
        "metrics_path": "/federate",
        "params": {"match[]": [f'{name}{{tier="{tier}"}}']},
        "honor_labels": True,
        "track_timestamps_staleness": True,
        "follow_redirects": False,
        "sample_limit": 20_000,
        "body_size_limit": "10MB",
        "label_limit": 40,
        "label_name_length_limit": 100,
        "label_value_length_limit": 4096,
        "metric_relabel_configs": [
            {"source_labels": ["__name__", "tier"], "regex": f"{name};{tier}", "action": "keep"},
            {"target_label": "__name__", "replacement": rules.ELSEWHERE},
        ],
        "static_configs": [
            {
                "targets": [prometheus(settings, shard, replica).address for replica in REPLICAS],
                "labels": {"of_shard": str(shard)},
            }
            for shard in range(settings.shards)
            if shard != part.shard
        ],
    }


def _target(part: Part) -> dict[str, Any]:
    """A part of the fleet as a target of the host that it runs on. `part` has ExporterDown say which one it is."""
    host, platform = part.host, "base"
    if part.is_here:
        machine = targets.this_machine()
        host, platform = machine.host, machine.platform
    return {"targets": [part.address], "labels": {"host": host, "platform": platform, "part": part.name}}


def _one_alert_of_a_pair(part: Part) -> list[dict[str, Any]]:
    """Both of a pair send the same alerts: without `replica` Alertmanager takes them for one.

    Except that one of them stores no samples, as the other may: an alert that inhibited all others otherwise.
    """
    return [
        {
            "source_labels": ["alertname"],
            "regex": "SamplesNotStored",
            "target_label": "prometheus",
            "replacement": part.name,
        },
        {"regex": "replica", "action": "labeldrop"},
    ]


def _remote_write(settings: Settings, part: Part) -> dict[str, Any]:
    """Where it writes what all shards' readers need: records, alerts, `up` and the series in `raw`."""
    assert part.shard is not None
    wanted = "|".join([".+:.+", "ALERTS", "ALERTS_FOR_STATE", "up", *settings.raw])
    return {
        "url": f"http://{writes_to(settings, part.shard, part.replica).write}/api/v1/receive",
        "write_relabel_configs": [
            {"source_labels": ["__name__"], "regex": wanted, "action": "keep"},
            {"source_labels": ["job"], "regex": OTHER_SHARDS, "action": "drop"},
        ],
        "queue_config": dict(_QUEUE),
        "metadata_config": {"send": False},
    }

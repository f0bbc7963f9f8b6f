"""prometheus.yml for each Prometheus of a fleet: the shipped one, with its share of the hosts and remote write."""

import os
from pathlib import Path
from typing import Any

from deploy import durations, merge, targets
from deploy.fleet import rules
from deploy.fleet.parts import RUNNING, Kind, Part, alertmanagers, parts, prometheus, writes_to
from deploy.fleet.settings import REPLICAS, Settings
from deploy.places import CHECKOUT

# The fleet's own parts, by job.
OWN_JOBS: dict[str, tuple[Kind, ...]] = {
    "prometheus": ("prometheus",),
    "alertmanager": ("alertmanager",),
    "thanos": ("receive", "query", "rule"),
}
OTHER_SHARDS = "virtscope_shards"  # the job that reads the shared records
# The write queue in memory: max_shards * (capacity + 2 * max_samples_per_send) = 140,000 samples, as each shard fills
# one request while it sends another. The rest waits in the WAL on disk, which has two hours or more.
_QUEUE = {"max_shards": 10, "capacity": 10_000, "max_samples_per_send": 2_000}
# A hash of `host` puts each host into one of these buckets, and each bucket belongs to a shard. A hash modulo the
# number of shards would move nearly all hosts when a shard is added. A new shard takes an even part of the others'
# buckets; all other hosts stay, with their history and their alerts' state.
BUCKETS = 840  # divisible by most small numbers
# Computes a target's bucket.
BUCKET = {"source_labels": ["host"], "modulus": BUCKETS, "target_label": "__tmp_bucket", "action": "hashmod"}


def shares(shards: int) -> list[list[int]]:
    """The buckets of each shard; shards' sizes differ by at most one."""
    found = [list(range(BUCKETS))]
    while len(found) < shards:
        new: list[int] = []
        for _ in range(BUCKETS // (len(found) + 1)):
            largest = max(found, key=len)
            new.append(largest.pop())
        found.append(sorted(new))
    return found


def external_labels(part: Part) -> dict[str, str]:
    """The external labels of a Prometheus."""
    return {"shard": str(part.shard), "replica": part.replica}


def configuration(settings: Settings, part: Part, folder: Path) -> dict[str, Any]:
    """The content of one prometheus.yml, for a file in a folder of `folder`; `targets` may be elsewhere."""
    config = merge.prometheus()
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
    """A job, restricted to one shard's buckets; `watched`: folders of targets by their shipped names."""
    job: dict[str, Any] = {"job_name": name, **shipped}
    if name in OWN_JOBS:
        job.pop("file_sd_configs", None)
        job["static_configs"] = [_target(part) for part in parts(settings) if part.kind in OWN_JOBS[name]]
    if "file_sd_configs" in job:
        files = [
            f"{place}{file.removeprefix(shipped_place)}"
            for discovery in job["file_sd_configs"]
            for file in discovery["files"]
            for shipped_place, place in watched.items()
            if file.startswith(f"{shipped_place}/")
        ]
        job["file_sd_configs"] = [{"files": files}]  # a new one: jobs share the shipped one
    # Last, when `host` has its final value.
    job["relabel_configs"] = [
        *job.get("relabel_configs", []),
        BUCKET,
        {"source_labels": ["__tmp_bucket"], "regex": "|".join(map(str, share)), "action": "keep"},
    ]
    return job


def _with_files(value: Any, folder: str) -> Any:
    """Replaces paths of passwords and certificates, relative to prometheus/, by paths relative to here."""
    if isinstance(value, list):
        return [_with_files(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: f"{folder}/{each}" if key.endswith("_file") and not each.startswith("/") else _with_files(each, folder)
        for key, each in value.items()
    }


def _other_shards(settings: Settings, part: Part) -> dict[str, Any]:
    """The job that reads records of all other shards' hosts, from both of each pair, as one may be down.

    With the original time stamps: for five minutes after its restart, a Prometheus exposes its last samples from
    before. These are as old as the stale marker here, so they are refused.
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
    """A part of the fleet as a target, with the label `host` of its machine. ExporterDown shows the label `part`."""
    host, platform = part.host, "base"
    if part.is_here:
        machine = targets.this_machine()
        host, platform = machine.host, machine.platform
    return {"targets": [part.address], "labels": {"host": host, "platform": platform, "part": part.name}}


def _one_alert_of_a_pair(part: Part) -> list[dict[str, Any]]:
    """Drops `replica`, so that Alertmanager deduplicates the alerts of a pair.

    SamplesNotStored stays distinct by the label `prometheus`: the other one may store samples, and this alert would
    inhibit all its alerts.
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
    """Remote write to the store: records, alerts, `up` and the series in `raw`."""
    wanted = "|".join([".+:.+", "ALERTS", "ALERTS_FOR_STATE", "up", *(each.pattern for each in settings.raw)])
    return {
        "url": f"http://{writes_to(settings, part.shard, part.replica).write}/api/v1/receive",
        "write_relabel_configs": [
            {"source_labels": ["__name__"], "regex": wanted, "action": "keep"},
            {"source_labels": ["job"], "regex": OTHER_SHARDS, "action": "drop"},
        ],
        "queue_config": _QUEUE,
        "metadata_config": {"send": False},
    }

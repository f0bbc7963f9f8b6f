"""The files of a fleet: each shard's share of the hosts, what it writes to the store, and what changes them."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet import generate, rules, scraping, settings
from fleet.parts import parts
from fleet.settings import CHECKOUT
from tests.rules.test_rules import run

SHIPPED = settings.read()
PROMETHEUS = yaml.safe_load(rules.PROMETHEUS_YML.read_text())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the shipped fleet."""
    folder = tmp_path_factory.mktemp("fleet")
    generate.generate(SHIPPED, folder)
    return folder


def config(fleet: Path, name: str) -> Any:
    return yaml.safe_load((fleet / "prometheus" / f"{name}.yml").read_text())


def test_each_prometheus_has_a_file_and_says_which_it_is(fleet: Path) -> None:
    said = {
        file.stem: config(fleet, file.stem)["global"]["external_labels"] for file in (fleet / "prometheus").iterdir()
    }
    assert said == {f"prometheus-{s}-{r}": {"shard": s, "replica": r} for s in "01" for r in "ab"}


@pytest.mark.system  # Debian's promtool doesn't know all that these have
def test_promtool_takes_each_file_of_a_prometheus(tmp_path: Path) -> None:
    for interval in ("1s", "5s", "15s", "20s"):
        generate.generate(dataclasses.replace(SHIPPED, scrape_interval=interval), tmp_path)
        files = [*tmp_path.glob("prometheus/*.yml"), *tmp_path.glob("starting/*.yml")]
        assert len(files) == 8
        run("promtool3", "check", "config", *files)


def test_a_pair_s_alerts_are_one_but_for_what_one_of_them_does_not_store(fleet: Path) -> None:
    relabelling = config(fleet, "prometheus-1-b")["alerting"]["alert_relabel_configs"]
    assert relabelling == [
        {
            "source_labels": ["alertname"],
            "regex": "SamplesNotStored",
            "target_label": "prometheus",
            "replacement": "prometheus-1-b",
        },
        {"regex": "replica", "action": "labeldrop"},
    ]


def test_every_job_is_the_shipped_one_with_a_share_of_its_hosts(fleet: Path) -> None:
    jobs = {job["job_name"]: job for job in config(fleet, "prometheus-1-a")["scrape_configs"]}
    shipped = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
    assert set(jobs) == {*shipped, "thanos", scraping.OTHER_SHARDS}
    for name, job in jobs.items():
        if name == scraping.OTHER_SHARDS:
            continue
        *before, hashed, kept = job["relabel_configs"]
        assert before == shipped.get(name, {}).get("relabel_configs", [])
        assert (hashed["action"], hashed["source_labels"], hashed["modulus"]) == ("hashmod", ["host"], 840)
        assert (kept["action"], kept["source_labels"]) == ("keep", [hashed["target_label"]])
        assert kept["regex"].split("|") == [str(bucket) for bucket in range(420, 840)]
        own = {"relabel_configs", "file_sd_configs", "static_configs", "metric_relabel_configs"}
        if name != "thanos":
            assert {key: value for key, value in job.items() if key not in own} == {
                key: value for key, value in shipped[name].items() if key not in own
            }
            assert job.get("metric_relabel_configs") == shipped[name].get("metric_relabel_configs")


def test_the_hosts_to_watch_are_those_of_the_checkout(fleet: Path) -> None:
    jobs = config(fleet, "prometheus-0-b")["scrape_configs"]
    files = [file for job in jobs for found in job.get("file_sd_configs", []) for file in found["files"]]
    assert {(fleet / "running" / file).resolve().parent for file in files} == {
        CHECKOUT / "local/targets",
        CHECKOUT / "prometheus/targets",
        CHECKOUT / "prometheus/targets/local",
    }


def test_every_part_is_a_target_of_its_machine(fleet: Path) -> None:
    jobs = config(fleet, "prometheus-0-a")["scrape_configs"]
    targets = [
        target for job in jobs if job["job_name"] != scraping.OTHER_SHARDS for target in job.get("static_configs", [])
    ]
    assert {target["labels"]["part"]: target["targets"] for target in targets} == {
        part.name: [part.address] for part in parts(SHIPPED)
    }


def test_a_shard_reads_what_it_needs_of_other_shards_from_both_of_each_pair(tmp_path: Path) -> None:
    for shards, others in ((3, "02"), (2, "0"), (1, None)):
        chosen = dataclasses.replace(SHIPPED, shards=shards)
        generate.generate(chosen, tmp_path)
        addresses = {part.name: part.address for part in parts(chosen)}
        job = config(tmp_path, f"prometheus-{min(1, shards - 1)}-a")["scrape_configs"][-1]
        assert (job["job_name"] == scraping.OTHER_SHARDS) is bool(others)
        if others:
            assert {group["labels"]["of_shard"]: group["targets"] for group in job["static_configs"]} == {
                shard: [addresses[f"prometheus-{shard}-{replica}"] for replica in "ab"] for shard in others
            }


def test_a_shard_believes_another_nothing_but_the_record_that_they_share(fleet: Path) -> None:
    job = config(fleet, "prometheus-1-a")["scrape_configs"][-1]
    kept, renamed = job["metric_relabel_configs"]
    assert (kept["source_labels"], kept["regex"], kept["action"]) == (
        ["__name__", "tier"],
        "app:requests:rate;web",
        "keep",
    )
    assert (renamed["target_label"], renamed["replacement"]) == ("__name__", rules.ELSEWHERE)
    limits = {name for name in job if name.endswith("_limit")}
    assert limits == {name for name in PROMETHEUS["scrape_configs"][0] if name.endswith("_limit")}


def test_what_is_read_of_other_shards_is_not_written_again(fleet: Path) -> None:
    _, dropped = config(fleet, "prometheus-0-a")["remote_write"][0]["write_relabel_configs"]
    assert dropped == {"source_labels": ["job"], "regex": scraping.OTHER_SHARDS, "action": "drop"}


def test_the_configuration_of_a_start_is_the_whole_one_but_for_what_it_writes(fleet: Path) -> None:
    whole = config(fleet, "prometheus-1-a")
    assert whole.pop("remote_write")
    assert yaml.safe_load((fleet / "starting/prometheus-1-a.yml").read_text()) == whole


def test_the_pair_of_a_shard_differs_by_its_replica_and_where_it_writes_alone(fleet: Path) -> None:
    a, b = config(fleet, "prometheus-1-a"), config(fleet, "prometheus-1-b")
    for one in (a, b):
        del one["global"]["external_labels"]["replica"], one["remote_write"][0]["url"]
        del one["alerting"]["alert_relabel_configs"][0]["replacement"]
    assert a == b


def queries(part: Any) -> Iterator[str]:
    """Every query in a dashboard's JSON."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("expr", "query", "definition") and isinstance(value, str):
                yield value
            else:
                yield from queries(value)
    elif isinstance(part, list):
        for each in part:
            yield from queries(each)


def test_every_series_that_a_dashboard_shows_is_written_to_the_store(fleet: Path) -> None:
    relabel = config(fleet, "prometheus-0-a")["remote_write"][0]["write_relabel_configs"][0]
    written = re.compile(relabel["regex"])
    prefixes = "app|cadvisor|container|kvm|lab|machine|node|openvz|perf|process|prometheus|resctrl|sched|scrape"
    series = re.compile(
        rf"\b(?:(?:{prefixes}|ssh|stack|vestat|xen|xentop)_[a-z_]+|up|ALERTS(?:_FOR_STATE)?)\b(?=[{{\[) ])"
    )
    for file in sorted(CHECKOUT.glob("dashboards/json/*.json")):
        for query in queries(json.loads(file.read_text())):
            named = set(series.findall(re.sub(r"(by|on|without|ignoring|group_\w+) ?\([^)]*\)", "", query)))
            assert {name for name in named if not written.fullmatch(name)} == set(), file.name
    assert written.fullmatch("host:overhead:ratio")
    assert written.fullmatch("slo:sli_error:ratio_rate5m")
    assert not written.fullmatch("node_cpu_seconds_total")


def test_files_of_rules_that_are_gone_are_removed_and_data_is_not(tmp_path: Path) -> None:
    for name in ("rules/alerts/generated/gone.yml", "docs/gone.md", "data/prometheus-0-a/wal"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    generate.generate(SHIPPED, tmp_path)
    assert not (tmp_path / "rules/alerts/generated/gone.yml").exists()
    assert not (tmp_path / "docs/gone.md").exists()
    assert (tmp_path / "data/prometheus-0-a/wal").exists()


def test_files_that_stay_the_same_are_not_touched(tmp_path: Path) -> None:
    generate.generate(SHIPPED, tmp_path)
    before = {file: file.stat().st_ino for file in tmp_path.rglob("*") if file.is_file()}
    generate.generate(dataclasses.replace(SHIPPED, shards=3), tmp_path)
    changed = {str(file.relative_to(tmp_path)) for file, inode in before.items() if file.stat().st_ino != inode}
    own = [part.name for part in parts(SHIPPED) if part.kind == "prometheus"]
    assert changed == {f"{folder}/{name}.yml" for folder in ("prometheus", "starting") for name in own}
    assert (tmp_path / "prometheus/prometheus-2-b.yml").exists()


def test_central_rules_link_to_runbooks_that_are_served(fleet: Path) -> None:
    (group,) = yaml.safe_load((fleet / "rules/central/objectives.yml").read_text())["groups"]
    (alert,) = group["rules"]
    assert alert["annotations"]["runbook_url"] == "http://127.0.0.1:19000/user/runbooks/ObjectiveWithoutRequests.md"
    assert (fleet / "docs/runbooks/ObjectiveWithoutRequests.md").exists()
    assert group["partial_response_strategy"] == "warn"


def test_each_part_has_a_unit_with_its_command_line(fleet: Path) -> None:
    units = {file.stem: file.read_text() for file in (fleet / "systemd").glob("*.service")}
    assert set(units) == {part.name for part in parts(SHIPPED)}
    for part in parts(SHIPPED):
        (command,) = re.findall(r"(?m)^ExecStart=(/.+)$", units[part.name])
        assert shlex.split(command) == [*part.starter, f"/usr/local/bin/{part.program}", *part.arguments]

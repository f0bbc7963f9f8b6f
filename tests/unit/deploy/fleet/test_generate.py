"""The files of a fleet: each shard's share of the hosts, the records that it writes to the store, and changes."""

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import merge
from deploy.fleet import generate, rules, scraping, settings
from deploy.fleet.parts import parts, prometheus
from deploy.places import CHECKOUT
from tests.rules.test_rules import run

SHIPPED = settings.read()
PROMETHEUS = merge.prometheus()
MADE_ANEW = {"relabel_configs", "file_sd_configs", "static_configs"}  # replaced in shipped jobs


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    generate.generate(SHIPPED, folder)
    return folder


def config(fleet: Path, name: str) -> Any:
    return yaml.safe_load((fleet / "prometheus" / f"{name}.yml").read_text())


@pytest.mark.system  # Debian's promtool doesn't know all keys in these
def test_promtool_takes_each_file_of_a_prometheus(tmp_path: Path) -> None:
    for interval in ("1s", "5s", "15s", "20s"):
        generate.generate(SHIPPED.model_copy(update={"scrape_interval": interval}), tmp_path)
        files = [*tmp_path.glob("prometheus/*.yml"), *tmp_path.glob("starting/*.yml")]
        assert len(files) == 8
        run("promtool3", "check", "config", *files)


def test_the_two_of_a_pair_differ_by_replica_and_receiver_and_send_each_alert_once(fleet: Path) -> None:
    a, b = config(fleet, "prometheus-1-a"), config(fleet, "prometheus-1-b")
    # Except for samples that one of them doesn't store.
    apart = {"source_labels": ["alertname"], "regex": "SamplesNotStored", "target_label": "prometheus"}
    for name, one in {"prometheus-1-a": a, "prometheus-1-b": b}.items():
        relabelling = one["alerting"].pop("alert_relabel_configs")
        assert relabelling == [{**apart, "replacement": name}, {"regex": "replica", "action": "labeldrop"}]
        del one["global"]["external_labels"]["replica"], one["remote_write"][0]["url"]
    assert a == b


def test_every_job_is_the_shipped_one_with_a_share_of_its_hosts(fleet: Path) -> None:
    jobs = {job["job_name"]: job for job in config(fleet, "prometheus-1-a")["scrape_configs"]}
    shipped = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
    assert set(jobs) == {*shipped, "thanos", scraping.OTHER_SHARDS}
    share = {"regex": "|".join(map(str, range(420, 840))), "action": "keep"}
    hashed = {"source_labels": ["host"], "modulus": 840, "action": "hashmod"}
    for name in jobs.keys() - {scraping.OTHER_SHARDS}:
        *before, first, last = jobs[name]["relabel_configs"]
        assert before == shipped.get(name, {}).get("relabel_configs", [])
        assert first == {**hashed, "target_label": first["target_label"]}
        assert last == {**share, "source_labels": [first["target_label"]]}
    for name, job in shipped.items():
        assert {key: jobs[name][key] for key in jobs[name].keys() - MADE_ANEW} == {
            key: job[key] for key in job.keys() - MADE_ANEW
        }


def test_the_hosts_to_watch_are_those_of_the_checkout_and_every_part_is_one_of_its_machine(fleet: Path) -> None:
    jobs = [job for job in config(fleet, "prometheus-0-b")["scrape_configs"] if job["job_name"] != "virtscope_shards"]
    of_jobs = [
        [file for found in job["file_sd_configs"] for file in found["files"]]
        for job in jobs
        if "file_sd_configs" in job
    ]
    assert all(of_jobs)
    files = itertools.chain(*of_jobs)
    targets = CHECKOUT / "prometheus/targets"
    own = CHECKOUT / "local/targets"
    assert {(fleet / "running" / file).resolve().parent for file in files} == {targets, targets / "local", own}
    static = [target for job in jobs for target in job.get("static_configs", [])]
    addresses = {target["labels"]["part"]: target["targets"] for target in static}
    assert addresses == {part.name: [part.address] for part in parts(SHIPPED)}


def test_a_shard_reads_what_it_needs_of_other_shards_from_both_of_each_pair(tmp_path: Path) -> None:
    for shards, others in ((3, "02"), (2, "0"), (1, None)):
        chosen = SHIPPED.model_copy(update={"shards": shards})
        generate.generate(chosen, tmp_path)
        addresses = {part.name: part.address for part in parts(chosen)}
        job = config(tmp_path, f"prometheus-{min(1, shards - 1)}-a")["scrape_configs"][-1]
        assert (job["job_name"] == scraping.OTHER_SHARDS) is bool(others)
        if others:
            assert {group["labels"]["of_shard"]: group["targets"] for group in job["static_configs"]} == {
                shard: [addresses[f"prometheus-{shard}-{replica}"] for replica in "ab"] for shard in others
            }


def test_a_shard_believes_another_nothing_but_the_record_that_they_share_and_writes_it_nowhere(fleet: Path) -> None:
    of_shard = config(fleet, "prometheus-1-a")
    job = of_shard["scrape_configs"][-1]
    assert job["metric_relabel_configs"] == [
        {"source_labels": ["__name__", "tier"], "regex": "app:requests:rate;web", "action": "keep"},
        {"target_label": "__name__", "replacement": rules.ELSEWHERE},
    ]
    limits = {name for name in PROMETHEUS["scrape_configs"][0] if name.endswith("_limit")}
    assert {name for name in job if name.endswith("_limit")} == limits != set()
    _, dropped = of_shard["remote_write"][0]["write_relabel_configs"]
    assert dropped == {"source_labels": ["job"], "regex": scraping.OTHER_SHARDS, "action": "drop"}


def test_the_configuration_of_a_start_is_the_whole_one_but_for_what_it_writes(fleet: Path) -> None:
    whole = config(fleet, "prometheus-1-a")
    assert whole.pop("remote_write")
    assert yaml.safe_load((fleet / "starting/prometheus-1-a.yml").read_text()) == whole


def queries(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from (str(part[key]) for key in ("expr", "query", "definition") if isinstance(part.get(key), str))
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from queries(each)


def test_every_series_that_a_dashboard_shows_is_written_to_the_store(fleet: Path) -> None:
    relabel = config(fleet, "prometheus-0-a")["remote_write"][0]["write_relabel_configs"][0]
    written = re.compile(relabel["regex"])
    prefixes = (
        "app|cadvisor|container|kvm|lab|machine|node|openvz|perf|process|prometheus|resctrl|sched|blk|irq|memory|scrape"
    )
    series = re.compile(
        rf"\b(?:(?:{prefixes}|ssh|stack|vestat|xen|xentop)_[a-z_]+|up|ALERTS(?:_FOR_STATE)?)\b(?=[{{\[) ])"
    )
    for file in sorted(CHECKOUT.glob("dashboards/json/*.json")):
        for query in queries(json.loads(file.read_text())):
            named = set(series.findall(re.sub(r"(by|on|without|ignoring|group_\w+) ?\([^)]*\)", "", query)))
            assert {name for name in named if not written.fullmatch(name)} == set(), file.name
    taken = {name: bool(written.fullmatch(name)) for name in ("host:overhead:ratio", "node_cpu_seconds_total")}
    assert taken == {"host:overhead:ratio": True, "node_cpu_seconds_total": False}


def test_files_that_are_gone_are_removed_and_data_and_what_stays_the_same_are_not_touched(tmp_path: Path) -> None:
    gone, data = ("rules/alerts/generated/gone.yml", "docs/gone.md"), "data/prometheus-0-a/wal"
    for name in (*gone, data):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    generate.generate(SHIPPED, tmp_path)
    assert [(tmp_path / name).exists() for name in (*gone, data)] == [False, False, True]

    before = {file: file.stat().st_ino for file in tmp_path.rglob("*") if file.is_file()}
    generate.generate(SHIPPED.model_copy(update={"shards": 3}), tmp_path)
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
    commands = {name: shlex.split(*re.findall(r"(?m)^ExecStart=(/.+)$", unit)) for name, unit in units.items()}
    assert commands == {
        part.name: [*part.starter, f"/usr/local/bin/{part.program}", *part.arguments] for part in parts(SHIPPED)
    }


def test_a_scrape_times_out_before_the_next_one_begins(tmp_path: Path) -> None:
    """Prometheus refuses a configuration whose timeout exceeds the interval."""
    for interval, timeout in [("1s", "1s"), ("5s", "3s"), ("15s", "10s"), ("20s", "13s")]:
        chosen = SHIPPED.model_copy(update={"scrape_interval": interval})
        found = scraping.configuration(chosen, prometheus(chosen, 0, "a"), tmp_path)["global"]
        assert (found["scrape_interval"], found["scrape_timeout"]) == (interval, timeout)


def test_passwords_are_found_from_the_fleet_s_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = merge.prometheus()
    shipped["scrape_configs"][0]["basic_auth"] = {"username": "prometheus", "password_file": "secrets/password"}
    monkeypatch.setattr(merge, "prometheus", lambda: shipped)
    found = scraping.configuration(SHIPPED, prometheus(SHIPPED, 0, "a"), CHECKOUT / ".stack/fleet")
    password = found["scrape_configs"][0]["basic_auth"]["password_file"]
    assert password == "../../../prometheus/secrets/password"

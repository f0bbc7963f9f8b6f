"""Prometheus for the duration of a test."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import yaml

from tests.support.endpoints import Group
from tests.support.program import Program
from tests.support.promql import PrometheusClient

ROOT = Path(__file__).resolve().parents[2]


class Prometheus(PrometheusClient):
    """The project's Prometheus: its configuration, rules and alerts.

    targets: for each job of prometheus.yml, the entries of its targets file; the checkout's are not read.
    alertmanager: the address (`host:port`) of Alertmanager.
    interval: of scrapes and evaluations, instead of the configured 5 s.
    scrape_interval: of scrapes, if different.
    group_interval: of rule groups with their own interval of a minute or more.
    alert_for: replaces every alert's `for:`, which is too long for tests; ten seconds for SamplesNotStored, because
        the first sample is stored some seconds after the start.
    lookback: Prometheus's lookback delta, instead of five minutes.
    program: "prometheus3" is the release in compose.yaml.
    rules: files of rules and alerts instead of the project's.
    jobs: names of jobs that prometheus.yml doesn't have, which keep whatever their targets expose.
    flags: additional flags.
    store: the URL of a remote write receiver of all samples, with these external labels.
    """

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, Sequence[Group]],
        *,
        alertmanager: str | None = None,
        interval: str = "1s",
        scrape_interval: str | None = None,
        group_interval: str | None = None,
        alert_for: str | None = None,
        lookback: str = "5m",
        program: Literal["prometheus", "prometheus3"] = "prometheus",
        rules: Sequence[Path] | None = None,
        jobs: Sequence[str] = (),
        flags: Sequence[str] = (),
        store: tuple[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.folder = folder / "prometheus-under-test"
        self._configuration = self.folder / "prometheus" / "prometheus.yml"
        for part in ("prometheus", "alerts"):
            shutil.copytree(ROOT / part, self.folder / part)
        for file in (self.folder / "prometheus" / "targets").rglob("*.yml"):
            file.write_text("[]\n")
        self._lookback = lookback
        self._flags = flags
        self._set_intervals(scrape_interval or interval, interval)
        with self._edited() as configuration:
            if rules is not None:
                configuration["rule_files"] = [str(file) for file in rules]
            configuration["scrape_configs"] += [
                {"job_name": job, "file_sd_configs": [{"files": [f"targets/local/{job}.yml"]}]} for job in jobs
            ]
        if store is not None:
            self._send(*store)
        if group_interval is not None or alert_for is not None:
            self._change_rules(group_interval, alert_for)
        for job, groups in targets.items():
            self.watch(job, groups)
        if alertmanager is not None:
            self.watch("alertmanager", [{"targets": [alertmanager]}])
        self._program = Program(program, self.folder)
        super().__init__(self._program.url)

    def __enter__(self) -> Self:
        concurrent = ("--enable-feature=concurrent-rule-eval",) if self._program.name == "prometheus3" else ()
        self._program.start(
            *concurrent,  # as in compose.yaml
            *self._flags,
            f"--config.file={self._configuration}",
            f"--web.listen-address=127.0.0.1:{self._program.port}",
            f"--web.external-url={self.url}",
            f"--web.user-assets={ROOT / 'docs'}",
            "--log.level=warn",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=30d",
            f"--query.lookback-delta={self._lookback}",
            # Not a minute: alerts that fire before Alertmanager is discovered, seconds after the start, aren't sent.
            "--rules.alert.resend-delay=1s",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stop()

    def watch(self, job: str, groups: Sequence[Group]) -> None:
        """Replace the targets of a job of prometheus.yml."""
        jobs = [config["job_name"] for config in yaml.safe_load(self._configuration.read_text())["scrape_configs"]]
        if job not in jobs:
            raise ValueError(f"prometheus.yml has no job {job!r}, only {', '.join(jobs)}")
        file = self.folder / "prometheus" / "targets" / "local" / f"{job}.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(list(groups)))

    def wait_for(self, expr: str, seconds: float, explain: Callable[[], str] = str) -> list[dict[str, Any]]:
        """The first non-empty result of `expr`; AssertionError with details if there is none in time."""
        return super().wait_for(expr, seconds, lambda: f"{explain()}\nThe end of its log:\n{self._program.log_tail()}")

    @contextlib.contextmanager
    def _edited(self) -> Iterator[dict[str, Any]]:
        """The contents of prometheus.yml, to be changed."""
        configuration: dict[str, Any] = yaml.safe_load(self._configuration.read_text())
        yield configuration
        self._configuration.write_text(yaml.safe_dump(configuration))

    def _set_intervals(self, scrapes: str, evaluations: str) -> None:
        with self._edited() as configuration:
            every = {"scrape_interval": scrapes, "scrape_timeout": scrapes, "evaluation_interval": evaluations}
            configuration["global"].update(every)
            for job in configuration["scrape_configs"]:
                for own in job.keys() & every.keys():
                    del job[own]

    def _send(self, url: str, labels: Mapping[str, str]) -> None:
        soon = {"batch_send_deadline": "500ms"}
        with self._edited() as configuration:
            configuration["global"]["external_labels"] = dict(labels)
            configuration["remote_write"] = [{"url": f"{url}/api/v1/write", "queue_config": soon}]

    def _change_rules(self, group_interval: str | None, alert_for: str | None) -> None:
        for file in self.folder.rglob("*.yml"):
            content = yaml.safe_load(file.read_text())
            if not (isinstance(content, dict) and "groups" in content):
                continue
            for group in content["groups"]:
                if group_interval is not None and "interval" in group:
                    group["interval"] = group_interval
                for rule in group["rules"] if alert_for is not None else []:
                    for key in rule.keys() & {"for", "keep_firing_for"}:
                        rule[key] = "10s" if rule["alert"] == "SamplesNotStored" else alert_for
            file.write_text(yaml.safe_dump(content))

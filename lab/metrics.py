"""The runner's metrics: which step is being measured, and facts about the run.

    lab_step_info{run="20261121T090512-scale",scenario="scale",step="4x700-1",instances="4",clients="700",
                  placement="one node",repetition="1"} 1

The series of a step exist only while it is measured, not during its warm-up: their samples define the time over which
its values are computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from lab.calibration import Scale
from lab.scenario import Scenario, Step

STEP_LABELS = ("run", "scenario", "step", "instances", "clients", "placement", "repetition")


class RunnerMetrics:
    """What a runner of any study exposes, on loopback: facts about the run."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._server: WSGIServer
        self._server, self._thread = start_http_server(0, "127.0.0.1", self.registry)
        self.port = int(self._server.server_port)

    def describe_run(self, run: str, study: str, scenario: str, planned_steps: int, facts: Mapping[str, str]) -> None:
        """Expose facts about the run until the end."""
        labels = {"run": run, "study": study, "scenario": scenario, **facts}
        info = Gauge("lab_run_info", "What runs, on what and with what.", list(labels), registry=self.registry)
        info.labels(**labels).set(1)
        steps = Gauge("lab_run_planned_steps", "Steps of the whole run.", ["run"], registry=self.registry)
        steps.labels(run).set(planned_steps)

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Metrics(RunnerMetrics):
    """Those of a consolidation too: its steps, and its scale."""

    def __init__(self) -> None:
        super().__init__()
        self._of_step = {
            "info": Gauge("lab_step_info", "The step that is being measured.", STEP_LABELS, registry=self.registry),
            "clients": Gauge(
                "lab_step_clients", "Clients of each instance that really run.", STEP_LABELS, registry=self.registry
            ),
            "seconds": Gauge(
                "lab_step_planned_seconds", "How long the step is to be measured.", STEP_LABELS, registry=self.registry
            ),
            "cpus": Gauge(
                "lab_step_cpus", "CPUs that all tiers together may use.", STEP_LABELS, registry=self.registry
            ),
        }

    def describe_scale(self, run: str, scale: Scale) -> None:
        """Expose the result of the calibration."""
        for name, help_text, value in (
            ("lab_study_clients", "The study's clients that one client stands for.", scale.study_clients),
            ("lab_request_cpu_seconds", "CPU time of a request as calibration measured it.", scale.request_cpu_seconds),
        ):
            Gauge(name, help_text, ["run"], registry=self.registry).labels(run).set(value)

    def begin_step(self, run: str, scenario: Scenario, step: Step, clients: int, cpus: int) -> None:
        """Show a step as being measured from now on."""
        labels = (run, scenario.name, step.name, step.instances, step.clients, step.setting, step.repetition)
        for name, value in {"info": 1, "clients": clients, "seconds": scenario.duration, "cpus": cpus}.items():
            self._of_step[name].labels(*labels).set(value)

    def end_step(self) -> None:
        """Show none."""
        for gauge in self._of_step.values():
            gauge.clear()

"""The results of a run, as metrics: facts about it, values of its steps, and the current step of a consolidation.

    lab_measurement{run="20261123T090512-suites",step="base-2",environment="base",virtualization="none",emulated="no",
                    test="fork",unit="microseconds",better="lower",repetition="2",attempt="1795424712"} 131.5

A value is exposed from the end of its step to the end of the run, and a step is only finished after Prometheus has it.
A step interrupted before that is measured again: `attempt` is the Unix time of its end, and the later attempt counts.

    lab_step_unsettled_cpus{run="20261123T090512-suites",step="base-2"} 1.3

For steps that began although other programs used the machine.

    lab_step_info{run="20261121T090512-scale",scenario="scale",step="4x700-1",instances="4",clients="700",
                  placement="one node",repetition="1"} 1

Series of a step that is measured by its time exist only then, not during its warm-up: their samples define the time
range of its values.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry, Gauge, start_http_server

METRIC = "lab_measurement"
UNSETTLED = "lab_step_unsettled_cpus"


@dataclass(frozen=True)
class Measurement:
    """One value of a test, in `unit`; `better` is "lower" or "higher", `virtualization` is "none" or a platform."""

    environment: str
    virtualization: str
    emulated: bool
    test: str
    unit: str
    better: str
    repetition: int
    value: float


STEP_LABELS = ("run", "scenario", "step", "instances", "clients", "placement", "repetition")
_OF_MEASUREMENT = ("environment", "virtualization", "emulated", "test", "unit", "better", "repetition", "attempt")


class RunnerMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        what = "What a step of the lab has measured, in the label `unit`."
        self._measured = self._gauge(METRIC, what, "run", "step", *_OF_MEASUREMENT)
        what = "CPUs that others used right before the step, if the machine did not settle."
        self._unsettled = self._gauge(UNSETTLED, what, "run", "step")
        self._step = self._gauge("lab_step_info", "The step that is being measured.", *STEP_LABELS)
        self._server, self._thread = start_http_server(0, "127.0.0.1", self.registry)
        self.port = int(self._server.server_port)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)

    def describe_run(self, run: str, study: str, scenario: str, planned_steps: int, facts: Mapping[str, str]) -> None:
        labels = {"run": run, "study": study, "scenario": scenario, **facts}
        self._gauge("lab_run_info", "What runs, on what and with what.", *labels).labels(**labels).set(1)
        self._gauge("lab_run_planned_steps", "Steps of the whole run.", "run").labels(run).set(planned_steps)

    @contextlib.contextmanager
    def measuring(self, *labels: object) -> Iterator[None]:
        """Expose a step with these `STEP_LABELS` while the block lasts."""
        self._step.labels(*labels).set(1)
        try:
            yield
        finally:
            self._step.clear()

    def add(self, run: str, step: str, found: Sequence[Measurement]) -> None:
        attempt = int(time.time())
        for one in found:
            labels = {**asdict(one), "emulated": "yes" if one.emulated else "no", "attempt": attempt}
            self._measured.labels(run, step, *(labels[name] for name in _OF_MEASUREMENT)).set(one.value)

    def unsettled(self, run: str, step: str, cpus: float) -> None:
        self._unsettled.labels(run, step).set(cpus)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

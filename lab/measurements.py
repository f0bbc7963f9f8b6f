"""The results of a step: a gauge for each value.

    lab_measurement{run="20261123T090512-suites",step="base-2",environment="base",virtualization="none",emulated="no",
                    test="fork",unit="microseconds",better="lower",repetition="2",attempt="1795424712"} 131.5

A value is exposed from the end of its step to the end of the run, and a step is only finished after Prometheus has it.
A step interrupted before that is measured again: `attempt` is the Unix time of its end, and the later attempt counts.

    lab_step_unsettled_cpus{run="20261123T090512-suites",step="base-2"} 1.3

For steps that began although other programs used the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

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

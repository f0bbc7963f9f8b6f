"""How many clients on this machine correspond to the study's.

In the study, four sites with 800 clients each exceeded the one CPU that they shared, and two sites did not. So one site
should use about 0.3 CPUs. The cost of a request differs between machines by an order of magnitude, so it is measured:
one site is visited for a while, and the CPU time of its tiers is divided by its answers.
"""

from dataclasses import dataclass

from lab import LabError

STUDY_CLIENTS = 800
THEIR_CPUS = 0.3
# This many clients with this short think time give a steady load that any machine can handle.
PROBING_CLIENTS = 10
PROBING_THINK_SECONDS = 0.5
MIN_ANSWERS = 50


@dataclass(frozen=True)
class Scale:
    """Converts the study's clients to this machine's. The values are 1 and 0 without calibration."""

    study_clients: float = 1.0  # per client here
    request_cpu_seconds: float = 0.0  # as measured

    def clients(self, of_study: int) -> int:
        return max(1, round(of_study / self.study_clients))


def scale(cpu_seconds: float, answers: float, think_seconds: float) -> Scale:
    """The scale from the measurement; raises `LabError` if it has too few answers.

    A client sends one request per think time plus response time, which is about the CPU time of the request. Clients
    use `THEIR_CPUS` if together they send `THEIR_CPUS` / cost requests per second.
    """
    if answers < MIN_ANSWERS or cpu_seconds <= 0:
        raise LabError(f"calibration got only {answers:g} answers: give it more time, or read the site's logs")
    cost = cpu_seconds / answers
    return Scale(STUDY_CLIENTS / (THEIR_CPUS / cost * (think_seconds + cost)), cost)

"""The lab: reproduces the studies' experiments. The first is consolidation: auction sites side by side, and clients.

    scenario -> consolidation -> stage -> servers (of the site, in cgroups), clients, sensors
                              -> measuring -> metrics -> the stack's Prometheus -> report

The others are dynamic allocation (lab.allocation), a controller of caps (lab.controller), influence factors
(lab.factors), suites (lab.suites) and network costs (lab.network). `run` reads the scenarios of all studies, and has
their common code.

`make lab SCENARIO=...` runs `python -m lab run SCENARIO`; `python -m lab report RUN` writes a run's report again, from
Prometheus only.
"""

import contextlib
import time
from collections.abc import Callable


class LabError(Exception):
    """The lab can't do what the user asked. The message is one line: what is wrong and what to do."""


def wait_until(
    done: Callable[[], object], seconds: float, every: float = 0.05, not_yet: tuple[type[Exception], ...] = ()
) -> bool:
    """Whether a condition becomes true within this time; `not_yet` are exceptions that mean that it isn't."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(*not_yet):
            if done():
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(every)

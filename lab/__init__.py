"""The lab: experiments of the studies, by command. The first is consolidation: auction sites side by side, and clients.

    scenario -> consolidation -> stage -> servers (of the site, in cgroups), clients, sensors
                                                              -> the stack's Prometheus -> report

Others are dynamic allocation (lab.allocation), influence factors (lab.factors), suites (lab.suites) and network
costs (lab.network). `studies` reads a scenario of any, `run` has what they share.

`make lab SCENARIO=...` runs `python -m lab run SCENARIO`; `python -m lab report RUN` writes a run's report again, from
Prometheus only.
"""

import time
from collections.abc import Callable


class LabError(Exception):
    """The lab can't do what was asked. The message is one line for the user: what is wrong and what to do."""


def wait_until(done: Callable[[], object], seconds: float, every: float = 0.05) -> bool:
    """Whether something is done within this time; it is asked every so many seconds."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True

"""The lab: experiments of the studies, by command. The first is consolidation: auction sites side by side, and clients.

    scenario, calibration -> consolidation -> stage -> servers (of the site, in cgroups), clients, sensors
                                                                            -> the stack's Prometheus -> report

Others are dynamic allocation (lab.allocation), influence factors (lab.factors), suites (lab.suites) and network
costs (lab.network). `studies` reads a scenario of any, `run` has what they share.

`make lab SCENARIO=...` runs `python -m lab run SCENARIO`; `python -m lab report RUN` writes a run's report again, from
Prometheus only.
"""


class LabError(Exception):
    """The lab can't do what was asked. The message is one line for the user: what is wrong and what to do."""

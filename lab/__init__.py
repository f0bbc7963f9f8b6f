"""The consolidation lab: auction sites side by side on one machine, and clients that wait for their answers.

    scenario, calibration -> run -> stage -> servers (of the site, in cgroups), clients, sensors
                                                                            -> the stack's Prometheus -> report

`make lab SCENARIO=...` runs `python -m lab run SCENARIO`; `python -m lab report RUN` writes a run's report again, from
Prometheus only.
"""


class LabError(Exception):
    """The lab can't do what was asked. The message is one line for the user: what is wrong and what to do."""

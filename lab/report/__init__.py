"""The report of a lab run: Prometheus's records, as one HTML page and as Markdown.

    recorded (runs, measurements) -> allocation, factors, network, suites (with statistics, units)
    consolidation (queries over the time of each step)                    -> page (with charts) -> rendering

Each study's comparisons and verdict are in Python, its texts and the publication's numbers in `studies`.
A report only uses Prometheus's data, so it can be created on another machine, later, or again after a bug is fixed.
"""

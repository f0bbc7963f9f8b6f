"""The report of a lab run: its measurements in Prometheus, as one HTML page and as Markdown.

    recorded (runs, measurements) -> a study (with comparison, statistics, units, charts) -> page

Each study's comparisons and verdict are in Python, its texts and the publication's numbers in `studies`.
A report only uses Prometheus's data, so it can be created on another machine, later, or again after a bug is fixed.
"""

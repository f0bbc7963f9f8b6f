"""The report of a run of the lab: what Prometheus recorded of it, as one HTML page and as Markdown.

A number travels through these rooms, each of which knows nothing of those after it:

    prometheus -> runs, queries -> collection -> judgement, results -> loads
               -> verdict, sections -> tables, panels (drawn by charts) -> document -> rendering

`prometheus` asks and `rendering` writes; all between is pure functions of the answers. The report adds nothing that
Prometheus doesn't know, so it can be made on another machine, later, or again after a mistake in it is fixed.
"""

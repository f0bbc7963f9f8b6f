"""The report of a run of the lab: what Prometheus recorded, as one HTML page and as Markdown.

A number passes through these modules, none of which depends on those after it:

    prometheus -> runs, queries -> collection -> judgement, results -> loads
               -> verdict, sections -> tables, panels (drawn by charts) -> document -> rendering

Dynamic allocation has its own modules between the first and the last, in `allocation`.

`prometheus` queries and `rendering` writes; everything between is pure functions of the results. The report only uses
Prometheus's data, so it can be created on another machine, later, or again after a bug is fixed.
"""

"""The report of a run of dynamic allocation, from what Prometheus recorded.

    prometheus -> recording -> steps -> groups (with lab.report.statistics) -> verdict, tables, panels -> document

As with consolidation, everything between the queries and the rendering is pure functions of their results.
"""

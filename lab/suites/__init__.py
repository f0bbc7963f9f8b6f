"""Benchmark suites: a platform's effect on basic operations, as measured by Fisher in 2012 on a host, OpenVZ and Xen.

    scenario -> running (programs, in an environment) -> their output -> a parser for each suite -> rows
                                                                       -> the stack's Prometheus -> lab.report.suites

The parsers are pure, and read the suites' own output: `lmbench`, `lmbench_summary`, `unixbench`, `nbench`, `stress_ng`.
`outputs` distinguishes them.
"""

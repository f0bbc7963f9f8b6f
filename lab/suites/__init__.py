"""Benchmark suites: what a platform does to basic operations, as Fisher measured in 2012 on a host, OpenVZ and Xen.

    scenario -> running (programs, in an environment) -> their output -> a parser for each suite -> rows
                                                                       -> the stack's Prometheus -> lab.report.suites

The parsers are pure, and read what the suites themselves print: `lmbench`, `lmbench_summary`, `unixbench`, `nbench`,
`stress_ng`. `outputs` knows one from another.
"""

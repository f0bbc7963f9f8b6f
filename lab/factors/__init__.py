"""Influence factors: what virtualisation, numbers, overcommitment, placement, weights and caps cost a virtual server.

    scenario (cases) -> experiment -> servers (cgroups side by side, a benchmark in each), workloads
                                   -> lab.metrics -> the stack's Prometheus -> lab.report.factors

A factor is a few cases that differ only in it. Virtual servers start together, each with one constantly busy thread,
since the question is how much each gets at the same time.
"""

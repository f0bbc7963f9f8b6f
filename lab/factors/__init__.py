"""Influence factors: what virtualisation, numbers, overcommitment, placement, weights and caps cost a virtual server.

    scenario (cases) -> experiment -> servers (cgroups side by side, a benchmark in each), workloads, outputs
                                   -> lab.measurements -> the stack's Prometheus -> lab.report.factors

A factor is a few cases that differ in it alone. Virtual servers start together, each with one thread that is busy all
the time, since what many get at once is the question.
"""

"""perf-exporter: hardware and software events of a host and its cgroups, and profiles by symbol.

kernel makes the system call, counters keeps the groups open, scaling turns readings into totals; resctrl and
perf_record are separate sources.
"""

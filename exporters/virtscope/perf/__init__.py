"""perf-exporter: what the processor and the kernel count for a host and its cgroups, and profiles by symbol.

kernel makes the system call, counters keeps the groups open, scaling makes totals of readings; resctrl and perf_record
are sources of their own.
"""

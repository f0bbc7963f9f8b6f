"""perf-exporter: what the processor and the kernel count for a host and its cgroups, and profiles by symbol.

Each module knows only those above it:

kernel           perf_event_open(2), the one place that makes the call
machine          CPUs, PMUs and hypervisor, by procfs and sysfs
cgroups          the cgroups that are to be counted, as they come and go
scaling          a group's readings to totals that never fall, pure
events           an event's name to what the kernel is to count, pure but for sysfs
groups           which events are counted together, from a YAML file; groups.yml is the default
support          why an event can't be counted, and what to do
zeros            counts that stand still while instructions run, pure
counters         the groups that are open on each CPU, for the host and for each cgroup
metrics          the table of the counters' metrics

resctrl          what the processor measures of its caches, and its metrics

profile          where samples fell, which places have series, and their metrics
perf_report      what `perf report` prints, parsed
perf_record      `perf record` in the background

exporter         flags and sources; the program
"""

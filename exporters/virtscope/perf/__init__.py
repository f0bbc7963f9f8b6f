"""perf-exporter: what the processor and the kernel count for a host and its cgroups, and profiles by symbol.

source           where the figures come from: perf_event_open, cgroup folders, resctrl, `perf record`; and what procfs
                 and sysfs tell of the machine
events           an event's name to what the kernel is to count, pure but for sysfs
groups           which events are counted together, from a YAML file; groups.yml is the default
scaling          a group's readings to totals that never fall, pure
counters         the groups that are open on each CPU, for the host and for each cgroup
support          an error of the kernel to a reason and what to do, pure
metrics          values to metric families; resctrl_metrics those of resctrl
profile          where samples fell: parsers of what perf and opreport print, which places have series, metric families
importing        `perf-exporter import`, old reports to OpenMetrics
wiring           which sources there are
cli              the program
"""

"""sched-exporter: who waited for a CPU while who ran on it, by container, KVM guest and systemd unit.

waits.bpf.c is the program that counts it in the kernel, waits.bpf.o the same compiled (`make bpf`). Each module knows
only those above it:

privileges    capabilities: what loading takes, and how they are given up
reasons       why a machine can't run the program, and what to do
names         whose each cgroup is
program       the program in the kernel, and what it has counted
pairs         few counters that only grow
metrics       the table of the metrics

exporter      flags and the source; the program
"""

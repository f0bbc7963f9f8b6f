"""sched-exporter: who waited for a CPU while who ran on it, by container, KVM guest and systemd unit.

waits.bpf.c is the program that counts it in the kernel, waits.bpf.o the same compiled (`make bpf`).
"""

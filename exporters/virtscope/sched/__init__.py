"""sched-exporter: who waits for a CPU, a disk or memory, and for whom: containers, KVM guests, systemd units.

cpu.bpf.c, disk.bpf.c and memory.bpf.c are the BPF programs that count it; `make bpf` compiles them.
"""

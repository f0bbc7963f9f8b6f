"""sched-exporter: who delays whom at CPUs and disks, in memory, by interrupts: containers, KVM guests, systemd units.

cpu.bpf.c, disk.bpf.c, memory.bpf.c and irq.bpf.c are the BPF programs that count it; `make bpf` compiles them.
"""

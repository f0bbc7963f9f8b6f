"""sched-exporter: who waits for a CPU or a disk, and who has it meanwhile: containers, KVM guests and systemd units.

cpu.bpf.c and disk.bpf.c are the BPF programs that count it; `make bpf` compiles them.
"""

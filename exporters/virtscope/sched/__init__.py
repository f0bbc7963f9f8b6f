"""sched-exporter: run-queue wait by victim and by what ran meanwhile: containers, KVM guests and systemd units.

waits.bpf.c is the BPF program that counts it; `make bpf` compiles it to waits.bpf.o.
"""

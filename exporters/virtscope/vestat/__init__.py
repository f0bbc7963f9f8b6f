"""vestat-exporter: what an OpenVZ host's kernel knows of its containers, in Prometheus's terms.

source   where the figures come from: files below /proc
vestat   /proc/vz/vestat, CPU time and scheduling latency, in the kernel's own units
units    what these units are: jiffies of which length, cycles of which clock, or nanoseconds
veinfo   /proc/vz/veinfo, processes and addresses
metrics  values to metric families
cli      the program
"""

"""vestat-exporter: what an OpenVZ host's kernel knows of its containers, in Prometheus's terms.

source               where the figures come from: files below /proc, and vzlist
vestat               /proc/vz/vestat, CPU time and scheduling latency, in the kernel's own units
units                what these units are: jiffies of which length, cycles of which clock, or nanoseconds
veinfo               /proc/vz/veinfo, processes and addresses
latency              /proc/vz/latency, waits of the whole host, and its metric families
metrics              the values of /proc/vz to metric families
beancounters         /proc/bc/resources, /proc/user_beancounters or /proc/bc/*/resources
beancounter_metrics  their values to metric families
ioacct               /proc/bc/*/ioacct, and its metric families
quota                /proc/vz/vzquota, disk quotas, and its metric families
recorded             how these files lie in a recording
vzlist               what vzlist prints: containers' names, and their metric family
wiring               which sources there are, live, for a recording and of one
cli                  the program
"""

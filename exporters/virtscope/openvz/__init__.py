"""vestat-exporter: what an OpenVZ host's kernel knows of its containers, in Prometheus's terms.

source    where the figures come from: files below /proc, and vzlist
model     text to plain typed values, pure functions, a module for each file:
          vestat        /proc/vz/vestat, CPU time and scheduling latency, in the kernel's own units
          units         what these units are: jiffies of which length, cycles of which clock, or nanoseconds
          veinfo        /proc/vz/veinfo, processes and addresses
          beancounters  /proc/bc/resources, /proc/user_beancounters or /proc/bc/*/resources
          ioacct, quota, latency, vzlist
                        /proc/bc/*/ioacct, /proc/vz/vzquota, /proc/vz/latency and what vzlist prints, each with its
                        metric families
metrics   values to metric families: those of vestat, units and veinfo; beancounter_metrics those of beancounters
recorded  how these files lie in a recording
wiring    which sources there are, live, for a recording and of one
cli       the program
"""

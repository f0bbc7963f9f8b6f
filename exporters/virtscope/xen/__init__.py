"""xentop-exporter: what Xen's Dom0 knows of its domains, in Prometheus's terms.

source    where the figures come from: libxenstat, a child xentop, libxenctrl, /proc/net/dev, xl or xm, XenStore
text      what xentop prints to plain tuples, pure functions; netdev likewise what /proc/net/dev holds
model     raw figures to plain typed values, pure functions
identity  which domains are the same from one iteration of xentop's text to the next
clocks    CPU time that does not go back, though the physical CPUs' clocks differ
metrics   values to metric families
toolstack what xl or xm tells beside, from parsers to metrics
view      the way from what a source gave through all of these
recorded  how the sources lie in a recording
wiring    which sources there are, live, for a recording and of one
cli       the program
"""

"""xentop-exporter: what Xen's Dom0 knows of its domains, in Prometheus's terms.

source   where the figures come from: libxenstat
model    raw figures to plain typed values, pure functions
metrics  values to metric families
cli      the program
"""

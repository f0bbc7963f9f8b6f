"""Dynamic allocation: what it costs to move CPU between containers by their caps, and how soon that takes effect.

    scenario -> switching -> containers (a load in each, in a cgroup), results
                          -> lab.measurements -> the stack's Prometheus -> lab.report.allocation

Containers share one CPU by caps that always add up to it. Every T seconds the smaller and the larger caps are swapped.
Each step is compared with a static one, and with a control that writes unchanged caps.
"""

"""Costs of bytes and requests on their path: over loopback, a veth pair and a bridge of the lab's own, and to guests.

scenario (configurations) -> experiment -> paths (namespaces, and both ends in one script)
                                        -> outputs
                                        -> lab.metrics -> the stack's Prometheus -> lab.report.network
"""

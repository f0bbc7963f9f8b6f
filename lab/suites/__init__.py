"""Benchmark suites: a platform's effect on basic operations, as Fisher measured it on a host, OpenVZ and Xen."""

"""Benchmark suites: a platform's effect on basic operations, as Fisher measured it in 2012 on a host, OpenVZ and Xen."""

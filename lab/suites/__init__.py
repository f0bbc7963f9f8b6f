"""Benchmark suites: a platform's effect on basic operations, as measured by Fisher in 2012 on a host, OpenVZ and Xen."""

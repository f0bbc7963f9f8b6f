"""vestat-exporter: an OpenVZ host's containers, from procfs and vzlist.

Each source has one file with all of its code: reading, parsing, values and metrics.
"""

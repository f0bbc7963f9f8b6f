"""vestat-exporter: an OpenVZ host's containers, by its kernel's files and vzlist.

Each source is a file that has all of it: what it reads, how that is parsed, its values and its metrics.
"""

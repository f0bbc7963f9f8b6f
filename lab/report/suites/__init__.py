"""The report of benchmark suites, from what Prometheus recorded, or from results that were made elsewhere.

prometheus -> lab.report.measurements --+-> comparison -> tables, verdict -> document
files      -> imported  ----------------+
fisher2012.csv -> published ------------+
"""

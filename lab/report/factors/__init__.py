"""The report of a run of influence factors, from what Prometheus recorded."""

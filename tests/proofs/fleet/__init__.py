"""The proof of a fleet: the same hosts watched by it and by one large Prometheus, while guests and parts come and go.

story.py says what happens on simulated hosts, hosts.py serves their pages, running.py runs the fleet and the large
Prometheus, faults.py breaks parts, comparison.py compares the answers, and __main__.py puts them together.
"""

"""The proof of a fleet: a fleet and one large Prometheus watch the same hosts while guests and parts come and go.

story.py plans the events on simulated hosts, hosts.py serves their pages, running.py runs the fleet and the large
Prometheus, faults.py breaks parts, comparison.py compares the answers, and __main__.py runs everything.
"""

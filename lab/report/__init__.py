"""The report of a run of the lab: what Prometheus recorded of it, as one HTML page and as Markdown.

A number travels through these rooms, each of which knows nothing of those after it:

    prometheus -> runs, queries -> results -> judgement -> sections -> charts, tables -> rendering

`prometheus` asks; everything after it is pure functions of the answers. The report adds nothing that Prometheus doesn't
know, so it can be made on another machine, months later, or again after a mistake in it is mended.
"""

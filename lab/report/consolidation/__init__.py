"""The report of a consolidation, whose values are queries over the time of each step.

prometheus -> results (with queries) -> verdict, page
"""

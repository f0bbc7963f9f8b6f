"""The report of a consolidation, whose values are queries over the time of each step.

prometheus -> steps, queries -> results -> verdict, page
"""

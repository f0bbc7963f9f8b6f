"""The report of a consolidation; its values are queries over each step's time.

prometheus -> results (with queries) -> verdict, page
"""

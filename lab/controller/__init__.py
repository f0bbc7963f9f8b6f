"""A controller of caps: sites whose loads change, with caps from predicted responses, with equal ones, and without.

scenario (loads) -> experiment -> lab.stage (sites, clients), caps (what to set, by advise's model)
                               -> lab.metrics -> the stack's Prometheus -> lab.report.controller
"""

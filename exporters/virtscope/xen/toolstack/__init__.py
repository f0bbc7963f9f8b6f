"""What Xen's toolstack, xl or xm, tells beside libxenstat and xentop.

columns, listing, details, schedulers, vcpus, info, psr: what its commands print to plain tuples, pure functions
model    the answers of one round put together
changes  what was changed from round to round
successors  under which names there may be another guest by now
join     which of its domains is which of a scrape's
metrics  values to metric families
keeper   asks in the background and adds to the scrapes
"""

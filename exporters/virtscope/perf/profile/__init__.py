"""Profiles: which image and which symbol the samples of an event fell on, live from perf or from a report in a file."""

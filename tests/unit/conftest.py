"""Hypothesis's settings for all unit tests."""

from hypothesis import HealthCheck, settings

# Timings say nothing on a busy machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

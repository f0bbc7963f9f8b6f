"""Hypothesis's settings for all unit tests, and stand-ins that are the same in every run."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Timings say nothing on a busy machine, and every machine is to decide alike.
settings.register_profile(
    "alike", deadline=None, derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("alike")


@pytest.fixture(scope="module")
def same_stand_ins() -> Iterator[None]:
    """At random, once in a thousand runs one holds by chance what must not be found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("virtscope.toolkit.record.random.SystemRandom", lambda: random.Random(1))
        yield

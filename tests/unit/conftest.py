"""Hypothesis's settings for all unit tests, and pseudonyms that are the same in every run."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine; no deadlines, which fail on a busy one.
settings.register_profile(
    "deterministic",
    derandomize=True,
    max_examples=100,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")


@pytest.fixture(scope="module")
def same_stand_ins() -> Iterator[None]:
    """Random pseudonyms would contain a forbidden text by chance, once in a thousand runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("virtscope.toolkit.record.random.SystemRandom", lambda: random.Random(1))
        yield

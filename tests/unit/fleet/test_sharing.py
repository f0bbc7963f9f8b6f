"""Hosts' buckets among shards: all, each once, evenly, and few of them move when there is one more shard."""

from __future__ import annotations

import pytest

from fleet.sharing import BUCKETS, shares


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 11, 100])
def test_each_bucket_is_one_shards(shards: int) -> None:
    assert sorted(bucket for share in shares(shards) for bucket in share) == list(range(BUCKETS))
    sizes = {len(share) for share in shares(shards)}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("shards", [1, 2, 3, 10])
def test_a_shard_more_takes_its_part_and_moves_nothing_else(shards: int) -> None:
    before, after = shares(shards), shares(shards + 1)
    for was, stays in zip(before, after, strict=False):
        assert set(stays) <= set(was)
    assert len(after[-1]) == BUCKETS // (shards + 1)

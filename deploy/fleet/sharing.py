"""Which hosts belong to which shard: a hash of `host` puts each into one of 840 buckets, and each shard has its own.

A hash modulo the number of shards would send nearly all hosts elsewhere when there is one more. This way a new shard
takes an even part of the others' buckets, and what it doesn't take stays where it is, with its history and the state of
its alerts.
"""

from __future__ import annotations

BUCKETS = 840  # can be divided evenly by most small numbers


def shares(shards: int) -> list[list[int]]:
    """The buckets of each shard, whose numbers differ by one at most."""
    found = [list(range(BUCKETS))]
    while len(found) < shards:
        new: list[int] = []
        for _ in range(BUCKETS // (len(found) + 1)):
            largest = max(found, key=len)
            new.append(largest.pop())
        found.append(sorted(new))
    return found

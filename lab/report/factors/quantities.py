"""The study's arithmetic (Huber et al. 2010): what is lost, what pinning gains, and what a virtual server may expect.

Performance is in any unit of which more is better. Shares and overheads are fractions.
"""

from __future__ import annotations


def relative_delta(native: float, virtualised: float) -> float:
    """What virtualisation costs, as a share of the performance without it.

    >>> round(relative_delta(639.3, 634.0), 4)
    0.0083
    """
    return (native - virtualised) / native


def gain(without: float, with_affinity: float) -> float:
    """What pinning gains, as a share of the performance with it, as the study has it.

    >>> round(gain(198.40, 244.40), 4)
    0.1882
    """
    return (with_affinity - without) / with_affinity


def loss(one: float, many: float) -> float:
    """What each virtual server loses when there are many, as a share of what one alone has.

    >>> round(loss(339.95, 198.40), 4)
    0.4164
    """
    return (one - many) / one


def points_avoided(loss_free: float, loss_pinned: float) -> float:
    """How much of the loss pinning avoids, in percentage points.

    >>> round(points_avoided(0.1266, 0.0419), 2)
    8.47
    """
    return (loss_free - loss_pinned) * 100


def expected(overcommit: float) -> float:
    """The share of its own CPU's performance that each of equally busy virtual servers gets: 1/x, and no more than 1.

    overcommit: busy virtual CPUs per CPU.

    >>> [round(expected(x), 2) for x in (0.5, 1, 2, 3, 4)]
    [1, 1.0, 0.5, 0.33, 0.25]
    """
    return min(1, 1 / overcommit)


def deviation(share: float, overcommit: float) -> float:
    """How far a measured share is from the expected one, relative to that.

    >>> round(deviation(0.45, 2), 2), round(deviation(0.52, 2), 2)
    (-0.1, 0.04)
    """
    return share / expected(overcommit) - 1

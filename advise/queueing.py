"""How long work waits for CPUs that others use too: textbook formulas of queueing theory.

Work arrives at random, and everybody who is runnable gets an equal share of the CPUs (processor sharing). Then the mean
time depends on the mean work alone, and is that of the queue M/M/c: Erlang's C formula, such as in Harchol-Balter,
Performance Modeling and Design of Computer Systems, 2013, chapter 14 and section 30.2.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

FULL = 0.98  # of the CPUs: beyond it there is no steady state to predict
CAP_PERIOD_SECONDS = 0.1  # in which a quota may be used at full speed: the kernel's default
Numbers = NDArray[np.float64]


def waiting(used: Numbers | float, servers: Numbers | float) -> Numbers:
    """Mean waiting per second of work, with `used` of these CPUs in use by everybody; infinite from `FULL` on.

    A part of a CPU, such as 1.5, counts as the mean of the numbers around it; less than one as one.
    """
    c = np.maximum(np.asarray(servers, dtype=float), 1.0)
    busy = np.asarray(used, dtype=float) / c
    below = np.floor(c)
    part = c - below
    waits = _waiting(busy, below)
    if np.any(part > 0):
        waits = (1 - part) * waits + part * _waiting(busy, below + 1)
    found: Numbers = np.where(busy >= FULL, np.inf, waits)
    return found


def _waiting(busy: Numbers, servers: Numbers) -> Numbers:
    possible = np.clip(busy, 0.0, FULL)
    offered = possible * servers  # erlangs
    # Erlang's B formula is the Poisson distribution's probability of c, given that it is at most c.
    exactly = np.exp(special.xlogy(servers, offered) - offered - special.gammaln(servers + 1))
    lost = exactly / special.pdtr(servers, offered)
    waits = lost / (1 - possible * (1 - lost))
    found: Numbers = waits / (servers * (1 - possible))
    return found


def capped(
    work: Numbers | float, used: Numbers | float, cap: Numbers | float, period: float = CAP_PERIOD_SECONDS
) -> Numbers:
    """Mean waiting for its own cap of a request with this many CPU seconds; `used` and `cap` are in CPUs.

    A cap below one CPU is a slower CPU: its queue is that much longer, and work beyond the quota of a period takes
    longer as well. Infinite from `FULL` on.
    """
    work, used, cap = (np.asarray(each, dtype=float) for each in (work, used, cap))
    speed = np.minimum(cap, 1.0)
    slowly = np.maximum(work - cap * period, 0.0) * (1 / speed - 1)
    found: Numbers = slowly + work / speed * waiting(used / speed, cap / speed)
    return found


def delay(
    work: Numbers | float,
    own: Numbers | float,
    *,
    cap: Numbers | float,
    vcpus: Numbers | float,
    used: Numbers | float,
    cpus: Numbers | float,
    bursts: float = 1.0,
    period: float = CAP_PERIOD_SECONDS,
) -> Numbers:
    """Mean waiting of requests for a guest's CPUs, in seconds.

    work: CPU seconds of a request in this guest.
    own, used: CPUs that the guest, and all on its host with it, use.
    cap, vcpus: the most CPUs that the guest may use; NaN without.
    cpus: of the host.
    bursts: how many times as long as expected guests wait on this host.
    period: in which the quota of a cap may be used at full speed, in seconds.

    There is too little either of the host's CPUs, or of its cap, or of its vCPUs, which others on the host make slower.
    The longest wait counts: with one CPU, one vCPU and no cap all of it is one queue.
    """
    waits: Numbers = np.asarray(work * bursts * waiting(used, cpus))
    if not np.any(np.isfinite(cap) | np.isfinite(vcpus)):
        return waits
    slower = 1 + bursts * waiting(np.maximum(used - own, 0.0), cpus)
    for most, factor in ((cap, np.ones_like(slower)), (vcpus, slower)):
        known = np.isfinite(most) & np.isfinite(slower)
        if not known.any():
            continue
        longer, slowed = np.where(known, factor, 1.0), np.where(known, slower, 1.0)
        own_queue = longer * capped(work, own * longer, np.where(known, most, 1.0), period)
        waits = np.where(known, np.maximum(waits, work * (slowed - 1) + own_queue), waits)
    return waits

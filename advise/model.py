"""What an application's response time is made of, and what it will be on other CPUs: docs/advise.md, "The method".

    response = work + rest + k x waiting

Work is its CPU time per request, waiting what queueing theory expects at the use of the CPUs at that time. k is 1 if
requests arrive at random, and larger if they do in bursts. Rest is what doesn't depend on CPUs. Both k and rest are
estimated from the application's own past.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from advise.queueing import Numbers

DRAWS = 4000
LEVELS = (0.05, 0.5, 0.95)  # the median and a 90 % interval
SEED = 2007
# Before anything was seen, k is about 1, give or take a half.
USUAL, SPREAD = 1.0, 0.5
LEAST_NOISE = 0.05  # relative, of any measured mean
RELATED = 4.0  # so many samples in sequence tell as much as one: what disturbs one disturbs the next


@dataclass(frozen=True)
class Past:
    """What was seen of an application, one value for each interval: seconds per request."""

    response: Numbers
    work: Numbers
    waiting: Numbers  # expected by queueing theory


@dataclass(frozen=True)
class Fit:
    """`rest` in seconds and `k`, with their covariance; `noise` is the relative deviation of a measured mean."""

    rest: float
    k: float
    covariance: Numbers
    noise: float
    share: float  # of its CPU time that is part of requests: less than 1 for work beside them

    def draw(self, chance: np.random.Generator, draws: int) -> tuple[Numbers, Numbers]:
        """Likely values of rest and k; neither is negative."""
        values = chance.multivariate_normal([self.rest, self.k], self.covariance, size=draws, method="eigh")
        return np.maximum(values[:, 0], 0.0), np.maximum(values[:, 1], 0.0)


@dataclass(frozen=True)
class Predicted:
    """Seconds; infinite if there is no steady state."""

    low: float
    median: float
    high: float


def fit(past: Past) -> Fit:
    """Estimate from at least one interval with requests; intervals at full CPUs are left out, unless all are."""
    known = np.isfinite(past.waiting) if np.isfinite(past.waiting).any() else np.ones(len(past.waiting), dtype=bool)
    response, work, waiting = (each[known] for each in (past.response, past.work, past.waiting))
    share = min(1.0, float(np.quantile(response / work, 0.1)) if (work > 0).all() else 1.0)
    waiting = np.where(np.isfinite(waiting), waiting, 0.0) * share
    over = response - share * work
    scale = float(np.median(response))
    weight = 1 / (np.sqrt(RELATED) * np.maximum(response, 1e-9))

    def deviations(at: Numbers) -> Numbers:
        seen = weight * (at[0] * scale + at[1] * waiting - over) / spread
        return np.append(seen, [(at[1] - USUAL) / SPREAD, 0.1 * at[0]])

    spread = 0.2
    for _ in range(2):  # with a guess of the noise, then with what the first fit left unexplained
        found = optimize.least_squares(deviations, [0.1, USUAL], bounds=([0, 0], [np.inf, np.inf]), loss="soft_l1")
        left = (found.x[0] * scale + found.x[1] * waiting - over) / response
        spread = max(LEAST_NOISE, 1.48 * float(np.median(np.abs(left))))
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    covariance *= np.outer([scale, 1], [scale, 1])
    return Fit(float(found.x[0]) * scale, float(found.x[1]), covariance, spread, share)


def predict(fitted: Fit, work: float, waiting: Numbers, rest_change: float = 0.0, widened: float = 1.0) -> Predicted:
    """The mean response to come.

    work: CPU seconds per request.
    waiting: drawn values of what queueing theory expects, in seconds per request.
    rest_change: what is added to the rest, such as waiting for another disk.
    widened: how many times as wide as the model's own the interval has to be, in logarithms.
    """
    chance = np.random.default_rng(SEED)
    rest, k = fitted.draw(chance, len(waiting))
    with np.errstate(invalid="ignore"):
        delay = np.where(np.isfinite(waiting), k * waiting * fitted.share, np.inf)
    steady = fitted.share * work + np.maximum(rest + rest_change, 0.0) + delay
    noise = np.exp(chance.normal(0.0, fitted.noise, len(waiting)))
    low, median, high = (float(value) for value in np.quantile(steady * noise, LEVELS, method="inverted_cdf"))
    if widened != 1.0 and np.isfinite(median):
        low, high = median * (low / median) ** widened, median * (high / median) ** widened
    return Predicted(low, median, high)

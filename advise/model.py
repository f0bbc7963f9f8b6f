"""What an application's response time is made of, and what it will be on other CPUs: docs/advise.md, "The method".

    response = rest + share x work + k x waiting

Work is its CPU time per request, waiting what queueing theory expects at the CPU use of that time. Share is 1 if all
work is part of requests, less if the application also works outside of them. With requests at random times, k is equal
to share; bursts increase it. Rest doesn't depend on CPUs. All three are estimated from the application's own past.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from advise.queueing import Numbers

DRAWS = 4000
LEVELS = (0.05, 0.5, 0.95)  # the median and a 90 % interval
SEED = 2007
# Expected without history: share is 1, k equals it and there is no rest, each with this deviation.
SHARE_SPREAD, K_SPREAD, REST_SPREAD = 0.3, 0.5, 10.0
LEAST_NOISE = 0.05  # relative, of any measured mean
NOISE, FEW = 0.15, 10  # what is expected, as if it had been seen so often
RELATED = 12.0  # so many samples in sequence tell as much as one: what disturbs one disturbs the next


@dataclass(frozen=True)
class Past:
    """What was seen of an application, one value for each interval: seconds per request."""

    response: Numbers
    work: Numbers
    waiting: Numbers  # expected by queueing theory


@dataclass(frozen=True)
class Fit:
    """`rest` in seconds, `share` and `k`, with their covariance; `noise` is a measured mean's relative deviation."""

    rest: float
    share: float
    k: float
    covariance: Numbers
    noise: float

    @cached_property
    def drawn(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Likely values of the three, of which none is negative and the share at most 1, and factors of the noise.

        They are the same for all predictions, which thus differ by what is changed only.
        """
        chance = np.random.default_rng(SEED)
        values = chance.multivariate_normal([self.rest, self.share, self.k], self.covariance, size=DRAWS, method="eigh")
        rest, share, k = np.maximum(values, 0.0).T
        return rest, np.minimum(share, 1.0), k, np.exp(chance.normal(0.0, self.noise, DRAWS))


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
    waiting = np.where(np.isfinite(waiting), waiting, 0.0)
    scale = float(np.median(response))
    weight = 1 / (np.sqrt(RELATED) * np.maximum(response, 1e-9))

    def deviations(at: Numbers) -> Numbers:
        rest, share, k = at
        seen = weight * (rest * scale + share * work + k * waiting - response) / spread
        return np.append(seen, [rest / REST_SPREAD, (1 - share) / SHARE_SPREAD, (k - share) / K_SPREAD])

    spread, bounds = 0.2, ([0, 0, 0], [np.inf, 1, np.inf])
    for _ in range(2):  # with a guess of the noise, then with what the first fit left unexplained
        found = optimize.least_squares(deviations, [0.1, 0.5, 0.5], bounds=bounds, loss="soft_l1")
        rest, share, k = found.x
        left = (rest * scale + share * work + k * waiting - response) / response
        seen, count = 1.48 * float(np.median(np.abs(left))), len(left)  # of a normal distribution
        spread = max(LEAST_NOISE, float(np.sqrt((count * seen**2 + FEW * NOISE**2) / (count + FEW))))
    scales = np.array([scale, 1.0, 1.0])
    covariance = np.linalg.inv(found.jac.T @ found.jac) * np.outer(scales, scales)
    return Fit(float(rest) * scale, float(share), float(k), covariance, spread)


def predict(
    fitted: Fit, work: float, waiting: Numbers | float, rest_change: float = 0.0, widened: float = 1.0
) -> Predicted:
    """The mean response to come.

    work: CPU seconds per request.
    waiting: what queueing theory expects, in seconds per request: `DRAWS` values, or one.
    rest_change: what is added to the rest, such as waiting for another disk.
    widened: how many times as wide as the model's own the interval has to be, in logarithms.
    """
    rest, share, k, noise = fitted.drawn
    with np.errstate(invalid="ignore"):
        delay = np.where(np.isfinite(waiting), k * waiting, np.inf)
    steady = np.maximum(rest + rest_change, 0.0) + share * work + delay
    likely = max(fitted.rest + rest_change, 0.0) + fitted.share * work + fitted.k * float(np.median(waiting))
    if np.isfinite(likely) and likely > 0:  # as draws are cut off, their median isn't the most likely one
        steady *= likely / np.median(steady)
    low, median, high = (float(value) for value in np.quantile(steady * noise, LEVELS, method="inverted_cdf"))
    if widened != 1.0 and np.isfinite(median):
        low, high = median * (low / median) ** widened, median * (high / median) ** widened
    return Predicted(low, median, high)

"""95% confidence intervals of mean scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: The normal distribution's quantile for 95 %.
Z = 1.959964
#: The number of bootstrap samples, and the seed that makes the intervals reproducible.
DRAWS, SEED = 2000, 0


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's score interval for a share of `n` rows.

    It is valid even with few rows and for shares near 0 and 1, where the usual interval is not (Wilson 1927,
    https://doi.org/10.2307/2276774; Brown, Cai and DasGupta 2001, https://doi.org/10.1214/ss/1009213286).

    >>> [round(bound, 3) for bound in wilson(0.9, 10)]
    [0.596, 0.982]
    """
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Return the percentile bootstrap interval for a mean, or NaN for fewer than two numbers.

    Efron and Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13.

    >>> low, high = bootstrap([1.0, 2.0, 3.0, 4.0])
    >>> 1.0 <= low < 2.5 < high <= 4.0
    True
    """
    if len(values) < 2:
        return math.nan, math.nan
    numbers, random = np.asarray(values, dtype=float), np.random.default_rng(SEED)
    means = [numbers[random.integers(0, len(numbers), len(numbers))].mean() for _ in range(DRAWS)]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)

"""A generated shop: conversions by campaign > location > day, to measure. It does not exist."""

from fractions import Fraction

import numpy as np

from attributary import Tree, noise

CAMPAIGNS = ["autumn sale", "brand", "gift cards", "loyalty", "new arrivals", "outlet", "spring sale", "retargeting"]
LOCATIONS = ["Berlin", "Chicago", "Lagos", "Lima", "London", "New York", "Osaka", "Paris", "Pune", "Sydney", "Toronto"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
LEVELS = ["campaign", "location", "day"]
EPSILON, L1 = 1, 65_536
EQUAL = (21_846, 21_845, 21_845)  # an equal split of L1
THIS_WEEK = 7


def tree() -> Tree:
    """Every campaign, location and day; a campaign does not run everywhere."""
    rng = np.random.default_rng(2026)
    places = {c: sorted(rng.choice(LOCATIONS, rng.integers(4, len(LOCATIONS)), replace=False)) for c in CAMPAIGNS}
    paths: list[tuple[str | None, ...]] = [(c, None, None) for c in CAMPAIGNS]
    paths += [(c, p, None) for c in CAMPAIGNS for p in places[c]]
    paths += [(c, p, d) for c in CAMPAIGNS for p in places[c] for d in DAYS]
    columns = zip(*sorted(paths, key=lambda path: [x or "" for x in path]), strict=True)
    return Tree.from_paths(dict(zip(LEVELS, columns, strict=True)), LEVELS)


def truth(shop: Tree, week: int = THIS_WEEK) -> np.ndarray:
    """Made-up conversions: few campaigns have most of them, and weekends are slow."""
    lasting, rng = np.random.default_rng(7), np.random.default_rng(week)
    size = {c: lasting.lognormal(2.2, 0.9) * rng.lognormal(0, 0.1) for c in CAMPAIGNS}
    appeal = {p: lasting.lognormal(0, 0.7) for p in LOCATIONS}
    pace = dict(zip(DAYS, (1.2, 1.1, 1.0, 1.1, 1.3, 0.7, 0.6), strict=True))
    count = np.zeros(len(shop), np.int64)
    for v in np.flatnonzero(shop.is_leaf):
        campaign, place, day = shop.path(int(v))
        count[v] = rng.poisson(size[campaign] * appeal[place] * pace[day])
    for v in np.argsort(-shop.level, kind="stable"):  # from the leaves up
        if shop.parent[v] >= 0:
            count[shop.parent[v]] += count[v]
    return count


def measure(count: np.ndarray, contribution: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
    """What a summary report says: sums of contributions plus exact noise, as counts again; nan without a key."""
    sums = count * contribution + noise.sample_dlap(Fraction(EPSILON, L1), len(count), rng)
    return np.where(contribution > 0, sums / np.maximum(contribution, 1), np.nan)

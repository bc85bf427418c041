"""A generated shop: conversions by campaign > location > day, measured once with the API's noise.

    python -m examples.shop FOLDER

writes FOLDER/noisy.csv, one row per node, and FOLDER/truth.csv, which nobody has outside of an example.
"""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from attributary import Tree, noise
from attributary.tables import write_table

CAMPAIGNS = ["autumn sale", "brand", "gift cards", "loyalty", "new arrivals", "outlet", "spring sale", "retargeting"]
LOCATIONS = ["Berlin", "Chicago", "Lagos", "Lima", "London", "New York", "Osaka", "Paris", "Pune", "Sydney", "Toronto"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
EPSILON = 1
L1 = 65_536
CONTRIBUTION = (21_846, 21_845, 21_845)  # of one conversion to its campaign, location and day


def tree() -> Tree:
    """Every campaign, location and day; a campaign does not run everywhere."""
    rng = np.random.default_rng(2026)
    places = {c: sorted(rng.choice(LOCATIONS, rng.integers(4, len(LOCATIONS)), replace=False)) for c in CAMPAIGNS}
    paths: list[tuple[str | None, ...]] = [(c, None, None) for c in CAMPAIGNS]
    paths += [(c, p, None) for c in CAMPAIGNS for p in places[c]]
    paths += [(c, p, d) for c in CAMPAIGNS for p in places[c] for d in DAYS]
    columns = zip(*sorted(paths, key=lambda path: [x or "" for x in path]), strict=True)
    return Tree.from_paths(
        dict(zip(("campaign", "location", "day"), columns, strict=True)), ["campaign", "location", "day"]
    )


def truth(shop: Tree) -> np.ndarray:
    """Made-up conversions: few campaigns have most of them, and weekends are slow."""
    rng = np.random.default_rng(7)
    size = {c: rng.lognormal(2.2, 0.9) for c in CAMPAIGNS}
    appeal = {p: rng.lognormal(0, 0.7) for p in LOCATIONS}
    week = dict(zip(DAYS, (1.2, 1.1, 1.0, 1.1, 1.3, 0.7, 0.6), strict=True))
    count = np.zeros(len(shop), np.int64)
    for v in np.flatnonzero(shop.is_leaf):
        campaign, place, day = shop.path(int(v))
        count[v] = rng.poisson(size[campaign] * appeal[place] * week[day])
    for v in np.argsort(-shop.level, kind="stable"):  # from the leaves up
        if shop.parent[v] >= 0:
            count[shop.parent[v]] += count[v]
    return count


def measure(shop: Tree, count: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
    """What a summary report would say: sums of contributions plus discrete Laplace noise, as counts again."""
    contribution = shop.by_level(CONTRIBUTION)
    return (count * contribution + noise.sample_dlap(Fraction(EPSILON, L1), len(shop), rng)) / contribution


def variance(shop: Tree) -> np.ndarray:
    """The variance of that noise."""
    return noise.dlap_variance(Fraction(EPSILON, L1)) / shop.by_level(CONTRIBUTION) ** 2


def main(folder: str) -> None:
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    shop = tree()
    count = truth(shop)
    rows = shop.table().drop_columns(["node", "parent", "level"])
    noisy = np.round(measure(shop, count, np.random.default_rng(11)), 3)  # seeded: an example, not for release
    write_table(rows.append_column("noisy", pa.array(noisy)), str(out / "noisy.csv"))
    write_table(rows.append_column("conversions", pa.array(count)), str(out / "truth.csv"))
    print(f"{out}/noisy.csv: {len(shop)} generated figures, each with noise for ε = {EPSILON}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")

"""A generated shop: conversions by campaign > location > day, to plan for and to measure.

    python -m examples.shop ask FOLDER        writes spec.toml, and last_week.csv with last week's counts
    python -m examples.shop measure FOLDER    measures this week under FOLDER/plan.json, into noisy.csv

All of it is generated. truth.csv, written beside noisy.csv, is what nobody has outside of an example.
"""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from attributary import Plan, Tree, noise
from attributary.tables import write_table

CAMPAIGNS = ["autumn sale", "brand", "gift cards", "loyalty", "new arrivals", "outlet", "spring sale", "retargeting"]
LOCATIONS = ["Berlin", "Chicago", "Lagos", "Lima", "London", "New York", "Osaka", "Paris", "Pune", "Sydney", "Toronto"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
LEVELS = ["campaign", "location", "day"]
EPSILON, L1 = 1, 65_536
EQUAL = (21_846, 21_845, 21_845)  # an equal split of L1
LAST_WEEK, THIS_WEEK = 6, 7

SPEC = f"""# Conversions of the shop by campaign, location and day.
epsilon = {EPSILON}
tau = 10
neighbours = "definition-1"   # epsilon also hides on which day a conversion was

[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "day"
unknown = true                 # only a conversion has it
domain = [{", ".join(f'"{day}"' for day in DAYS)}]
"""


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


def ask(folder: Path) -> None:
    """Writes the spec and last week's counts, one row per leaf."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    shop = tree()
    leaves = paths(shop).append_column("conversions", pa.array(truth(shop, LAST_WEEK))).filter(pa.array(shop.is_leaf))
    write_table(leaves, str(folder / "last_week.csv"))
    print(f"{folder}/spec.toml and {folder}/last_week.csv: what is asked, and generated counts", file=sys.stderr)


def measured(folder: Path) -> None:
    """Writes this week's figures under the plan, one row per node."""
    shop, plan = tree(), Plan.load(str(folder / "plan.json"))
    count = truth(shop)
    noisy = measure(count, plan.contribution(shop), np.random.default_rng(11))  # seeded: an example, not for release
    figures = paths(shop).append_column("noisy", pa.array(np.round(noisy, 3), mask=np.isnan(noisy)))
    write_table(figures.append_column("noise", pa.array(plan.variance(shop))), str(folder / "noisy.csv"))
    write_table(paths(shop).append_column("conversions", pa.array(count)), str(folder / "truth.csv"))
    print(f"{folder}/noisy.csv: {len(shop)} generated figures with noise for ε = {EPSILON}", file=sys.stderr)


def paths(shop: Tree) -> pa.Table:
    return shop.table().drop_columns(["node", "parent", "level"])


if __name__ == "__main__":
    {"ask": ask, "measure": measured}[sys.argv[1]](Path(sys.argv[2]))

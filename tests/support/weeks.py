"""Generated weeks: Poisson conversions of one tree, measured with Laplace noise and denoised, week by week."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attributary import Tree, denoise
from attributary.denoising import Estimate
from attributary.tables import write_table
from attributary.types import Floats

LEVELS = ["campaign", "place", "day"]
VARIANCE = (4.0, 9.0, 25.0)  # of the noise, by level


def tree_of(campaigns: Sequence[str], places: int = 3, days: int = 3) -> Tree:
    paths = [(c, f"place {j}", f"day {k}") for c in campaigns for j in range(places) for k in range(days)]
    rows = {name: [path[i] for path in paths] for i, name in enumerate(LEVELS)}
    nodes = Tree.from_paths(rows, LEVELS, fill=True).table().select(LEVELS)
    return Tree.from_paths(nodes, LEVELS)


def rates(tree: Tree, mean: float = 60.0, seed: int = 0) -> Floats:
    """Conversions to expect of each leaf and of every node above, by its path alone, in the tree's order."""
    leaf = [np.random.default_rng([seed, *"/".join(tree.path(v)).encode()]).gamma(1, mean) for v in tree.leaves]
    return tree.roll_up(np.array(leaf))


def week(tree: Tree, rate: Floats, rng: np.random.Generator, **options: Any) -> Estimate:
    """The estimates of a week with these rates."""
    truth = tree.roll_up(rng.poisson(rate[tree.is_leaf]).astype(float))
    variance = tree.by_level(VARIANCE[: tree.depth])
    return denoise(tree, truth + rng.laplace(0, np.sqrt(variance / 2)), variance, **options)


def write_weeks(folder: Path, weeks: Mapping[str, Estimate], impressions: Floats | None = None) -> Path:
    """A folder of periods: a table for each."""
    import pyarrow as pa

    folder.mkdir(exist_ok=True)
    for name, est in weeks.items():
        table = est.table()
        if impressions is not None:
            table = table.append_column("impressions", pa.array(impressions))
        write_table(table, str(folder / f"{name}.parquet"))
    return folder

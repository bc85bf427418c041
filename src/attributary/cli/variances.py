"""variances: the noise's variance of every row, in whichever way it was given."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.noise import dlap_variance
from attributary.tables import place, shown
from attributary.tables.table_columns import cell_in_words, columns_in_words, floats
from attributary.tree import Tree
from attributary.types import Floats

WAYS = "give --variance, or --std, or --epsilon with --contribution"


@dataclass(frozen=True)
class Noise:
    """What the user says of the noise; the first three are each a column, a number, or a number per level."""

    variance: str | None = None
    std: str | None = None
    contribution: str | None = None
    epsilon: float | None = None
    l1: int | None = None
    sums: bool = False

    def __post_init__(self) -> None:
        given = [name for name in ("variance", "std", "epsilon") if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(f"--{name}" for name in given) or "none of them"
            raise InputError(f"the noise's variance is given in one way; got {got}: {WAYS}")
        if (self.epsilon is None) != (self.contribution is None):
            raise InputError(f"--epsilon and --contribution go together; got only one of them: {WAYS}")
        if self.epsilon is None and (self.l1 is not None or self.sums):
            raise InputError(f"--{'sums' if self.sums else 'l1'} needs --epsilon and --contribution; got --{given[0]}")
        if self.epsilon is not None and not 0 < self.epsilon < inf:
            raise InputError(f"--epsilon is a number above 0; got {self.epsilon:g}")
        if self.l1 is not None and not self.l1 > 0:
            raise InputError(f"--l1 is a whole number above 0, as in 65536; got {self.l1}")


def measurements(table: Any, value: str, noise: Noise, tree: Tree, path: str) -> tuple[Floats, Floats]:
    """The noisy figure of every node and its variance, which is inf where it was not measured or has no row."""
    noisy = floats(table, value, path)
    if noise.variance is not None:
        variance = _amounts(table, "variance", noise.variance, tree, path)
    elif noise.std is not None:
        variance = _amounts(table, "std", noise.std, tree, path) ** 2
    else:
        assert noise.contribution is not None and noise.epsilon is not None
        contribution = _amounts(table, "contribution", noise.contribution, tree, path)
        with np.errstate(divide="ignore", invalid="ignore"):  # no contribution, no measurement
            variance = dlap_variance(noise.epsilon / (noise.l1 or 65536)) / contribution**2
            noisy = noisy / contribution if noise.sums else noisy
    bad = ~np.isfinite(noisy) & (variance < inf)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{place(path, row)}: column {value!r} has {cell_in_words(table, value, row)} where a finite number is "
            "needed; if it was not measured, give it variance inf"
        )
    missing = len(tree) - len(noisy)  # node i is row i; those without rows come last
    return np.pad(np.where(variance < inf, noisy, 0.0), (0, missing)), np.pad(
        variance, (0, missing), constant_values=inf
    )


def _amounts(table: Any, option: str, given: str, tree: Tree, path: str) -> Floats:
    """An amount of 0 or more for every row: from a column of that name, else one number, else one for each level."""
    if given in table.column_names:
        amounts = floats(table, given, path)
        bad = ~(amounts >= 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"{place(path, row)}: column {given!r} has {cell_in_words(table, given, row)}; a {option} is 0 or more"
                + (", or inf if the row was not measured" if option != "contribution" else "")
            )
        return amounts
    per_level = _per_level(given)
    if per_level is None:
        raise InputError(
            f"{shown(path)} has no column {given!r}, and it is no number either; --{option} is a column, a number, or "
            f"a number per level, as in 4,2,1; {columns_in_words(table)}"
        )
    if not all(amount >= 0 for amount in per_level):
        raise InputError(f"a {option} is 0 or more; got --{option} {given}")
    if len(per_level) == 1:
        return np.full(table.num_rows, per_level[0])
    if len(per_level) != tree.depth:
        raise InputError(
            f"--{option} takes one number, or one for each of the {tree.depth} levels "
            f"({', '.join(tree.level_names)}); got {len(per_level)}"
        )
    return tree.by_level(per_level)[: table.num_rows]


def _per_level(given: str) -> list[float] | None:
    try:
        return [float(number) for number in given.split(",")]
    except ValueError:
        return None

"""cluster: rows of contributions in so many groups, each with one row that suits its members best."""

import numpy as np

from attributary.types import Floats, Ints

ROUNDS = 50
HALF = 0.5  # in place of 0, which has no ratio to anything


def cluster(rows: Floats, weight: Floats, groups: int) -> Ints:
    """The group of each row, such that Σ w·(x/m − ln(x/m) − 1) is small: x of a row, m of the mean of its group.

    This is Lloyd's algorithm under the Itakura–Saito divergence. It looks at ratios, as errors do: a level that gets
    half of what it asked for has twice the error, however little it was. The mean of a group minimises its sum, and
    means of rows that are within the budget are, too.
    """
    x = np.maximum(rows, HALF)
    centre = x[_far_apart(x, groups)]
    group = np.full(len(x), -1, np.int64)
    for _ in range(ROUNDS):
        nearest = _divergence(x, centre).argmin(axis=1)
        if (nearest == group).all():
            break
        group = nearest
        size = np.bincount(group, weight, len(centre))
        some = size > 0
        for level in range(x.shape[1]):
            centre[some, level] = np.bincount(group, x[:, level] * weight, len(centre))[some] / size[some]
    return group


def _far_apart(x: Floats, groups: int) -> list[int]:
    """Rows to begin with: the one nearest to the mean, then each time the one that is worst off."""
    chosen = [int(_divergence(x, x.mean(axis=0, keepdims=True)).argmin())]
    away = _divergence(x, x[chosen])[:, 0]
    while len(chosen) < groups and away.max() > 0:
        chosen.append(int(away.argmax()))
        away = np.minimum(away, _divergence(x, x[chosen[-1:]])[:, 0])
    return chosen


def _divergence(x: Floats, m: Floats) -> Floats:
    """Between all rows and all centres, from above 0 where they differ."""
    logs = np.log(x).sum(axis=1)[:, None] - np.log(m).sum(axis=1)
    found: Floats = np.maximum(x @ (1 / m).T - logs - x.shape[1], 0.0)
    return found

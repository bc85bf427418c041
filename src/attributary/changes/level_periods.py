"""level_periods: the periods within one table whose last level is weeks, days or months.

The figures of a store's weeks are dependent, since they were made to add up to the store's figure. So a difference of
two weeks has its own exact variance, from one pass over the tree for each pair (`denoising.total`).
"""

import numpy as np

from attributary.changes.change_test import PeriodFigures
from attributary.changes.period_order import in_order
from attributary.changes.what_changed import SeriesPeriod
from attributary.denoising import Estimate
from attributary.denoising.total import subtree_variance
from attributary.errors import InputError
from attributary.estimates import Estimates
from attributary.tree import Tree
from attributary.tree.missing_labels import REST
from attributary.types import Bools, Floats

TO = ".."  # between the first and the last label of a period


def level_periods(est: Estimates, by: str) -> tuple[Tree, tuple[SeriesPeriod, ...], PeriodFigures, str]:
    """The tree above the last level, the periods that `by` names, oldest first, sums over them, and what orders them.

    "week" makes each label of that level a period, "week=W1,W5" these two, and "week=W1..W4,W5..W8" two of four weeks.
    Labels are in the order of their dates or numbers; where these tell none, in that of the table.
    """
    tree, plain = est.tree, est.plain
    level, _, chosen = (by, "", "") if by in tree.attributes else by.partition("=")
    above = _above_last(tree, level)
    if plain is None:
        raise InputError("periods within a table are compared by its noisy values, which it lacks; denoise it again")
    labels = tree.labels[-1].cast("string").to_numpy(zero_copy_only=False)
    there = [label for label in dict.fromkeys(labels.tolist()) if label != REST]  # which is of no period
    names, order = in_order(there, "as in the table: the labels tell no dates", level)
    groups = _chosen(level, names, chosen) if chosen else {name: [name] for name in names}
    if len(groups) < 2:
        raise InputError(f"at least two periods are compared; got {', '.join(groups)} of {level}")
    masks = [np.isin(labels, some) for some in groups.values()]
    each = [_figures(plain, mask) for mask in masks]
    for i in range(1, len(each)):
        change = _below(plain, masks[i].astype(float) - masks[i - 1])
        with np.errstate(invalid="ignore"):
            shared = (each[i].variance + each[i - 1].variance - change) / 2
        each[i] = _figures(plain, masks[i], np.where(np.isfinite(shared), shared, 0.0))
    recomputed = not np.allclose(tree.to_level_order(plain.blue), est.estimate, rtol=1e-6, atol=1e-6)
    about = (est.fit, recomputed, est.not_private, est.generated)
    periods = tuple(SeriesPeriod(name, figures, *about) for name, figures in zip(groups, each, strict=True))
    return above, periods, _figures(plain, np.any(masks, axis=0)), order


def _above_last(tree: Tree, level: str) -> Tree:
    """The tree without its last level, which has to be the one that tells periods apart."""
    if tree.depth < 2 or tree.level_names[-1] != level:
        raise InputError(
            f"periods within a table are labels of its last level, below another one; got {level!r} of "
            f"{', '.join(tree.level_names)}"
        )
    leaf = tree.in_level_order.is_leaf[: tree.offsets[-2]]
    if leaf.any():
        example = tree.name(int(np.argmax(leaf)) if tree.order is None else int(tree.order[np.argmax(leaf)]))
        raise InputError(f"every node needs its {level} to be compared; {leaf.sum():,} have none, as {example}")
    return tree.above(tree.depth - 1)


def _chosen(level: str, names: list[str], chosen: str) -> dict[str, list[str]]:
    """The labels of each period, from a text such as W1..W4,W5..W8."""
    groups: dict[str, list[str]] = {}
    for part in chosen.split(","):
        name = part.strip()
        ends = [name] if name in names else [end.strip() for end in name.split(TO)]
        unknown = [end for end in ends if end not in names]
        if unknown or len(ends) > 2:
            raise InputError(f"{level} has no {(unknown or [name])[0]!r}; it has {', '.join(names[:20])}")
        groups[name] = names[names.index(ends[0]) : names.index(ends[-1]) + 1]
        if not groups[name]:
            raise InputError(f"a period is named from its first to its last {level}; got {name}")
    every = [label for some in groups.values() for label in some]
    if len(every) > len(set(every)) or len(groups) <= chosen.count(","):
        raise InputError(f"a {level} is in one period only; got {chosen}")
    return dict(sorted(groups.items(), key=lambda group: names.index(group[1][0])))


def _figures(plain: Estimate, mask: Bools, shared: Floats | float = 0.0) -> PeriodFigures:
    """The sums of the last level's nodes that are in the mask, of each node above it; nan where it has none of them."""
    tree = plain.tree.in_level_order
    end, last = int(tree.offsets[-2]), np.zeros(len(tree), bool)
    last[end:] = mask
    there = tree.sum_up(last)[:end] > 0
    count = tree.sum_up(np.where(last, plain.tree.to_level_order(plain.blue), 0.0))[:end]
    excess = 0.0 if not plain.measurements.excess().any() else np.nan  # of a sum: normal, or it is not known
    count, variance = (np.where(there, a, np.nan) for a in (count, _below(plain, mask.astype(float))))
    return PeriodFigures(count, variance, np.full(end, excess), np.full(end, np.nan), shared)


def _below(plain: Estimate, weights: Floats) -> Floats:
    """Of each node above the last level, the variance of the sum of last-level nodes below it, by these weights."""
    tree = plain.tree
    end, each = int(tree.offsets[-2]), np.zeros(len(tree))
    each[end:] = weights
    variance = subtree_variance(tree, plain.measurements, plain.variance, tree.from_level_order(each))
    return tree.to_level_order(variance)[:end]

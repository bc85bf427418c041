"""Missing rows: families of a table that lack some, since systems drop small groups and exports have gaps.

What a family lacks was not measured: its parent and the rows that are there keep their own figures, and what is left is
at least 0. Labels tell it, where nine in ten families of a level have one that a family lacks, or nine in ten below
nodes of the same label, as first quarters. Else figures do: parents exceed the sums of their rows by more than noise
explains, in all families together whose labels do not show that they are complete; or by far more, in any family of
two rows or more. A parent far below the sum of its rows lacks none: some figure is wrong. Where figures may be below 0,
as profits, what is missing may be, too.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attributary.denoising.quantile import quantile
from attributary.errors import InputError
from attributary.measurements import Measurements, combine
from attributary.tables.number_form import EMPTY
from attributary.tree import Family, Tree
from attributary.tree.match import RECURS, lacking
from attributary.types import Bools, Floats

OFTEN = 0.9  # of the families of a level have a label that is expected in all of them
BY_CHANCE = 1e-4  # how often a table without missing rows may look as if it had some
FAR = 1e-9  # the same of families whose labels show that they are complete: 6 standard deviations
MANY = 2.0  # how far the sum of a level is off, by what a single odd family makes of it
PLURALS = ("day", "week", "month", "quarter", "year")  # others may not be English
NOT_MEASURED = "what is missing is not measured (`missing=zero` counts it as 0)"


class Incomplete(NamedTuple):
    """Families that lack rows, by their parents in level order, and how that is known."""

    families: Bools
    words: str


def lack_labels(tree: Tree, missing: str | tuple[int, ...] | None) -> Iterator[Incomplete]:
    """The families of each level that lack labels; any labels, if missing rows are said to be unmeasured."""
    if isinstance(missing, tuple):
        families = tree.to_level_order(np.isin(np.arange(len(tree)), missing))
        yield Incomplete(families, f"{len(missing):,} families lack rows: {NOT_MEASURED}")
        return
    if missing not in (None, *EMPTY):
        raise InputError(f"missing rows are {' or '.join(EMPTY)}; got {missing[:40]!r}")
    has, usual = lacking(tree, OFTEN if missing is None else 0)
    lack = has < usual if missing is None else _may_lack(tree) & (missing != "zero")
    for level, (above, below) in enumerate(pairwise(tree.level_names)):
        families = lack & (tree.in_level_order.level == level)
        if number := int(families.sum()):
            first = int(np.argmax(families))
            path = tree.path(int(tree.at(first)))
            labels = f"{below}s" if below in PLURALS else f"labels of {below}"
            has_words = f"{' › '.join(map(str, path)) or 'the total'} has {has[first]:,} of {usual[first]:,} {labels}"
            more = f", and {number - 1:,} more of {above} lack some" if number > 1 else ""
            yield Incomplete(families, f"{has_words}{more}: {NOT_MEASURED}")


def _may_lack(tree: Tree) -> Bools:
    """Families that lack a label of their level, or that no other can be compared with."""
    has, usual = lacking(tree, 0)
    for level in range(1, tree.depth):
        parents = np.unique(tree.family[tree.slice(level)])
        has[parents] -= len(parents) == 1
    short: Bools = has < usual
    return short


def miss_totals(tree: Tree, measured: Measurements) -> Iterator[Incomplete]:
    """The families of each level that may lack rows, and miss their measured totals by more than noise explains."""
    x, var, kurtosis = (tree.to_level_order(a) for a in (measured.noisy, measured.variance, measured.excess()))
    (has, usual), suspect, nothing = lacking(tree, RECURS), _may_lack(tree), var == np.inf
    z, v, known = np.where(nothing, 0.0, x), var.copy(), np.where(nothing, 0.0, var)
    scale = max(float(known.max()), 1e-300)  # squares of variances may be too large for numbers
    fourth = kurtosis * (known / scale) ** 2
    freedom = np.inf if measured.freedom is None else float(np.min(measured.freedom))
    signs = (1, -1) if measured.signed else (1,)
    for level in reversed(range(tree.depth - 1)):  # the bottom-up pass, in which incomplete families have no say
        family = Family(tree, level)
        p, c = family.parent, family.children
        below, spread = family.sum(z[c]), family.sum(v[c])
        noise, off = var[p] + spread, x[p] - below
        use = np.flatnonzero((noise > 0) & (noise < np.inf))
        n, excess = noise[use], (fourth[p] + family.sum(fourth[c]))[use] / (noise[use] / scale) ** 2
        some, lacks, several = suspect[p[use]], (has < usual)[p[use]], family.count[use] > 1
        wrong, short = _too_small(-off[use], n, excess, lacks | True, freedom, FAR), np.zeros(len(use), bool)
        tests = [(1, some & several, several, FAR), (1, ~some & several, several, FAR)]
        tests += [(sign, some, lacks, BY_CHANCE / (tree.depth - 1) / len(signs)) for sign in signs]
        for sign, of, odd, by_chance in tests:
            short[of] |= _too_small(sign * off[use][of], n[of], excess[of], odd[of], freedom, by_chance)
        if short.any():
            alike = suspect[p] & (family.sum(1.0 * nothing[c]) == 0)  # measured or not
            lost = p[use][short] if not short[some].all() or not some.any() else np.union1d(p[use][short], p[alike])
            share = below[use][short].sum() / (x[p[use]][short].sum() or np.nan)
            spread[np.isin(p, lost)] = np.inf
            above, under = tree.level_names[level : level + 2]
            where = f"where rows may be missing ({len(lost):,} families)"
            if len(lost) == 1:
                path = tree.path(int(tree.at(lost[0])))
                where = f"in {' › '.join(map(str, path)) or 'the total'}, where rows seem to be missing"
            yield Incomplete(
                np.isin(np.arange(len(tree)), lost),
                f"figures of {under} add up to {share:.0%} of those of {above} {where}, which noise does not explain: "
                f"{NOT_MEASURED}",
            )
        z[p], v[p] = combine(z[p], var[p], below, spread)
        v[p[use[wrong]]] = np.inf  # of figures that tell nothing of those above them


def _too_small(off: Floats, noise: Floats, excess: Floats, lacks: Bools, freedom: float, by_chance: float) -> Bools:
    """Of families that are off by so much, all, if their sum is too large for noise, and for one odd figure; else some.

    Those alone may be some that `lack` labels of most families: else a single figure may as well be mangled.
    """
    if not len(off):
        return lacks
    of_sum = (excess * (noise / noise.sum()) ** 2).sum(keepdims=True)
    reach = quantile(1 - 2 * by_chance, of_sum, freedom)[0] * np.sqrt(noise.sum())
    if len(off) > 2 and off.sum() > max(reach, MANY * off.std() * np.sqrt(len(off))):
        return np.ones(len(off), bool)
    each = quantile(1 - max(2 * by_chance / len(off), 1e-14), excess, freedom) * np.sqrt(noise)
    odd: Bools = lacks & (off > each)
    return odd

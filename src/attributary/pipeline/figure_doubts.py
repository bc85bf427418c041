"""Figure doubts: what figures say against how they are read: cut at 0, rounded, no sums, or rows that are missing."""

import re
from collections.abc import Iterator
from itertools import pairwise
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from attributary.denoising.quantile import quantile
from attributary.errors import InputError
from attributary.measurements import Measurements, combine
from attributary.tables import shown
from attributary.tables.number_form import EMPTY
from attributary.tree import Family, Tree
from attributary.tree.match import RECURS, lacking
from attributary.types import Bools, Floats

ALMOST_ALL = 0.9  # families
CLEAR, LIKELY = 4.0, 1.0  # standard deviations that averages miss sums by; the latter if their name says so
BY_CHANCE = 1e-6  # how often honest figures may look cut
STEPS = (1000.0, 500.0, 100.0, 50.0, 25.0, 20.0, 10.0, 5.0, 2.0, 1.0)
DISTINCT = 10  # figures that tell a step of rounding
MATTERS = 0.02  # of the variance, or of a level's figures
AVERAGE = re.compile(
    r"%|(^|[\W_])(avg|average|mean|median|rate|ratio|share|percent|percentage|pct|per|price|ctr|"
    r"durchschnitt|mittelwert|anteil|quote|prozent|preis|moyenne|taux|promedio|media|tasa)([\W_]|$)"
)  # in the name of a column of figures that do not add up
FAR = 8.0  # standard deviations between the sums of two levels that noise does not explain


def doubts_of(measured: Measurements, path: str, rounded: bool = False) -> list[str]:
    """What is doubtful about measurements, in words.

    Whole numbers are no doubt: noise may be whole, and to round to 1 adds 1/12.
    """
    tree, known = measured.tree, (measured.variance > 0) & (measured.variance < np.inf)
    if tree is None or not known.any() or measured.noisy.ndim > 1:
        return []
    noisy, variance, doubts = measured.noisy[known], measured.variance[known], list[str]()
    zeros = clamped(noisy, variance)
    if zeros:
        doubts.append(
            f"figures look cut at 0 ({zeros:,} are 0 and none is below, though their noise has standard deviation "
            f"{sqrt(float(np.median(variance))):.3g}): sums of small ones are too high; ask for uncut figures"
        )
    step = 0.0 if rounded else rounding_step(noisy)
    if step > 1 and step**2 / 12 > MATTERS * float(np.median(variance)):
        doubts.append(
            f"all figures are multiples of {step:g}: if they were rounded after noise was added, say so "
            f"(`noise=…,rounded={step:g}`), which adds {step**2 / 12:.3g} to their variance"
        )
    for gap in level_gaps(tree, measured):
        doubts.append(
            f"figures of {gap.below} add up to {gap.share:.0%} of those of {gap.above}, which noise does not explain "
            f"({gap.z:+.0f} standard deviations): they do not measure the same (rows left out, a limit of groups per "
            "user, or distinct users?), and what is made of them is off"
        )
    return doubts


def refuse_averages(measured: Measurements, value: str, path: str) -> None:
    """Raises an InputError where the figures of a level are between those below them, and not near their sums."""
    tree, named = measured.tree, AVERAGE.search(value.lower()) is not None
    gaps = [] if tree is None or measured.noisy.ndim > 1 else level_gaps(tree, measured, LIKELY if named else CLEAR)
    for gap in gaps:
        if gap.averages:
            rule = f"each figure of {gap.above} is between those of {gap.below} under it, as averages and rates are"
            raise InputError(f"{shown(path)}: {rule}, which do not add up; give counts or sums")


def clamped(noisy: Floats, variance: Floats) -> int:
    """How many figures are exactly 0 because lower ones were cut; 0 if none were.

    Of figures that are 0 or less, honest noise of standard deviation σ leaves at most about 3/σ at exactly 0.
    """
    zero = noisy == 0
    if (noisy < 0).any() or not zero.any():
        return 0
    chance = np.minimum(3 / np.sqrt(variance[zero]), 1)
    return int(zero.sum()) if -float(np.log(chance).sum()) > -log(BY_CHANCE) else 0


def rounding_step(noisy: Floats) -> float:
    """The largest usual step that all figures are multiples of; 0 if they are not whole, or too few to tell."""
    first = noisy[:1000]  # which nearly always tell
    steps = [step for step in STEPS if (np.remainder(first, step) == 0).all()]
    if not steps or len(np.unique(noisy)) < DISTINCT:
        return 0.0
    return next((step for step in steps if (np.remainder(noisy, step) == 0).all()), 0.0)


class LevelGap(NamedTuple):
    """Two levels whose figures do not have the same sum."""

    above: str
    below: str
    share: float  # of the sum of the lower level in that of the upper
    z: float
    averages: bool  # each figure above is between those below it


def level_gaps(tree: Tree, measured: Measurements, clear: float = CLEAR) -> list[LevelGap]:
    """The levels whose sums differ by more than noise, and by more than how far single families are off, explains.

    Levels of averages are among them, if the sums are off by so many standard deviations that it is `clear`.
    """
    noisy, variance = tree.to_level_order(measured.noisy), tree.to_level_order(measured.variance)
    gaps = []
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        x, figure, own = noisy[family.children], noisy[family.parent], variance[family.parent]
        total, noise = family.sum(x), family.sum(variance[family.children]) + own
        use = (noise < np.inf) & (noise > 0)
        off, share = (total - figure)[use], float(total[use].sum()) / float(figure[use].sum() or 1)
        if not use.any() or not abs(off.sum()) > MATTERS * np.abs(figure[use]).sum():
            continue
        z = float(off.sum() / np.sqrt(noise[use].sum()))
        apart = float(off.std() * sqrt(len(off))) if len(off) > 2 else 0.0  # if single families are off at random
        far, averages = abs(z) > FAR and abs(float(off.sum())) > FAR / 2 * apart, False
        several = use & (family.count > 1)
        if z > clear and several.sum() > 1:
            low, high = (reduce.reduceat(x, family.start)[several] for reduce in (np.minimum, np.maximum))
            figure, slack = figure[several], 2 * np.sqrt(own[several])
            between = (low - slack <= figure) & (figure <= high + slack) & (low > 0)
            mean = (total / family.count)[several].sum()
            nearer = abs(figure.sum() - mean) < abs(figure.sum() - high.sum())
            averages = bool(between.mean() >= ALMOST_ALL and nearer)
        if far or averages:
            above, below = tree.level_names[level : level + 2]
            gaps.append(LevelGap(above, below, share, z, averages))
    return gaps


# Families of a table lack rows, since systems drop small groups and exports have gaps.
#
# What a family lacks was not measured: its parent and the rows that are there keep their own figures, and what is left
# is at least 0. Labels show it, where nine in ten families of a level have one that a family lacks, or nine in ten
# below nodes of the same label, as first quarters. Else figures do: parents exceed the sums of their rows by more than
# noise explains, in all families together whose labels do not show that they are complete; or by far more, in any
# family of two rows or more. A parent far below the sum of its rows lacks none: some figure is wrong. Where figures may
# be below 0, as profits, what is missing may be, too.

OFTEN = 0.9  # of the families of a level have a label that is expected in all of them
LACK_BY_CHANCE = 1e-4  # how often a table without missing rows may look as if it had some
FAR_SHORT = 1e-9  # the same of families whose labels show that they are complete: 6 standard deviations
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
        wrong, short = _too_small(-off[use], n, excess, lacks | True, freedom, FAR_SHORT), np.zeros(len(use), bool)
        tests = [(1, some & several, several, FAR_SHORT), (1, ~some & several, several, FAR_SHORT)]
        tests += [(sign, some, lacks, LACK_BY_CHANCE / (tree.depth - 1) / len(signs)) for sign in signs]
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
            words = f"figures of {under} add up to {share:.0%} of those of {above} {where}"
            words += f", which noise does not explain: {NOT_MEASURED}"
            yield Incomplete(np.isin(np.arange(len(tree)), lost), words)
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

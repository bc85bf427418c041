"""Figure doubts: what figures say against how they are read: cut at 0, rounded, or levels that cannot add up."""

import re
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.tables import shown
from attributary.tree import Family, Tree
from attributary.types import Floats

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
            raise InputError(
                f"{shown(path)}: each figure of {gap.above} is between those of {gap.below} under it, as averages and "
                "rates are, which do not add up; give counts or sums"
            )


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

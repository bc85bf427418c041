"""estimate_noise: how much noise there is, from how far figures miss adding up, where nobody states it.

Figures that were measured twice, as a node and as the sum of those below it, differ by noise alone. With unknown
variances θ, one for each group of levels, residual maximum likelihood (REML) asks of each group that

    Σ (x_v − x̂_v)² / var_v² = Σ P_vv,    P_vv = (1 − v̂ar_v / var_v) / var_v,

both sums over its nodes. Its information is ½·Σ D_vm, D_vm = −∂P_vv/∂θ_m, and Fisher's scoring goes by it. One group
alone has θ̂ = Σ (x_v − x̂_v)² / degrees of freedom. The noise need not be normal: with tails of excess kurtosis κ, what
the score of l shares with that of m grows by Σ κ_v·var_v²·D_vl·D_vm / 4. The estimates' variances are as uncertain as θ̂
makes them, and have Satterthwaite's degrees of freedom, which intervals allow for.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, sqrt
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.passes import blue, engine
from attributary.denoising.quantile import quantile
from attributary.measurements import Measurements
from attributary.noise import shape_of
from attributary.tree import Family, Tree
from attributary.types import Floats, Ints

LEAST = 8.0  # degrees of freedom of each variance: with fewer, it is known to less than half of itself
LEAST_ALONE = (
    6.0  # where there is one, by which no figure is weighed: intervals, which allow for it, hold (docs/table.md)
)
ROUNDS = 100
LARGEST = 1e100  # figures are squared, and squares are
STEP = 1e-3  # of derivatives, relative
FALSE_ALARMS = 0.05  # the chance that a figure is left out of a table where nothing is wrong
DOUBTLESS = 1.5  # a median of few moves may be small by chance
FEW = 0.2  # of the figures: more are not taken for implausible
UNLIKE = 0.02  # the chance that levels with alike noise are taken to differ
CLEAR = 1e-6  # the least information on a part of the variances, relative to the most


class NoiseLevel(NamedTuple):
    """The variance of each group's noise with its standard error, and the measurements with that noise."""

    measurements: Measurements
    groups: tuple[str, ...]  # the levels of each, in words
    variance: Floats
    error: Floats
    checks: float  # how many figures there are beyond those needed
    left_out: int = 0  # figures that noise does not explain, and those that they are summed with
    unlike: str = ""  # which level's noise differs from what is taken for it, in words
    unseen: str = ""  # the levels of which that cannot be seen

    @property
    def words(self) -> list[str]:
        """The estimated levels in words, one line for each group."""
        out = f", without {self.left_out:,} implausible figures" if self.left_out else ""
        each = [
            f"noise of {name}: standard deviation {v**0.5:.4g} ± {e / 2 / v**0.5:.2g}, estimated from how far the rows "
            f"miss adding up ({self.checks:,.0f} checks{out}); the intervals allow for it"
            for name, v, e in zip(self.groups, self.variance, self.error, strict=True)
        ]
        if self.unlike:
            return [*each, f"{self.unlike}: the intervals do not allow for that"]
        few = (
            f"too few checks to compare the noise of {self.unseen} with that of other levels; the intervals are right "
            "if it is the same"
        )
        return [*each, few] if self.unseen else each


def estimate_noise(
    tree: Tree, noisy: ArrayLike, *, shape: str = "laplace", per: str | Sequence[object] = "all", extra: ArrayLike = 0.0
) -> NoiseLevel:
    """The noise level of a tree's figures, nan where nothing was measured, from how far they miss adding up.

    `per` is "all" for one variance, "level" for one per level, or a name per level: those of one name share it.
    `extra` is variance that is known besides, as of rounding. Refused where too little is measured twice, or where
    what one group's noise adds cannot be told from another's.
    """
    group, names = _groups(tree, per)
    back, into = tree.from_level_order, tree.to_level_order
    x = into(np.asarray(noisy, np.float64))
    if x.shape != (len(tree),):
        raise ValueError(f"one figure for each of the {len(tree)} nodes is needed; got shape {x.shape}")
    most = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    if most > LARGEST:
        raise ValueError(f"the noise level is estimated of figures up to {LARGEST:g}; got {most:g}")
    known, besides = np.isfinite(x), into(np.broadcast_to(np.asarray(extra, np.float64), x.shape))
    figures = _Figures(tree, np.where(known, x, 0.0), known & (besides < np.inf), group, besides, len(names))
    checks, theta, moved = _maximum(figures)
    odd = _implausible(figures, theta, shape)
    kept = figures._replace(known=figures.known & ~odd)
    if odd.any():
        checks, theta, moved = _maximum(kept)
    of, slope = _parts(kept, theta), _slopes(kept, theta)
    tails = shape_of(shape).excess(of.variance) * np.where(kept.known, of.variance, 0.0) ** 2 / 4
    information = _information(kept, theta, slope.spare)
    inverse = np.linalg.pinv(information, CLEAR)
    each = slope.spare * theta
    spread = inverse @ (information + (each.T * tails) @ each) @ inverse  # of log θ̂
    freedom = 2 / np.maximum(np.diag(spread), 1e-12)
    clear = (np.diag(inverse @ information) > 0.999) & (np.abs(moved) < 1e-3)
    least = LEAST_ALONE if len(names) == 1 else LEAST
    if not (clear & (freedom >= least)).all():
        _refuse(names, clear & (freedom >= least), checks, float(freedom[0]))
    if odd.any():
        of, slope = _parts(figures, theta), _slopes(figures, theta)
    pull = slope.left * theta
    with np.errstate(invalid="ignore", divide="ignore"):
        satterthwaite = 2 * of.left**2 / np.einsum("vl,lm,vm->v", pull, spread, pull)
    satterthwaite[~(satterthwaite >= least)] = np.inf  # what is not estimated, or exact
    measured = Measurements.of(tree, back(figures.x), back(of.variance), shape)
    measured = replace(measured, freedom=back(satterthwaite))
    return NoiseLevel(
        measured, names, theta, theta * np.sqrt(np.diag(spread)), checks, int(odd.sum()), *_unlike(kept, theta, shape)
    )


class _Figures(NamedTuple):
    """Figures in level order, and what their variances are made of."""

    tree: Tree
    x: Floats
    known: np.ndarray
    group: Ints
    extra: Floats
    groups: int

    def sums(self, values: Floats) -> Floats:
        return np.bincount(self.group, values, self.groups).astype(np.float64)


class _Parts(NamedTuple):
    """Four numbers for each node: its figure's variance, P, residual by variance, and the estimate's variance."""

    variance: Floats
    spare: Floats
    residual: Floats
    left: Floats


def _parts(figures: _Figures, theta: Floats) -> _Parts:
    variance = np.where(figures.known, theta[figures.group] + figures.extra, np.inf)
    count, left = blue(figures.tree, figures.x, variance)
    some = np.where(figures.known, variance, 1.0)
    spare = np.where(figures.known, np.maximum(1 - left / some, 0.0) / some, 0.0)
    return _Parts(variance, spare, np.where(figures.known, (figures.x - count) / some, 0.0), left)


def _slopes(figures: _Figures, theta: Floats) -> _Parts:
    """The derivatives by each θ, one column each, with the sign of the spare turned; 0 where there are none."""
    columns = []
    for k in range(figures.groups):
        low, high = (
            _parts(figures, theta * np.where(np.arange(figures.groups) == k, 1 + h, 1.0)) for h in (-STEP, STEP)
        )
        with np.errstate(invalid="ignore"):
            columns.append([(b - a) / (2 * STEP * theta[k]) for a, b in zip(low, high, strict=True)])
    stacked = (np.nan_to_num(np.stack(each, 1), posinf=0.0, neginf=0.0) for each in zip(*columns, strict=True))
    slope = _Parts(*stacked)
    return slope._replace(spare=-slope.spare)


def _information(figures: _Figures, theta: Floats, slope: Floats) -> Floats:
    """Fisher's information on log θ."""
    half = np.stack([figures.sums(each) for each in slope.T], 1) * np.outer(theta, theta) / 2
    return (half + half.T) / 2


def _maximum(figures: _Figures) -> tuple[float, Floats, Floats]:
    """How many figures there are beyond those needed, the most likely θ, by Fisher's scoring, and its last step."""
    plain = _parts(figures._replace(extra=np.zeros(len(figures.x))), np.ones(figures.groups))
    checks = float(plain.spare.sum())
    if checks < 1e-9:
        raise ValueError(
            "the noise level cannot be estimated, since no figure is measured twice: rows are needed for nodes and for "
            "all that is below them; add them, or state the noise"
        )
    theta = np.full(figures.groups, float((plain.residual**2).sum() / checks))
    if not theta[0] > (1e-9 * float(np.abs(figures.x).max(initial=1.0))) ** 2:
        raise ValueError("the noise level cannot be estimated, since the rows add up exactly: they have no noise")
    moved, rounds = np.ones(figures.groups), 0
    while np.abs(moved).max() > 1e-9 and rounds < ROUNDS:
        of, slope = _parts(figures, theta), _slopes(figures, theta)
        score = (figures.sums(of.residual**2) - figures.sums(of.spare)) / 2 * theta
        moved = np.clip(np.linalg.pinv(_information(figures, theta, slope.spare), CLEAR) @ score, -1.0, 1.0)
        theta, rounds = theta * np.exp(moved), rounds + 1
    return checks, theta, moved


def _implausible(figures: _Figures, theta: Floats, shape: str) -> np.ndarray:
    """Figures moved further than noise explains that is as large as the median move says; none if they are many."""
    of = _parts(figures, theta)
    seen = of.spare * np.where(figures.known, of.variance, 0.0) > 1e-9
    move = np.abs(np.where(seen, of.residual, 0.0)) / np.sqrt(np.where(seen, of.spare, 1.0))
    variance = np.where(figures.known, of.variance, 1.0)
    usual = np.median(move[seen] / quantile(0.5, shape_of(shape).excess(variance))[seen])
    beyond = shape_of(shape).beyond(variance, FALSE_ALARMS / max(int(seen.sum()), 1))
    odd: np.ndarray = seen & (move > DOUBTLESS * beyond * usual)
    level = np.repeat(np.arange(figures.tree.depth), np.diff(figures.tree.offsets))
    of_level, odd_of_level = (np.bincount(level, each) for each in (seen, odd))
    odd &= (odd_of_level <= FEW * of_level)[level]  # where many of a level are, its noise is larger
    return odd if odd.sum() <= FEW * seen.sum() else np.zeros_like(odd)


def _unlike(figures: _Figures, theta: Floats, shape: str) -> tuple[str, str]:
    """The level that misses the sums below it by more or less than the others, and those with too few to see it.

    How far a figure misses the best estimate from below is independent of all other such misses. Their mean squares,
    relative to what is expected, are compared between levels by F, with degrees of freedom that know the tails.
    """
    from statistics import NormalDist

    tree, names = figures.tree, figures.tree.level_names
    variance = np.where(figures.known, theta[figures.group] + figures.extra, np.inf)
    z, up = engine(tree).upward(tree, figures.x, variance)
    tails, rows = shape_of(shape).excess(variance), []  # a level's misses, their squares, and the variances of these
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        p, below = family.parent, family.sum(up[family.children])
        use = (variance[p] + below > 0) & (variance[p] + below < np.inf)
        own, both = variance[p][use], (variance[p] + below)[use]
        square = (figures.x[p] - family.sum(z[family.children]))[use] ** 2 / both
        rest = tails[p][use] * ((own / both) ** 2 + (1 - own / both) ** 2)  # at most: what is below is a sum
        if use.any():
            rows.append((level, float(use.sum()), float(square.sum()), float((2 + rest).sum())))
    worst, words = NormalDist().inv_cdf(1 - UNLIKE / 2 / max(len(rows), 1)), ""
    for i, (level, n, square, var) in enumerate(rows):
        m, others, other_var = (sum(row[k] for j, row in enumerate(rows) if j != i) for k in (1, 2, 3))
        if not (m and square and others):
            continue
        a, b, f = var / n**2 / 9, other_var / m**2 / 9, (square / n * m / others) ** (1 / 3)
        far = abs(f * (1 - b) - (1 - a)) / (f**2 * b + a) ** 0.5  # Paulson: the cube root of F is about normal
        if far > worst:
            worst, times = far, sqrt(square / n * m / others)
            words = (
                f"levels differ in their noise: figures of {names[level]} miss their sums {times:.2g} times as far as "
                "those of other levels, if all have the same noise"
            )
    seen = {row[0] for row in rows if 2 * row[1] ** 2 >= LEAST * row[3]}
    few = [names[level] for level in range(tree.depth - 1) if level not in seen or len(seen) == 1]
    return words, ", ".join(few) if figures.groups < tree.depth else ""


def _groups(tree: Tree, per: str | Sequence[object]) -> tuple[Ints, tuple[str, ...]]:
    """Which group each node is of, in level order, and the groups' levels in words."""
    labels = per.split(",") if isinstance(per, str) else [str(each) for each in per]
    if labels in (["all"], ["level"]):
        labels = ["all"] * tree.depth if labels == ["all"] else [str(level) for level in range(tree.depth)]
    if len(labels) != tree.depth:
        raise ValueError(
            f'noise is estimated per "all", "level", or with a name for each of the {tree.depth} levels '
            f"({', '.join(tree.level_names)}), those of one name together, as in 1,2,2; got {per!r}"
        )
    distinct = list(dict.fromkeys(labels))
    words = tuple(
        ", ".join(name for name, label in zip(tree.level_names, labels, strict=True) if label == one)
        for one in distinct
    )
    each = np.repeat([distinct.index(label) for label in labels], np.diff(tree.offsets))
    return each, words if len(words) > 1 else ("all levels",)


def _refuse(names: tuple[str, ...], good: np.ndarray, checks: float, freedom: float) -> NoReturn:
    if len(names) == 1:
        raise ValueError(
            f"the noise level cannot be estimated from {checks:,.0f} figures measured twice; with noise of this shape "
            f"about {ceil(LEAST_ALONE * checks / freedom):,} are needed: add rows of totals, or state the noise"
        )
    bad = " and of ".join(name for name, fine in zip(names, good, strict=True) if not fine)
    raise ValueError(
        f"the noise of {bad} cannot be separated from that of other levels by these figures (it can where "
        f'their nodes have families of many sizes); estimate one level for all, with per="all", or say which levels '
        "share theirs, as in per=1,2,2"
    )

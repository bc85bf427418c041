"""earlier: the counts of an earlier period as a prior on today's tree.

The earlier period is a table of counts, or an earlier denoised report. Rows are matched by their paths and leaves are
added up, so that the prior is consistent even if nodes were added or removed since.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attributary import rmsre
from attributary.changes.series import Series, periods
from attributary.denoising.nonnegative import settled
from attributary.denoising.passes import engine
from attributary.denoising.prior import Prior, measured
from attributary.errors import InputError
from attributary.estimates import noted, with_columns
from attributary.spec import Measure, Spec
from attributary.spec.measure import AT, BEYOND, COUNT, FROM, OF
from attributary.tables.table_columns import EXACT_PRIOR, TRUE_COUNTS, arrow_table, floats, mark, words_of
from attributary.tree import Tree
from attributary.tree.match import Match, match, path_of, refuse_other_tree
from attributary.tree.paths import RowError, codes, text_labels
from attributary.types import Arrow, Bools, Floats, Frame, Ints

PRIOR = "the prior"  # in messages
NOISY = "noisy"  # a column of reports
PERIODS, HISTORY = "periods", "history"  # a column, and metadata, of several periods that were made one


def none(tree: Tree) -> Prior:
    """No prior: all counts are 0, and all errors relative to τ."""
    return Prior(np.zeros(len(tree)), protected=True)


def as_period(tree: Tree, earlier: Prior | None) -> Prior | None:
    """An earlier period as estimates use it, with its new nodes; None where it says nothing of the counts.

    A mean with a variance, and nothing else, are measurements: the counts are the best linear estimate of them, and
    nodes that they do not determine are new.
    """
    if earlier is not None and earlier.share is not None:
        raise ValueError("shares are learned here; give the earlier period, not what was learned")
    if earlier is None or earlier.new is not None or not earlier.history:
        return earlier if earlier and earlier.history else None
    if (given := measured(tree, earlier)) is None:
        return replace(earlier, new=np.zeros(len(tree), bool)) if earlier.variance is None else None
    count, variance = engine(tree).blue(tree, *(tree.to_level_order(values) for values in given))
    new, back = variance == np.inf, tree.from_level_order
    return replace(earlier, mean=back(np.where(new, 0.0, count)), variance=back(variance), new=back(new))


def from_counts(
    tree: Tree,
    counts: Frame,
    *,
    known: Collection[str] | None = None,
    protected: bool = False,
    value: str = "conversions",
    spec: Spec | None = None,
) -> Prior:
    """The counts of an earlier period: a table with the tree's attributes and `value`, a row for each leaf.

    Rows of one path add up; a path without a row has no conversions. `known` names the attributes whose values can be
    new (default: all); the others have a fixed domain. Counts are not protected unless you say so. With the `spec` that
    they were counted by, the prior has the sums of its measures, and what limits cut off of them (`profile`).
    """
    table, rows = _matched(tree, counts)
    count = floats(table, value, PRIOR)
    _refuse(~(np.isfinite(count) & (count >= 0)), count, f"a count is a number, 0 or more; {value!r} is")
    made = _prior(tree, table, rows, count, None, known, protected)
    return made if spec is None else replace(made, profile=_profile(tree, spec, table, rows))


def from_estimates(tree: Tree, estimates: object, *, known: Collection[str] | None = None) -> Prior:
    """An earlier denoised report: the tree's attributes, `estimate` and `variance`, a row for each node or each leaf.

    The variance of a node whose leaves have all stayed is the report's; else the sum of its leaves', which is never too
    small, since estimates of different leaves are not positively correlated.
    """
    table, rows = _matched(tree, estimates)
    estimate, variance = floats(table, "estimate", PRIOR), floats(table, "variance", PRIOR)
    _refuse(~np.isfinite(estimate), estimate, "an estimate is a finite number; 'estimate' is")
    _refuse(~(variance >= 0), variance, "a variance is 0 or more; 'variance' is")
    _refuse_twice(tree, rows)
    made = _prior(tree, table, rows, estimate, _variance(tree, rows, variance), known, True)
    if NOISY in table.column_names:
        noisy = np.full(len(tree), np.nan)
        noisy[rows.node[rows.node >= 0]] = floats(table, NOISY, PRIOR)[rows.node >= 0]
        made = replace(made, noisy=tree.from_level_order(noisy))
    if HISTORY.encode() not in (table.schema.metadata or {}):
        return made
    each = np.ones(len(tree))
    each[rows.node[rows.node >= 0]] = floats(table, PERIODS, PRIOR)[rows.node >= 0]
    each = tree.from_level_order(each[tree.in_level_order.ancestor(0)])  # those of the root
    return replace(made, periods=each, source=table.schema.metadata[HISTORY.encode()].decode())


def _matched(tree: Tree, frame: Frame) -> tuple[Arrow, Match]:
    """The Arrow table of an earlier period, and where its rows stand in the tree."""
    table = arrow_table(frame)
    if table.num_rows == 0:
        raise ValueError("a prior needs at least one row; the table is empty")
    return table, match(tree, table)


def _prior(
    tree: Tree,
    table: Arrow,
    rows: Match,
    count: Floats,
    variance: Floats | None,
    known: Collection[str] | None,
    protected: bool,
) -> Prior:
    """The prior whose leaves are the sums of their rows' counts; the variance of nodes, if any, in level order."""
    _refuse_other_domain(tree, table, rows, known, count)
    refuse_other_tree(tree, table, rows)
    leaves = np.bincount(rows.node[rows.leaf], count[rows.leaf], len(tree)).astype(np.float64, copy=False)
    mean, back = tree.in_level_order.sum_up(leaves), tree.from_level_order
    var = None if variance is None else back(variance)
    new = back(_new(tree, rows, known))
    gone = np.flatnonzero(rows.gone)
    example = path_of(tree, table, int(gone[0])) if len(gone) else ""
    words = words_of(table).replace(TRUE_COUNTS, EXACT_PRIOR) or ("" if protected else EXACT_PRIOR)
    lost = float(count[gone].sum())
    return Prior(back(mean), var, protected and not words, new, len(gone), lost, example, not_private=words)


def _variance(tree: Tree, rows: Match, reported: Floats) -> Floats:
    """Variances in level order: those reported for leaves and where nothing below has changed, else sums."""
    variance = np.full(len(tree), np.inf)
    variance[rows.node[rows.node >= 0]] = reported[rows.node >= 0]
    changed = np.ones(len(tree), bool)
    changed[rows.node[rows.node >= 0]] = False
    changed[rows.last[(rows.node < 0) & (rows.last >= 0)]] = True
    return _sums_above(tree, variance, changed)


def _sums_above(tree: Tree, variance: Floats, changed: Bools) -> Floats:
    """The variances, at and above nodes that have changed the sums of those below."""
    changed = tree.in_level_order.sum_up(changed, np.logical_or)
    summed = variance.copy()
    for family in tree.families(upwards=True):
        sums = family.sum(summed[family.children])
        summed[family.parent] = np.where(changed[family.parent], sums, variance[family.parent])
    return summed


def _new(tree: Tree, rows: Match, known: Collection[str] | None) -> Bools:
    """Marks new nodes: no row is at or below them, nor any other node that has the same known labels (level order)."""
    seen = np.zeros(len(tree), bool)
    seen[rows.last[rows.last >= 0]] = True
    seen = tree.in_level_order.sum_up(seen, np.logical_or)
    known = tree.attributes if known is None else known
    for level, number in enumerate(tree.numbered(known)):
        here = tree.slice(level)
        if level and tree.level_names[level] not in known:
            seen[here] |= seen[tree.family[here]]
        seen[here] = (np.bincount(number, seen[here]) > 0)[number]
    return ~seen


def _refuse(bad: Bools, values: Floats, rule: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(row, f"{rule} {'empty or nan' if np.isnan(values[row]) else format(values[row], 'g')}")


def _refuse_other_domain(tree: Tree, table: Arrow, rows: Match, known: Collection[str] | None, count: Floats) -> None:
    """Raises ValueError where an attribute with a domain has values that are not in it."""
    for name in [] if known is None else [name for name in tree.attributes if name not in known]:
        labels, domain = text_labels(table, name), tree.labels[tree.attributes.index(name)].dictionary.to_pylist()
        inside = set(map(str, domain))
        bad = np.array([label not in inside for label in labels.dictionary.to_pylist()] + [False])[codes(labels)]
        bad &= count != 0
        if bad.any():
            lost, total = (float(count[each & rows.complete].sum()) for each in (bad, np.ones_like(bad)))
            theirs = table.column(name)[int(np.argmax(bad))].as_py()
            meant = next((label for label in inside if _plain(label) == _plain(str(theirs))), None)
            again = "choose values that come again in every period, such as weekdays or days since the impression"
            remedy = f"write it {meant!r:.40}" if meant else f"{again}, or rename these, or leave their rows out"
            raise ValueError(
                f"{name!r} has a domain, and {lost:,.0f} of {total:,.0f} conversions have a value outside it, such as "
                f"{theirs!r:.40} (the domain begins with {domain[0]!r:.40}); {remedy}"
            )


def _plain(label: str) -> str:
    return re.sub(r"^0+(?=\d)|\.0+$", "", label.strip().casefold())


def _refuse_twice(tree: Tree, rows: Match) -> None:
    there = np.flatnonzero(rows.node >= 0)
    first = np.full(len(tree), -1)
    first[rows.node[there][::-1]] = there[::-1]
    again = there[first[rows.node[there]] != there]
    if len(again):
        before = int(first[rows.node[again[0]]])
        raise RowError(int(again[0]), f"its path is that of row {before + 1}; an estimate is there once: leave one out")


# Profile: what is known beforehand of all measures: their sums, and how much limits would cut off.
#
# A table of counts by rank and value bin, as `attributary count` writes it if the plan chooses limits, shows what any
# limit cuts off; a table counted under limits shows it for those.

CLOSE = 1e-9  # of a clip: where the step that begins there is clipped


@dataclass(frozen=True, eq=False)
class Profile:
    """Rows of conversions, one per leaf, rank and value bin. Inside, level order; results are in the tree's order."""

    tree: Tree
    leaf: Ints  # of each row, in level order
    number: Floats  # of conversions
    value: Mapping[str, Floats]  # sums of values, by measure
    rank: Ints | None = None  # None: not told
    begin: Mapping[str, Floats] = field(default_factory=dict)  # where each row's values begin, by measure
    beyond: Mapping[str, Floats] = field(default_factory=dict)  # what the spec's limits cut off already, by measure
    paid: Mapping[int, Floats] = field(default_factory=dict)  # conversions if budgets paid for so many of a device
    at: Mapping[str, Mapping[float, Floats]] = field(default_factory=dict)  # sums that budgets pay for, by clip

    def full(self, measure: Measure) -> Floats:
        """The sum of each node, as if there were no limits."""
        return self._up(self._values(measure) + self.beyond.get(measure.name, 0.0))

    def limited(self, measure: Measure, most: int | Ints, clip: float) -> Floats:
        """The sum of each node under limits: conversions per impression (of each head), and a clip for values."""
        if measure.name in self.at:
            if clip not in self.at[measure.name]:
                rule = f"what budgets pay for is known of clips at {', '.join(f'{c:g}' for c in self.clips(measure))}"
                raise InputError(f"measure {measure.name!r}: {rule}; got {clip:g}: choose one, or count with it")
            return self._up(self.at[measure.name][clip])
        value = self._values(measure)
        if measure.name in self.begin:
            value = np.where(self.begin[measure.name] >= clip * (1 - CLOSE), clip * self.number, value)
        if self.rank is not None:
            value = np.where(self.rank <= (most if np.ndim(most) == 0 else np.asarray(most)[self.head]), value, 0.0)
        return self._up(value)

    def times(self, factor: float) -> "Profile":
        """The profile of a period that is so many times as long."""
        value, beyond = ({name: each * factor for name, each in sums.items()} for sums in (self.value, self.beyond))
        paid = {times: each * factor for times, each in self.paid.items()}
        at = {name: {clip: each * factor for clip, each in of.items()} for name, of in self.at.items()}
        return replace(self, number=self.number * factor, value=value, beyond=beyond, paid=paid, at=at)

    def paying(self, conversions: int | None) -> "Profile":
        """The profile if an API's budgets paid for so many conversions of a device; None: for all of them."""
        if self.at and conversions not in self.paid:
            rule = "what is reported of values is known for conversions_per_epoch = " + ", ".join(map(str, self.paid))
            raise InputError(f"{rule}; got {conversions or 'an API without it'}: count with it in the spec")
        if not self.paid or conversions is None:
            return replace(self, number=self.number + self.beyond.get(COUNT, 0.0), beyond={}) if self.paid else self
        most = max(self.paid)
        if conversions not in self.paid and conversions < most:
            known = ", ".join(map(str, sorted(self.paid)))
            rule = f"the prior tells what is reported where budgets pay for {known} conversions"
            raise InputError(f"{rule}; got {conversions}: choose one of these, or count with it in the spec")
        number = self.paid[min(conversions, most)]
        missing = self.number + self.beyond[COUNT] - number
        return replace(self, number=number, beyond={**self.beyond, COUNT: missing})

    @property
    def knows_limits(self) -> bool:
        """True if the table shows what limits cut off."""
        return self.rank is not None or bool(self.begin) or bool(self.beyond)

    @property
    def ranks(self) -> int:
        """The last rank that occurs."""
        return 1 if self.rank is None or not len(self.rank) else int(self.rank.max())

    def clips(self, measure: Measure) -> list[float]:
        """The clips whose loss is known: those that were tried, or the beginnings of bins, and one above all values."""
        if measure.name in self.at:
            return sorted(self.at[measure.name])
        begins = self.begin.get(measure.name)
        if begins is None or not (begins > 0).any():
            return []
        edges: list[float] = np.unique(begins[begins > 0]).tolist()
        return [*edges, edges[-1] * 10 ** (1 / 20)]

    def mean(self, measure: Measure) -> float:
        """The average value of a conversion; nan if there is none."""
        counted = float(self.number.sum()) + float(np.sum(self.beyond.get("count", 0.0)))
        total = float((self._values(measure) + self.beyond.get(measure.name, 0.0)).sum())
        return total / counted if counted > 0 else float("nan")

    @property
    def head(self) -> Ints:
        """Which value of the first attribute each row stands under, counted in level order."""
        return self.tree.in_level_order.ancestor(int(self.tree.total))[self.leaf].astype(np.int64)

    def _values(self, measure: Measure) -> Floats:
        return self.number if measure.is_count else self.value[measure.name]

    def _up(self, value: Floats) -> Floats:
        tree = self.tree
        leaves = np.bincount(self.leaf, value, len(tree)).astype(np.float64)
        return tree.sum_up(tree.from_level_order(leaves))


def profile(tree: Tree, spec: Spec, counts: Frame) -> Profile:
    """The profile in a table of counts; rows of paths that the tree does not have are passed over, as in a prior."""
    table = arrow_table(counts)
    rows = match(tree, table)
    refuse_other_tree(tree, table, rows)
    return _profile(tree, spec, table, rows)


def _profile(tree: Tree, spec: Spec, table: Arrow, rows: Match) -> Profile:
    here = rows.leaf
    names = {measure.name for measure in spec.values}
    columns = set(table.column_names)
    ranked = "rank" in columns
    beyond = {} if ranked else {COUNT: "conversions" + BEYOND, **{name: name + BEYOND for name in names}}
    return Profile(
        tree,
        rows.node[here],
        _numbers(table, "conversions")[here],
        {name: _numbers(table, name)[here] for name in names},
        np.nan_to_num(_numbers(table, "rank", True)[here], nan=1).astype(np.int64) if ranked else None,
        {name: np.nan_to_num(_numbers(table, name + FROM, True)[here]) for name in names if name + FROM in columns},
        {name: _numbers(table, end, signed=True)[here] for name, end in beyond.items() if end in columns},
        {int(name[len(AT) :]): _numbers(table, name)[here] for name in table.column_names if name.startswith(AT)},
        {name: at for name in names if (at := _by_clip(table, name + OF, here))},
    ).paying(spec.paid)


def _by_clip(table: Arrow, begin: str, here: Bools) -> dict[float, Floats]:
    """The columns whose names begin so and end in a number."""
    ends = {name.removeprefix(begin): name for name in table.column_names if name.startswith(begin)}
    return {float(end): _numbers(table, name)[here] for end, name in ends.items() if re.fullmatch(r"[\d.e+-]+", end)}


def _numbers(table: Arrow, name: str, some_empty: bool = False, signed: bool = False) -> Floats:
    cells = floats(table, name, "the prior")
    if not some_empty and not (np.isfinite(cells) & (signed | (cells >= 0))).all():
        raise ValueError(f"a count or a sum is a number, 0 or more; {name!r} has others, or empty cells")
    return cells


# History: several earlier reports as one earlier period, in which each counts less than the one after it.
#
# The unbiased figures x̂ of each period and their variances v̂ar are folded, from the first period to the last, with a
# discount ℓ: M ← ℓ·M + x̂ and V ← ℓ²·V + v̂ar. A node's count is its M by the sum of the ℓʲ of the periods that had it,
# so that neither a new nor a paused node looks smaller than it is. The discount is the one with which each period would
# have been predicted best by those before it.

DISCOUNTS = (0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 1.0)
USUAL = 0.8  # where there are too few periods to tell
LATEST = "latest"  # a column


def from_periods(
    tree: Tree, source: Frame, *, known: Collection[str] | None = None, discount: float | None = None, **options: Any
) -> Prior:
    """Several earlier reports as one prior: a folder of them, a mapping by name, or a `Series`.

    `known` is as in `from_estimates`, a `discount` takes the place of the one that predicts best, and options are those
    of `attributary.periods`.
    """
    series = source if isinstance(source, Series) else periods(source, least=1, **options)
    return from_estimates(tree, history(series, discount), known=known)


def history(series: Series, discount: float | None = None) -> Arrow:
    """The periods of a series as one Arrow table of estimates, by node; the discount is `best_discount` by default.

    `estimate` and `variance` are those of an average period, `periods` is how many periods' worth of conversions that
    is an average of (Σℓʲ), and `latest` whether the last period has the node. The metadata tell which periods these are
    (`history`), and the fingerprints of their noisy figures (`reports`). A period without noisy figures is refused.
    """
    for period in series.periods:
        if period.fit is None:
            raise InputError(
                f"{period.name}: a history is made of noisy figures, and its table lacks noisy and noise_variance, or "
                "they are not those that its estimates were made of; denoise it again, or leave it out"
            )
    tree, (x, var) = series.tree, _periods(series)
    ell = best_discount(series) if discount is None else discount
    power = ell ** np.arange(len(x) - 1, -1, -1.0)[:, None]
    there = var < np.inf
    weight = np.where(there, power, 0.0).sum(axis=0)
    by = np.where(weight > 0, weight, 1.0)
    M, V = (power * x).sum(axis=0), (power**2 * np.where(there, var, 0.0)).sum(axis=0)
    estimate = tree.in_level_order.sum_up(np.where(tree.in_level_order.is_leaf, M / by, 0.0))
    roots, changed = int(tree.first[0]), np.zeros(len(tree), bool)  # where leaves came or went
    np.logical_or.at(changed, tree.family[roots:], weight[roots:] != weight[tree.family[roots:]])
    columns = {"estimate": estimate, "variance": _sums_above(tree, V / by**2, changed), PERIODS: weight}
    table = with_columns(tree.table(), {name: tree.from_level_order(values) for name, values in columns.items()})
    table = table.append_column(LATEST, [tree.from_level_order(there[-1])])
    names, reports = zip(*((period.name, period.fingerprint) for period in series.periods), strict=True)
    order = f", order {series.order}" if series.order.startswith("as") else ""
    words = f"{len(names)} periods ({names[0]} to {names[-1]}{order}), discount {ell:g}"
    words = words if len(names) > 1 else f"1 period ({names[0]})"
    table = noted(table.filter(tree.from_level_order(weight > 0)), history=words, reports=",".join(reports))
    return mark(table, series.not_private)


def _periods(series: Series) -> tuple[Floats, Floats]:
    """The unbiased counts, 0 where a period lacks a node, and their variances, inf there: periods by nodes."""
    x, var = (np.stack([getattr(p.figures, name) for p in series.periods]) for name in ("count", "variance"))
    there = np.isfinite(x) & (var < np.inf)
    return np.where(there, x, 0.0), np.where(there, var, np.inf)


def best_discount(series: Series) -> float:
    """The discount with which shares of the periods so far predict the next period best."""
    x, var = _periods(series)
    if len(x) < 3:  # one earlier period predicts the same with any
        return USUAL
    losses = [_prediction_loss(series.tree, x, var, discount) for discount in DISCOUNTS]
    return DISCOUNTS[int(np.argmin(losses))]


def _prediction_loss(tree: Tree, x: Floats, var: Floats, discount: float) -> float:
    """Σ (x̂ − share·x̂ of the parent)², relative to the mean count, over all periods from the third on.

    The noise of a period is independent of the periods before, so that its part is the same for all discounts.
    """
    roots, parent, loss = int(tree.first[0]), tree.family[int(tree.first[0]) :], 0.0
    weight = rmsre.weights(x.sum(axis=0) / np.maximum((var < np.inf).sum(axis=0), 1), rmsre.TAU)[roots:]
    M, V = np.zeros(len(tree)), np.zeros(len(tree))
    for t, (now, noise) in enumerate(zip(x, var, strict=True)):
        there = (noise < np.inf)[roots:]
        if t >= 2:
            past = np.where(there, settled(tree, M.copy(), V.copy(), M, None)[roots:], 0.0)
            siblings, total = (np.bincount(parent, values, len(tree))[parent] for values in (there, past))
            share = (past + 1.0 / np.maximum(siblings, 1.0)) / (total + 1.0)  # one conversion is shared equally
            off = np.where(there, now[roots:] - share * np.maximum(now, 0.0)[parent], 0.0)
            loss += float(np.dot(off, weight * off))
        M, V = discount * M + now, discount**2 * V + np.where(noise < np.inf, noise, 0.0)
    return loss

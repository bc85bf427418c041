"""learned: what to expect of each node, from an earlier period's file and from today's figures."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attributary.cli.asked import earlier
from attributary.cli.profiled import MEASURE, measures_in, of_measure, profiled
from attributary.errors import InputError
from attributary.plan import MeasurePlan, Plan
from attributary.prior import Prior, learn
from attributary.tables import read_table, shown
from attributary.tables.not_private import words_of
from attributary.tree import Tree
from attributary.types import Floats

FAR = 20.0  # times today's sum, or a part of it: then an earlier one may be in another unit


class Past(NamedTuple):
    """What a file says of an earlier period."""

    of: list[Prior]  # of each measure, in its unit
    path: str
    not_private: str  # the words that what is made from it carries on, if any

    @property
    def notes(self) -> list[str]:
        """What to tell of its privacy."""
        if self.not_private:
            return [f"the prior {shown(self.path)} says: {self.not_private}"]
        exact = not all(prior.protected for prior in self.of)
        return [f"the prior {shown(self.path)} has counts without noise: the estimates tell a little of them"] * exact

    def far(self, number: int, name: str, tree: Tree, count: ArrayLike) -> list[str]:
        """What to tell where a measure's sum was far from that of today's counts."""
        then, now = (float(np.asarray(values)[tree.parent < 0].sum()) for values in (self.of[number].mean, count))
        if not (then > 0 and now > 0) or 1 / FAR <= then / now <= FAR:
            return []
        return [f"{name} of the prior is {then / now:.2g} times today's: is it in the same unit? only shares are used"]


def past_of_parts(plan: Plan, tree: Tree, path: str) -> Past:
    """What a file says of each measure of a plan: a report by measure, or counts under the plan's limits."""
    table, spec = read_table(path), plan.spec
    known = [attribute.name for attribute in spec.known]
    own = plan.by_measure
    if "estimate" in table.column_names:
        rows = [of_measure(table, spec, path, part.measure.name) for part in own]
        return Past([earlier(tree, known, each, path) for each in rows], path, words_of(table))
    counted, said = earlier(tree, known, table, path), profiled(spec, tree, path)
    if said is None:
        return Past([counted], path, words_of(table))
    most = plan.most_of_heads(tree)
    sums = [said.limited(part.measure, most, part.clip) for part in own]
    return Past([replace(counted, mean=mean) for mean in sums], path, words_of(table))


def past_of_table(tree: Tree, path: str) -> Past:
    """What a file says of figures without a spec; a report of several measures is refused."""
    table = read_table(path)
    report = MEASURE in table.column_names and MEASURE not in tree.attributes
    if report and len(table.column(MEASURE).unique()) > 1:
        raise InputError(
            f"{shown(path)} has several measures ({measures_in(table)}), and these are figures of one; keep the rows "
            "of one of them"
        )
    return Past([earlier(tree, None, table, path)], path, words_of(table))


def learned_part(
    part: MeasurePlan, tree: Tree, noisy: Floats, variance: Floats, past: Prior | None, worth: float
) -> Prior:
    """Shares and their spread, learned in conversions' worth: how far a guess is trusted is a number of conversions."""
    before = None if past is None else _times(past, 1 / worth)
    return _times(learn(tree, noisy / worth, variance / worth**2, before, tau=part.tau / worth), worth)


def worth_of(plan: Plan, number: int) -> float:
    """What a conversion brings on average of the plan's measure of this number, as far as is known; 1 of counts."""
    return plan.measures[number].worth


def _times(prior: Prior, factor: float) -> Prior:
    variance, spread = (None if v is None else v * factor**2 for v in (prior.variance, prior.spread))
    return replace(prior, mean=prior.mean * factor, variance=variance, spread=spread)

"""check_table: what a raw table is, whether it adds up, how noisy it is, and what denoising would gain.

>>> check = check_table(read_table("sales.csv"))
>>> check.sums, check.doubts, check.estimate                 # nothing is written, and the table stays as it is
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attributary.denoising import Estimate, denoise
from attributary.errors import InputError
from attributary.estimates import Estimates, Plausibility, Suspect, plausibility, suspects
from attributary.pipeline.figure_doubts import doubts_of
from attributary.pipeline.node_rows import node_rows, stated_bounds
from attributary.pipeline.table_form import TableForm, recognise
from attributary.tables.table_columns import arrow_table
from attributary.tree import Family
from attributary.types import Frame

ALIKE = 1e-9  # of a sum, for rounding
LISTED = 10


class SumCheck(NamedTuple):
    """The figures of a level, against the sums of those below them, where all of them are there."""

    level: str
    sums: int
    exact: int  # that hold
    typical: float  # by which the median one misses
    largest: float  # figure − sum, where it misses most
    where: str


@dataclass(frozen=True, eq=False, repr=False)
class TableCheck:
    """What a table is taken for, and what its figures say of themselves."""

    form: TableForm
    sums: tuple[SumCheck, ...]  # of each level that has any
    estimate: Estimate | None  # as `denoise` would give it; None where the noise is neither stated nor seen
    noise: str  # why not
    estimated: bool  # the noise, from how far the sums miss
    notes: tuple[str, ...]  # what was recognised, in words
    doubts: tuple[str, ...]

    def __repr__(self) -> str:
        exact, sums = (sum(getattr(each, name) for each in self.sums) for name in ("exact", "sums"))
        noise = self.noise if self.estimate is None else f"fit z = {self.estimate.fit.z:z.2f}"
        levels = " > ".join(self.form.levels)
        return f"TableCheck({self.form.called} by {levels}: {exact} of {sums} sums add up; {noise})"

    @cached_property
    def plausibility(self) -> Plausibility | None:
        """Whether the noise is as stated, and which figures noise does not explain."""
        return None if self.estimate is None else plausibility(self.estimate)

    @cached_property
    def mangled(self) -> tuple[int, list[Suspect]]:
        """How many figures look mangled, and the worst of them."""
        if self.estimate is None:
            return 0, []
        est = Estimates.of(self.estimate)
        return suspects(est, plausibility(est).implausible, LISTED)


def check_table(
    frame: Frame,
    levels: Sequence[str] | None = None,
    value: str | None = None,
    *,
    noise: str | None = None,
    path: str = "the table",
    **options: Any,
) -> TableCheck:
    """What a raw table of noisy figures says of itself; the options are those of `Measurements.from_table`.

    Noise that is not stated is estimated. Where that cannot be done, `noise` says why, and there is no estimate.
    """
    to_estimate = noise is not None and noise.startswith("estimated")
    amounts = {name: options.pop(name, None) for name in ("variance", "std")}
    stated = any(amount is not None for amount in amounts.values())
    bounds = None if stated or noise is not None else stated_bounds(frame := arrow_table(frame), value)
    if not stated and bounds is None and (noise is None or ":" not in noise):
        noise = "estimated" if noise in (None, "estimated") else f"estimated:shape={noise}"
    estimated = noise is not None and noise.startswith("estimated")
    form = None if not estimated else recognise(frame, levels, value, path=path, **options)
    try:
        rows = node_rows(frame, levels, value, noise=noise, path=path, **amounts, **options)
        doubts = tuple(doubts_of(rows.measured, rows.form.path))
    except InputError as error:
        if form is None or to_estimate:
            raise
        return TableCheck(form, _sums(form), None, str(error).removeprefix(f"{path}: "), True, form.notes, ())
    return TableCheck(rows.form, _sums(rows.form), denoise(rows.measured), "", estimated, rows.form.notes, doubts)


def _sums(form: TableForm) -> tuple[SumCheck, ...]:
    tree = form.tree
    known = np.where(np.isfinite(form.extra), form.figures, np.nan)
    x = tree.to_level_order(np.pad(known, (0, len(tree) - len(known)), constant_values=np.nan))
    sums = []
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        miss = x[family.parent] - family.sum(x[family.children])
        known = np.isfinite(miss)
        if known.any():
            nodes, miss = family.parent[known], miss[known]
            worst = int(np.argmax(np.abs(miss)))
            where = tree.name(int(tree.at(nodes[worst])))
            exact = int((np.abs(miss) <= ALIKE * np.maximum(np.abs(x[nodes]), 1)).sum())
            typical = float(np.median(np.abs(miss)))
            sums.append(SumCheck(tree.level_names[level], len(nodes), exact, typical, float(miss[worst]), where))
    return tuple(sums)

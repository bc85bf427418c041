"""divided: whole-number contributions by measure and level, for each root, under its limit of conversions."""

from collections.abc import Collection

import numpy as np

from attributary.plan.asked import Asked
from attributary.plan.choice import Chosen, Sums, split
from attributary.plan.shares import Shares
from attributary.plan.whole import Rounding, at_least_one, whole_with_limit
from attributary.spec import Spec
from attributary.types import Floats, Ints


def divided(
    spec: Spec,
    questions: list[Asked],
    sums: list[Sums],
    share: list[Shares],
    found: Chosen,
    keep: Collection[str],
    rounding: Rounding,
    best: bool,
) -> tuple[Ints, Ints]:
    """Contributions (measures, levels) of roots not seen yet, and (measures, heads, levels) of the others."""
    number, levels = len(sums), len(spec.levels)
    heads = questions[0].question.tree.slice(int(spec.total))
    most = np.full(heads.stop - heads.start, found.most[0]) if len(found.most) == 1 else found.most
    parts = np.full((number, len(most)), 1 / number)
    if best:
        each = {m: split(sums, found.clips, m) for m in np.unique(most).tolist()}
        parts = np.column_stack([each[m][:, r if each[m].shape[1] > 1 else 0] for r, m in enumerate(most.tolist())])
    new = questions[0].question.new
    mean = parts[:, ~new].mean(axis=1) if (~new).any() else parts.mean(axis=1)
    first = np.stack([p * s.default for p, s in zip(mean, share, strict=True)], axis=1).reshape(1, -1)
    rows = [
        part[:, None] * (s.roots if s.roots is not None else np.repeat(s.default[None], len(most), 0))
        for part, s in zip(parts, share, strict=True)
    ]
    table = np.concatenate([first, np.stack(rows, axis=2).reshape(len(most), -1)])  # by level, then by measure
    times = np.concatenate([[default_most(found)], most])
    whole = np.empty(table.shape, np.int64)
    for m in np.unique(times).tolist():
        whole[times == m] = _whole(spec, table[times == m], table[:1], spec.l1 // m, number, keep, rounding)
    by_measure = whole.reshape(len(whole), levels, number).transpose(2, 0, 1)
    return by_measure[:, 0], by_measure[:, 1:]


def default_most(found: Chosen) -> int:
    """For roots not seen yet: what most roots have, of several the least."""
    numbers, times = np.unique(found.most, return_counts=True)
    return int(numbers[np.argmax(times)])


def _whole(
    spec: Spec, share: Floats, default: Floats, budget: int, number: int, keep: Collection[str], rounding: Rounding
) -> Ints:
    """Whole numbers within the budget, and at unknown levels within theirs; a total's are the same for all rows."""
    top = number if spec.total else 0
    common = np.floor(default[:, :top] * budget + 1e-9 * budget).astype(np.int64)
    left = 1.0 - default[0, :top].sum()
    rest = share[:, top:] / left if left > 0 else np.zeros_like(share[:, top:])
    lower = slice(spec.first_unknown * number - top, None)
    limit = budget // 2 if spec.neighbours == "definition-1" else budget
    rest = rest / np.maximum(1.0, rest.sum(axis=1, keepdims=True))
    found = whole_with_limit(rest, budget - int(common.sum()), lower, limit, rounding)
    found = np.hstack([np.repeat(common, len(found), axis=0), found])
    last = range((len(spec.levels) - 1) * number, len(spec.levels) * number)
    wanted = [spec.levels.index(level) * number + k for level in keep for k in range(number)]
    for column in (*wanted, *last):
        others = [j for j in range(top, found.shape[1]) if j != column]
        same = [j for j in others if (j < spec.first_unknown * number) == (column < spec.first_unknown * number)]
        found = at_least_one(found, column, same, others)
    return found

"""quantised_many: few enough classes for plans of several measures, or with a limit for each root."""

import numpy as np

from attributary.api.ara.keys.classes import wide
from attributary.api.ara.keys.cluster import cluster
from attributary.plan import Plan
from attributary.types import Ints


def fewer(plan: Plan, most: int) -> tuple[Plan, Ints, Ints]:
    """The plan with so many classes, and its roots' contributions before and after, (roots, measures × levels).

    Roots that count as many conversions of an impression are drawn together, and each group has their mean, rounded
    down: means of rows that are within a budget are, too.
    """
    _, roots = wide(plan)
    rows = np.array(list(roots.values()))
    own, limit = rows[:, :-1], rows[:, -1]
    taken = own.copy()
    limits, size = np.unique(limit, return_counts=True)
    room = _shared(size, most - 1)
    for number, groups in zip(limits.tolist(), room.tolist(), strict=True):
        here = np.flatnonzero(limit == number)
        distinct, place, times = np.unique(own[here], axis=0, return_inverse=True, return_counts=True)
        if len(distinct) <= groups:
            continue
        group = cluster(distinct.astype(np.float64), times.astype(np.float64), groups)[place.reshape(-1)]
        for g in np.unique(group):
            members = here[group == g]
            mean = own[members].mean(axis=0)
            taken[members] = np.where((mean > 0) & (mean < 1), 0, np.floor(mean + 1e-9)).astype(np.int64)
    return _again(plan, taken), own, taken


def _shared(size: Ints, groups: int) -> Ints:
    """How many groups each limit's roots get: one at least, the others by their number."""
    room = np.minimum(size, np.maximum(1, size * (groups - len(size)) // size.sum() + 1))
    while room.sum() > max(groups, len(size)):
        room[np.argmax(room)] -= 1
    found: Ints = room
    return found


def _again(plan: Plan, taken: Ints) -> Plan:
    """The plan with these contributions of its roots, checked again."""
    levels = len(plan.levels)
    by_measure = taken.reshape(len(taken), -1, levels)
    total = by_measure.sum(axis=1)
    changed = {"roots": {label: tuple(row) for label, row in zip(plan.roots, total.tolist(), strict=True)}}
    fields = {name: getattr(plan, name) for name in Plan.model_fields}
    if plan.measures is not None:
        fields["measures"] = tuple(
            part.model_copy(update={"roots": dict(zip(plan.roots, map(tuple, by_measure[:, k].tolist()), strict=True))})
            for k, part in enumerate(plan.measures)
        )
    return Plan(**fields | changed)

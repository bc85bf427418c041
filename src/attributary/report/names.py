"""Names: a node by its labels, a range by its ends, for the eye."""

import numpy as np

from attributary.report import figures
from attributary.report.estimates import Estimates


def label(est: Estimates, place: int) -> str:
    """The label of a node by its place in level order."""
    tree = est.tree
    if not tree.attributes:
        return f"node {place if tree.order is None else int(tree.order[place])}"
    level = int(np.searchsorted(tree.offsets, place, side="right")) - 1
    if level < tree.total:
        return "total"
    return str(tree.labels[level - tree.total][place - int(tree.offsets[level])].as_py())


def path(est: Estimates, place: int) -> list[str]:
    """The labels from the root down to a node, by its place in level order."""
    labels = []
    while place >= 0:
        labels.append(label(est, place))
        place = int(est.tree.family[place])
    return labels[::-1]


def shown(est: Estimates, x: float, digits: int = 1) -> str:
    """An estimate for the eye: without digits behind the point where no estimate has any."""
    return figures.number(x) if est.whole else figures.count(x, digits)


def interval(low: float, high: float, digits: int = 1) -> str:
    return f"{figures.count(low, digits)} to {figures.count(high, digits)}"

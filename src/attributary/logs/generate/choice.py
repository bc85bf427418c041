"""choice: a draw from one of many discrete laws at once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.types import Floats, Ints

SHORT_OF_ONE = 1 - 1e-12  # so that rounding never reaches the next group


class Laws(NamedTuple):
    """Group g's cells fill the interval from g to g + 1, each as much as its probability."""

    edge: Floats  # where each cell ends; the cells of group 0 come first

    def draw(self, group: NDArray[np.integer], u: Floats) -> tuple[Ints, Floats]:
        """A cell of each row's group, and where in the cell the draw fell, from 0 to 1: a second draw for free."""
        at = group + u * SHORT_OF_ONE
        cell = np.searchsorted(self.edge, at, side="right")
        begin = np.where(cell > 0, self.edge[cell - 1], 0.0)
        return cell, (at - begin) / (self.edge[cell] - begin)


def laws(group: Ints, weight: Floats) -> Laws:
    """Laws from the weights of their cells, which stand in the order of their groups; each group has a weight."""
    running = np.cumsum(weight)
    last = np.flatnonzero(np.diff(group, append=group[-1] + 1))
    before = np.concatenate([[0.0], running[last[:-1]]])
    edge = group + (running - before[group]) / (running[last] - before)[group]
    edge[last] = group[last] + 1  # whatever the rounding
    return Laws(edge)

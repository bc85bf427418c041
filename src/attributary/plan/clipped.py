"""clipped: the error of estimates under limits, in closed form: bias² + variance, node by node."""

from typing import NamedTuple

from attributary import budget
from attributary.plan.parts import most_by_head, parts
from attributary.plan.plan import Plan
from attributary.profile import Profile
from attributary.tree import Tree
from attributary.types import Floats


class Clipped(NamedTuple):
    """One measure's sums, in its unit and the tree's order."""

    full: Floats  # as if there were no limits
    limited: Floats  # what is left under the plan's
    variance: Floats  # of its estimates

    @property
    def squared(self) -> Floats:
        """The mean squared error of each estimate: bias² + variance."""
        both: Floats = (self.limited - self.full) ** 2 + self.variance
        return both


def clipped(plan: Plan, tree: Tree, profile: Profile) -> dict[str, Clipped]:
    """What to expect of each measure of a plan, if conversions are as in the profile."""
    most, found = most_by_head(plan, tree), {}
    for part in parts(plan):
        full, limited = profile.full(part.measure), profile.limited(part.measure, most, part.clip)
        variance = budget.expected(tree, full, part.variance(tree), part.tau).variance
        found[part.measure.name] = Clipped(full, limited, variance)
    return found

"""Objective: what a split is judged by, the tree error of each root or of all of them together."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from attributary.budget import error
from attributary.budget.classes import Classes
from attributary.noise import NoiseModel
from attributary.types import Floats


@dataclass(frozen=True, eq=False)
class Objective:
    """E from the budgets of the classes, many splits at a time: arrays are (splits, classes)."""

    forest: Classes
    weight: Floats  # w_v, added up over the members of a class
    model: NoiseModel
    denoised: bool = True
    joint: bool = False  # one error, summed over all roots, instead of one for each

    def errors(self, budget: Floats) -> Floats:
        """(splits, roots), or (splits, 1) where they are judged together."""
        judge: Callable[..., tuple[Floats, ...]] = error.denoised if self.denoised else error.raw
        return self._judged(judge(self.forest, self.weight, self.model.precision(budget))[0])

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        """The errors, and what a little more budget takes off them: −∂E/∂ε of each class."""
        precision = self.model.precision(budget)
        if self.denoised:
            sweep = error.denoised(self.forest, self.weight, precision)
            errors, gain = sweep.error, error.gain(self.forest, self.weight, sweep)
        else:
            errors, gain = error.raw(self.forest, self.weight, precision)
        return self._judged(errors), gain * self.model.slope(budget)

    def heads(self) -> "Objective":
        """The same without the level on top: each head for itself, as if there were no total."""
        return replace(self, forest=self.forest.below(), weight=self.weight[self.forest.offsets[1] :], joint=False)

    def _judged(self, errors: Floats) -> Floats:
        return errors.sum(axis=1, keepdims=True) if self.joint else errors

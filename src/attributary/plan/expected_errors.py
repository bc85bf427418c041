"""Expected errors of a plan: RMSRE_τ by level and for the tree, beside an equal split and leaves alone."""

from collections.abc import Sequence
from math import sqrt
from typing import Self

import numpy as np
from pydantic import BaseModel, Field

from attributary.budget import Expected

RULE = "an error, 0 or more"


class Compared(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """An expected error: under the plan, under an equal split, and with all of the budget on the leaves."""

    plan: float = Field(description=RULE)
    equal: float = Field(description=RULE)
    leaves: float = Field(description=RULE)

    @classmethod
    def of(cls, plan: float, equal: float, leaves: float) -> Self:
        return cls(plan=plan, equal=equal, leaves=leaves)

    @property
    def change(self) -> float:
        """The plan's error against that of an equal split: -0.14 is 14 % less; nan where the equal split has none."""
        if not np.isfinite(self.equal):
            return -1.0 if np.isfinite(self.plan) else 0.0
        return self.plan / self.equal - 1.0 if self.equal > 0 else 0.0

    def times(self, factor: float) -> Self:
        return self.of(self.plan * factor, self.equal * factor, self.leaves * factor)


class LevelErrors(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """Those of one level."""

    level: str = Field(description="a level's name")
    nodes: int = Field(ge=0, description="how many nodes it has")
    error: Compared = Field(description="its errors")


class PlanErrors(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """Of all levels and the tree, nodes of all roots pooled; and the median of the roots, each for itself."""

    levels: tuple[LevelErrors, ...] = Field(description="one for each level")
    tree: Compared = Field(description="the tree's errors")
    roots: Compared = Field(description="the roots' median errors")

    @classmethod
    def of(cls, names: tuple[str, ...], nodes: list[int], plan: Expected, equal: Expected, leaves: Expected) -> Self:
        three = (plan, equal, leaves)
        each = zip(names, nodes, *(expected.levels.tolist() for expected in three), strict=True)
        return cls(
            levels=tuple(
                LevelErrors(level=name, nodes=size, error=Compared.of(*errors)) for name, size, *errors in each
            ),
            tree=Compared.of(*(expected.tree for expected in three)),
            roots=Compared.of(*(float(np.nanmedian(expected.roots)) for expected in three)),
        )

    @classmethod
    def together(cls, errors: Sequence["PlanErrors"], weights: Sequence[float]) -> "PlanErrors":
        """Root mean squares over measures, by their weights."""
        if len(errors) == 1:
            return errors[0]

        def mean(each: Sequence[Compared]) -> Compared:
            def one(name: str) -> float:
                squares = (w * getattr(e, name) ** 2 for w, e in zip(weights, each, strict=True))
                return sqrt(sum(squares) / sum(weights))

            return Compared.of(one("plan"), one("equal"), one("leaves"))

        levels = zip(*(e.levels for e in errors), strict=True)
        return cls(
            levels=tuple(
                LevelErrors(level=each[0].level, nodes=each[0].nodes, error=mean([e.error for e in each]))
                for each in levels
            ),
            tree=mean([e.tree for e in errors]),
            roots=mean([e.roots for e in errors]),
        )

    def times(self, factor: float) -> Self:
        """All errors larger by a factor."""
        levels = (level.model_copy(update={"error": level.error.times(factor)}) for level in self.levels)
        return self.model_copy(
            update={"levels": tuple(levels), "tree": self.tree.times(factor), "roots": self.roots.times(factor)}
        )

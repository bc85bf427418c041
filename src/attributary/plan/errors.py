"""Errors: the RMSRE_τ to expect of a plan, level by level and for the tree, beside an equal split and leaves alone."""

from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from attributary.budget import Expected

FROZEN = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
RULE = "an error, 0 or more"


class Compared(BaseModel):
    """An expected error: under the plan, under an equal split, and with all of the budget on the leaves."""

    model_config = FROZEN

    plan: float = Field(description=RULE)
    equal: float = Field(description=RULE)
    leaves: float = Field(description=RULE)


class LevelErrors(BaseModel):
    model_config = FROZEN

    level: str = Field(description="a level's name")
    nodes: int = Field(ge=0, description="how many nodes it has")
    error: Compared = Field(description="its errors")


class Errors(BaseModel):
    """Of all levels and the tree, nodes of all roots pooled; and the median of the roots, each for itself."""

    model_config = FROZEN

    levels: tuple[LevelErrors, ...] = Field(description="one for each level")
    tree: Compared = Field(description="the tree's errors")
    roots: Compared = Field(description="the roots' median errors")

    @classmethod
    def of(cls, names: tuple[str, ...], nodes: list[int], plan: Expected, equal: Expected, leaves: Expected) -> Self:
        three = (plan, equal, leaves)
        each = zip(names, nodes, *(expected.levels.tolist() for expected in three), strict=True)
        return cls(
            levels=tuple(LevelErrors(level=name, nodes=size, error=_compared(*errors)) for name, size, *errors in each),
            tree=_compared(*(expected.tree for expected in three)),
            roots=_compared(*(float(np.nanmedian(expected.roots)) for expected in three)),
        )

    def times(self, factor: float) -> Self:
        """All errors larger by a factor."""
        levels = (level.model_copy(update={"error": _times(level.error, factor)}) for level in self.levels)
        return self.model_copy(
            update={"levels": tuple(levels), "tree": _times(self.tree, factor), "roots": _times(self.roots, factor)}
        )


def _times(error: Compared, factor: float) -> Compared:
    return _compared(error.plan * factor, error.equal * factor, error.leaves * factor)


def _compared(plan: float, equal: float, leaves: float) -> Compared:
    return Compared(plan=plan, equal=equal, leaves=leaves)

"""Expected errors of a plan: RMSRE_τ by level and for the tree, beside an equal split and leaves alone.

A root mean square is what the worst nodes make of it: so the median node, the largest and the worst are told, too.
"""

from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from typing import Self

import numpy as np
from pydantic import BaseModel, Field

from attributary.budget import Expected
from attributary.tree import Tree
from attributary.types import Floats, Ints, Record

RULE = "an error, 0 or more"
LONGEST = 30  # characters of a label that are shown
LARGEST = 2  # nodes of a level that are named beside the worst


class Compared(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """An expected error: under the plan, under an equal split, and with all of the budget on the leaves."""

    plan: float = Field(description=RULE)
    equal: float = Field(description=RULE)
    leaves: float = Field(description=RULE)
    zeros: float | None = Field(default=None, description="the error of answering 0 everywhere, by the prior")

    @classmethod
    def of(cls, plan: float, equal: float, leaves: float, zeros: float | None = None) -> Self:
        return cls(plan=plan, equal=equal, leaves=leaves, zeros=zeros)

    @classmethod
    def mean(cls, each: Sequence[Self], weights: Sequence[float]) -> Self:
        """Root mean squares by weights; what has none may have any error."""

        def one(name: str) -> float:
            squares = (w * getattr(e, name) ** 2 for w, e in zip(weights, each, strict=True) if w)
            return sqrt(sum(squares) / sum(weights))

        zeros = None if any(e.zeros is None for e in each) else one("zeros")
        return cls.of(one("plan"), one("equal"), one("leaves"), zeros)

    def times(self, factor: float) -> Self:
        return self.of(self.plan * factor, self.equal * factor, self.leaves * factor, self.zeros)


class TargetError(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """What is expected of one measure under a target: a root mean square, and how many nodes are within the target."""

    name: str = Field(description="a level's or a measure's name")
    measure: str = Field(description="a measure's name")
    most: float = Field(description="the error, or half-width, that is allowed")
    error: float = Field(description="the root mean square to expect")
    nodes: int = Field(ge=0, description="how many nodes the target is for")
    within: int = Field(ge=0, description="how many of them are within it")


class NodeError(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """The expected error of one node under the plan."""

    node: tuple[str, ...] = Field(description="its labels, top to bottom; none of the total")
    count: float = Field(description="its count, or sum, in the prior")
    error: float = Field(description=RULE)

    @property
    def name(self) -> str:
        """Its path, long labels shortened."""
        return (
            " › ".join(label if len(label) <= LONGEST else label[: LONGEST - 1] + "…" for label in self.node) or "all"
        )

    def times(self, factor: float) -> Self:
        return self.model_copy(update={"error": self.error * factor})


class LevelErrors(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """Those of one level, and of its nodes: the median one, the largest ones and the worst."""

    level: str = Field(description="a level's name")
    nodes: int = Field(ge=0, description="how many nodes it has")
    error: Compared = Field(description="its errors")
    median: float | None = Field(default=None, description="the error of its median node; of one measure")
    largest: tuple[NodeError, ...] = Field(default=(), description="those of its largest nodes in the prior")
    worst: NodeError | None = Field(default=None, description="that of its worst node; of one measure")

    @property
    def names(self) -> bool:
        """Whether nodes are named with their counts; without a prior, none is one to name."""
        return bool(self.largest) and self.largest[0].count > 0

    def unnamed(self) -> Self:
        """The same without the names and counts of nodes."""
        worst = None if self.worst is None else NodeError(node=(), count=0.0, error=self.worst.error)
        return self.model_copy(update={"largest": (), "worst": worst})

    def times(self, factor: float) -> Self:
        update = {
            "error": self.error.times(factor),
            "median": None if self.median is None else self.median * factor,
            "largest": tuple(node.times(factor) for node in self.largest),
            "worst": None if self.worst is None else self.worst.times(factor),
        }
        return self.model_copy(update=update)


class PlanErrors(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """Of all levels and the tree, nodes of all roots pooled; and the median of the roots, each for itself."""

    levels: tuple[LevelErrors, ...] = Field(description="one for each level")
    tree: Compared = Field(description="the tree's errors")
    roots: Compared = Field(description="the roots' median errors")

    @classmethod
    def of(cls, tree: Tree, count: Floats, plan: Expected, *others: Expected) -> Self:
        """`count` is what is expected of each node, in the tree's order; others are equal, leaves and maybe zeros."""
        every = (plan, *others)
        each = zip(tree.level_names, *(expected.levels.tolist() for expected in every), strict=True)
        by_node = of_nodes(tree, count, plan.nodes)
        return cls(
            levels=tuple(
                LevelErrors(level=name, error=Compared.of(*errors), **nodes)
                for (name, *errors), nodes in zip(each, by_node, strict=True)
            ),
            tree=Compared.of(*(expected.tree for expected in every)),
            roots=Compared.of(*(float(np.nanmedian(expected.roots)) for expected in every)),
        )

    @classmethod
    def together(cls, errors: Sequence["PlanErrors"], weights: Sequence[float]) -> "PlanErrors":
        """Root mean squares over measures, by their weights."""
        if len(errors) == 1:
            return errors[0]
        return cls(
            levels=tuple(
                LevelErrors(
                    level=each[0].level,
                    nodes=each[0].nodes,
                    error=Compared.mean([e.error for e in each], weights),
                )
                for each in zip(*(e.levels for e in errors), strict=True)
            ),
            tree=Compared.mean([e.tree for e in errors], weights),
            roots=Compared.mean([e.roots for e in errors], weights),
        )

    def unnamed(self) -> Self:
        """The same without the names and counts of nodes."""
        return self.model_copy(update={"levels": tuple(level.unnamed() for level in self.levels)})

    def times(self, factor: float) -> Self:
        """All errors larger by a factor."""
        levels = tuple(level.times(factor) for level in self.levels)
        return self.model_copy(
            update={"levels": levels, "tree": self.tree.times(factor), "roots": self.roots.times(factor)}
        )


def of_nodes(
    tree: Tree, count: Floats, error: Floats, path: Callable[[int], Sequence[str]] | None = None
) -> Iterator[Record]:
    """For each level how many nodes it has, the error of the median one, of the largest ones and of the worst.

    Ties for worst go to the largest count.
    """
    counts, errors = tree.to_level_order(count), tree.to_level_order(error)
    number = tree.order if tree.order is not None else np.arange(len(tree))

    def named(v: int) -> NodeError:
        node = int(number[v])
        labels = path(node) if path else tree.path(node) if tree.labels else [tree.name(node)]
        return NodeError(node=tuple(map(str, labels)), count=float(counts[v]), error=float(errors[v]))

    for i in range(tree.depth):
        here = tree.slice(i)
        by_count: Ints = here.start + largest(counts[here], LARGEST)
        bad = np.flatnonzero(errors[here] == errors[here].max()) + here.start
        yield {
            "nodes": here.stop - here.start,
            "median": float(np.median(errors[here])),
            "largest": tuple(map(named, by_count.tolist())),
            "worst": named(int(bad[np.argmax(counts[bad])])),
        }


def largest(values: Floats, number: int) -> Ints:
    """The places of the largest values, the largest first."""
    some: Ints = np.argpartition(-values, min(number, len(values)) - 1)[:number]
    return some[np.argsort(-values[some], kind="stable")]

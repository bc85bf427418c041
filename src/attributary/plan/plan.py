"""Plan: what a conversion contributes to the key of each level, and what comes of it.

The contributions are whole numbers, and all else is derived from them: the ε of each level, the noise of each node,
what a neighbour costs. So rounding can never overspend.
"""

import zlib
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from attributary.errors import InputError
from attributary.plan.bits import Bits
from attributary.plan.errors import Errors
from attributary.plan.measured import Measured, PerImpression, Trade
from attributary.plan.neighbours import Costs, costs
from attributary.plan.nodes import down, paths
from attributary.plan.whole import Rounding
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Floats, Ints

if TYPE_CHECKING:
    from attributary.plan.parts import Part

Row = tuple[int, ...]


class PriorNote(BaseModel):
    """What the plan was made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    history: bool = Field(description="false if there was no prior, and the plan goes by the tree's structure")
    protected: bool = Field(description="true if the prior was protected itself, or if there was none")
    conversions: float = Field(default=0.0, description="how many conversions the prior has in the tree")
    new: int = Field(default=0, ge=0, description="nodes of the tree that the prior does not have")
    gone: int = Field(default=0, ge=0, description="leaves of the prior that the tree does not have")
    lost: float = Field(default=0.0, description="how many conversions they had")


class Plan(BaseModel):
    """Whole-number contributions for every root and level, or for every node; 0 means no key."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    format: Literal[1] = Field(default=1, description="1 is the only format that this version reads")
    method: str = Field(description="the way the budget was split")
    rounding: Rounding = Field(default="largest-remainder", description='"largest-remainder" or "floor"')
    levels: tuple[str, ...] = Field(description="the names of the levels, top to bottom")
    default: Row = Field(description="contributions by level, for roots that have none of their own")
    roots: dict[str, Row] = Field(
        default={}, description="contributions by level, for each value of the first attribute"
    )
    checksum: int | None = Field(
        default=None, description="of the contributions of a plan by node, which have a table of their own"
    )
    measures: tuple[Measured, ...] | None = Field(
        default=None, description="each measure's part of the contributions, where there are others than counts"
    )
    per_impression: PerImpression | None = Field(
        default=None, description="how many conversions of an impression count, where the plan chose it"
    )
    tradeoff: dict[str, tuple[Trade, ...]] | None = Field(
        default=None, description="what other limits would have meant"
    )
    learn: Literal[True] | None = Field(
        default=None, description="true if plan and errors are for estimates that use what is known, the prior included"
    )
    keys: tuple[Bits, ...] | None = Field(
        default=None, description="the bits of each attribute in a key, top to bottom"
    )
    prior: PriorNote = Field(description="what the plan was made of")
    expected: Errors = Field(description="the errors to expect")
    spec: Spec = Field(description="what was asked")
    nodes: Any = Field(default=None, exclude=True)  # of a plan by node: the tree's columns, and `contribution`

    @model_validator(mode="after")
    def _within_budget(self) -> Self:
        spec, names = self.spec, ", ".join
        if self.levels != spec.levels:
            raise InputError(f"levels are those of the spec, {names(spec.levels)}; got {names(self.levels)}")
        for label, row in [(None, self.default), *self.roots.items()]:
            budget = spec.l1 // self.most(label)
            if len(row) != len(self.levels) or min(row) < 0 or sum(row) > budget:
                raise InputError(
                    f"contributions are {len(self.levels)} whole numbers, 0 or more, that sum to {budget} at "
                    f"most; {'the default split' if label is None else label} has {', '.join(map(str, row))}"
                )
        check_parts(self)
        if spec.total and any(row[0] != self.default[0] for row in self.roots.values()):
            raise InputError("the total is one key that all roots feed; its contribution is the same for all of them")
        if self.keys is not None and [field.attribute for field in self.keys] != [a.name for a in spec.attributes]:
            fields = names(field.attribute for field in self.keys)
            raise InputError(f"keys have bits for each attribute, top to bottom; these have them for {fields}")
        if self.checksum is not None and (self.nodes is None or self.checksum != checksum(self.nodes)):
            raise InputError("this plan goes by node, and the table of nodes is not the one that it was made with")
        return self

    def most(self, root: str | None = None) -> int:
        """How many conversions of an impression count, for a root by its label, or for those not seen yet."""
        if self.per_impression is None:
            limit = self.spec.conversions_per_impression
            return 1 if limit == "auto" else limit
        return self.per_impression.roots.get(root or "", self.per_impression.default)

    def contribution(self, tree: Tree, measure: str | None = None) -> Ints:
        """What a conversion adds to each node's key, in the tree's order; roots not seen yet take the default.

        With several measures a node has a key for each; without naming one, what it adds to all of them together.
        """
        if measure is not None:
            return self._part(measure).plan.contribution(tree)
        if tree.level_names != self.levels:
            raise ValueError(
                f"the plan's levels are {', '.join(self.levels)}; the tree has {', '.join(tree.level_names)}"
            )
        if self.nodes is not None:
            return tree.from_level_order(self._by_node(tree))
        return tree.spread(self._rows(tree), int(self.spec.total), rest=True)

    def variance(self, tree: Tree, measure: str | None = None) -> Floats:
        """The noise variance of each node's figure, in the measure's unit and the tree's order; inf without a key.

        Each measure has noise of its own: where there are several, name one.
        """
        if self.measures is not None or measure is not None:
            part = self._part(measure)
            if part.plan is not self:
                return part.variance(tree)
        return self.spec.noise_model.variance(self.budget(tree))

    def budget(self, tree: Tree) -> Floats:
        """The part of ε that each node's key has, in the tree's order."""
        return self.contribution(tree).astype(np.float64) * (self.spec.epsilon / self.spec.l1)

    def epsilon(self, root: str | None = None, measure: str | None = None) -> tuple[float, ...]:
        """The ε of each level, for a root by its label, or of the default split; of several measures, name one."""
        plan = self if self.measures is None and measure is None else self._part(measure).plan
        row = plan.default if root is None else plan.roots.get(root, plan.default)
        return tuple(self.spec.epsilon * contribution / self.spec.l1 for contribution in row)

    def _part(self, measure: str | None) -> "Part":
        """The part of a measure, by its name; of the only one without."""
        from attributary.plan.parts import parts

        own = {part.measure.name: part for part in parts(self)}
        names = " and ".join(own)
        if measure is None and len(own) > 1:
            raise ValueError(f'each measure has a part of the budget; this plan has {names}: name one, measure="…"')
        if measure is not None and measure not in own:
            raise ValueError(f"the plan measures {names}; got {measure!r}")
        return next(iter(own.values())) if measure is None else own[measure]

    @property
    def costs(self) -> Costs:
        """What each neighbour relation costs, for the root that pays most."""
        unknown = self.spec.first_unknown
        rows = np.array([self.default, *self.roots.values()])
        times = np.array([self.most(), *map(self.most, self.roots)])  # all conversions of an impression together
        path, below = times * rows.sum(axis=1), times * rows[:, unknown:].sum(axis=1)
        if self.nodes is not None:
            tree = Tree.from_parents(self.nodes.column("parent").to_numpy())
            found = paths(tree, tree.to_level_order(self.nodes.column("contribution").to_numpy()), unknown)
            path, below = np.append(self.most() * found[0], path), np.append(self.most() * found[1], below)
        return costs(path, below, self.spec.epsilon, self.spec.l1)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """The neighbour relations that ε holds for."""
        costs, most = self.costs, self.spec.epsilon * (1 + 1e-12)
        relations = {"conversion": costs.conversion, "definition-1": costs.definition_1}
        return tuple(name for name, cost in relations.items() if cost <= most)

    def at(self, epsilon: float) -> Self:
        """The same plan under another ε. Under the API's noise it stays the best; errors go with √var(DLap(ε/L1))."""
        if self.measures is not None or self.per_impression is not None:
            raise ValueError("another epsilon calls for other limits: make another plan")
        if self.learn:
            raise ValueError("what is learned is worth more or less under another epsilon: make another plan")
        if not self.spec.noise_model.proportional:
            what, _ = self.spec.noise_model.words
            raise ValueError(f"noise is {what}: another epsilon calls for another split; make another plan")
        spec = self.spec.at(epsilon)
        factor = sqrt(spec.noise_model.factor / self.spec.noise_model.factor)
        return self.model_copy(update={"spec": spec, "expected": self.expected.times(factor)})

    def under(self, spec: Spec) -> Self:
        """The same contributions for another spec that has the same levels."""
        if self.levels != spec.levels or self.spec.l1 != spec.l1:
            mine, other = (f"{', '.join(s.levels)} with l1 = {s.l1}" for s in (self.spec, spec))
            raise InputError(f"plans are compared level by level; the plan has {mine}, the spec has {other}")
        return self.model_copy(update={"spec": spec})

    def to_json(self) -> str:
        """The plan as JSON; one that goes by node has its nodes in a table of their own."""
        from attributary.plan.file import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str, nodes: Any = None) -> "Plan":
        """The plan in a JSON text, with the table of nodes if it goes by node."""
        from attributary.plan.file import from_json

        return from_json(text, nodes)

    def save(self, path: str) -> None:
        """Writes the plan to a JSON file and, if it goes by node, its nodes to a Parquet file beside it."""
        from attributary.plan.file import save

        save(self, path)

    @classmethod
    def load(cls, path: str) -> "Plan":
        """The plan in a file."""
        from attributary.plan.file import load

        return load(path)

    def _repr_html_(self) -> str:
        from attributary.plan.notebook import plan_html

        return plan_html(self)

    def _rows(self, tree: Tree) -> Ints:
        """The contributions of each head."""
        import pyarrow as pa

        labels = tree.labels[0].dictionary.cast(pa.string()).to_pylist()
        of_label = np.array([self.roots.get(label, self.default) for label in labels], np.int64)
        rows: Ints = of_label[tree.labels[0].indices.to_numpy()]
        return rows

    def _by_node(self, tree: Tree) -> Ints:
        own = np.full(len(tree), -1)
        rows = match(tree, self.nodes)
        own[rows.node[rows.node >= 0]] = self.nodes.column("contribution").to_numpy()[rows.node >= 0]
        return down(tree, own, np.array(self.default), self.spec)


def check_parts(plan: Plan) -> None:
    """Refuses parts of measures that are not the spec's, or do not sum to the plan's contributions."""
    if plan.measures is None:
        return
    names = [measure.name for measure in plan.spec.asked]
    if [part.name for part in plan.measures] != names:
        raise InputError(f"a plan has a part for each measure of its spec, {', '.join(names)}; plan anew")
    for label, row in [(None, plan.default), *plan.roots.items()]:
        parts = [part.default if label is None else part.roots.get(label, ()) for part in plan.measures]
        if any(len(part) != len(row) or min(part) < 0 for part in parts) or row != tuple(
            map(sum, zip(*parts, strict=True))
        ):
            raise InputError("the contributions of a plan are the sums of its measures' contributions; plan anew")


def checksum(nodes: Any) -> int:
    """Of the contributions in a table of nodes, in its order."""
    return zlib.crc32(np.ascontiguousarray(nodes.column("contribution").to_numpy(), "<i8").tobytes())

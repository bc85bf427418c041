"""Plan: what a conversion contributes to the key of each level and measure, and what comes of it.

The contributions are whole numbers, and all else is derived from them: the ε of each level, the noise of each node,
the privacy loss. So rounding can never overspend. Where a spec has several breakdowns, its plan holds a plan for each,
and all of them keep to one budget.
"""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from attributary.errors import InputError
from attributary.noise import model
from attributary.plan.contributions import Rounding, down, paths
from attributary.plan.errors import Compared, PlanErrors, TargetError
from attributary.plan.privacy import PrivacyWords, Spent, privacy_words, purchase_of_all, spent
from attributary.plan.sections import (
    Bits,
    IndexLayout,
    MeasureShare,
    OtherNoise,
    OtherParts,
    PerImpression,
    PriorNote,
    Row,
    SchemeCost,
    Sharing,
    Trade,
)
from attributary.spec import Measure, Spec
from attributary.spec.measure import COUNT
from attributary.spec.privacy_unit import UNITS, PrivacyLoss
from attributary.spec.terms import ApiSection
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Arrow, Floats, Ints, Record

DOMAIN = {"name", "unknown", "domain", "range", "bucket", "buckets", "start", "calendar", "timezone"}  # of its values


class Plan(BaseModel, frozen=True, extra="forbid", arbitrary_types_allowed=True):
    """Whole-number contributions for every root and level, or for every node; 0 means no key."""

    format: Literal[1] = Field(default=1, description="1 is the only format that this version reads")
    method: str = Field(description="the way the budget was split")
    rounding: Rounding = Field(default="largest-remainder", description='"largest-remainder" or "floor"')
    levels: tuple[str, ...] = Field(description="the names of the levels, top to bottom")
    checksum: int | None = Field(
        default=None, description="of the contributions of a plan by node, which have a table of their own"
    )
    measures: tuple[MeasureShare, ...] = Field(description="each measure's share of the contributions")
    per_impression: PerImpression | None = Field(
        default=None, description="how many conversions of an impression count, where the plan chose it"
    )
    tradeoff: dict[str, tuple[Trade, ...]] | None = Field(
        default=None, description="what other limits would have meant"
    )
    unbounded: float | None = Field(
        default=None, description="the tree error to expect without guard and targets, where they change the plan"
    )
    targets: tuple[TargetError, ...] | None = Field(
        default=None, description="what to expect of each target, for each measure that it is about"
    )
    other_noise: OtherNoise | None = Field(
        default=None, description="what the other kind of noise would mean, where that was worked out"
    )
    learn: Literal[True, "split"] | None = Field(
        default=None,
        description="true if plan and errors are for estimates that use what is known, the prior included; split if "
        "only the split is, and errors are of unbiased estimates",
    )
    keys: tuple[Bits, ...] | None = Field(
        default=None, description="the bits of each attribute in a key, top to bottom"
    )
    mark: str | None = Field(
        default=None, pattern="^[0-9a-f]{4}$", description="what keys begin with, 4 hexadecimal digits"
    )
    schemes: tuple[SchemeCost, ...] | None = Field(
        default=None, description="what each scheme of the API would mean, where it has several"
    )
    layout: IndexLayout | None = Field(default=None, description="the indexes of nodes, where an API has them")
    others: OtherParts | None = Field(
        default=None, description="what other breakdowns of the same conversions take of the budget"
    )
    prior: PriorNote = Field(description="what the plan was made of")
    expected: PlanErrors = Field(description="the errors to expect")
    spec: Spec = Field(description="what was asked")
    nodes: Arrow = Field(default=None, exclude=True)  # of a plan by node: the tree's columns, and `contribution`
    parts: tuple["Plan", ...] = Field(default=(), exclude=True)  # of several breakdowns one each; it has no measures
    sharing: Sharing | None = Field(default=None, exclude=True)  # of several breakdowns

    @classmethod
    def of_breakdowns(cls, spec: Spec, plans: Sequence["Plan"], sharing: Sharing) -> Self:
        """The plan of several breakdowns, from the plan of each."""
        weights, errors = [each.weight for each in spec.breakdowns or ()], [plan.expected for plan in plans]
        if len(plans) != len(weights):
            raise InputError(f"a plan has one part for each breakdown of its spec, {len(weights)}; make a new plan")
        return cls(
            method=plans[0].method,
            rounding=plans[0].rounding,
            levels=spec.levels,
            measures=(),
            learn=plans[0].learn,
            prior=PriorNote(
                history=any(plan.prior.history for plan in plans),
                protected=all(plan.prior.protected for plan in plans),
            ),
            expected=PlanErrors(
                levels=tuple(level for each in errors for level in each.levels),
                tree=Compared.mean([each.tree for each in errors], weights),
                roots=Compared.mean([each.roots for each in errors], weights),
            ),
            spec=spec,
            parts=tuple(plans),
            sharing=sharing,
        )

    @model_validator(mode="after")
    def _within_budget(self) -> Self:
        if self.parts:
            self._check_breakdowns()
            return self
        spec, names = self.spec, ", ".join
        if self.levels != spec.levels:
            raise InputError(f"levels are those of the spec, {names(spec.levels)}; got {names(self.levels)}")
        self._check_measures()
        default, roots = self.default, self.roots
        for label, row in [(None, default), *roots.items()]:
            budget = spec.contributions_of(self.most(label))
            if len(row) != len(self.levels) or sum(row) > budget:
                raise InputError(
                    f"contributions are {len(self.levels)} whole numbers, 0 or more, that sum to {budget} at "
                    f"most; {'the default split' if label is None else label} has {', '.join(map(str, row))}"
                )
        if spec.total and any(row[0] != default[0] for row in roots.values()):
            raise InputError("the total is one key that all roots feed; its contribution is the same for all of them")
        if self.keys is not None and [field.attribute for field in self.keys] != [a.name for a in spec.attributes]:
            fields = names(field.attribute for field in self.keys)
            raise InputError(f"keys have bits for each attribute, top to bottom; these have them for {fields}")
        if self.others is not None and self.spent.path > 1 + 1e-9:
            raise InputError(
                f"contributions of all breakdowns are the budget at most; got {self.spent.path:.6g} times it"
            )
        if self.checksum is not None and (self.nodes is None or self.checksum != checksum(self.nodes)):
            raise InputError("this plan goes by node, and the table of nodes is not the one that it was made with")
        return self

    @property
    def default(self) -> Row:
        """Contributions by level, of all measures together, for roots that have none of their own."""
        return _together([share.default for share in self.only.measures])

    @property
    def roots(self) -> dict[str, Row]:
        """Contributions by level, of all measures together, for each value of the first attribute that has its own."""
        if len(self.only.measures) == 1:
            return self.measures[0].roots
        return {label: _together([share.roots[label] for share in self.measures]) for label in self.measures[0].roots}

    def most(self, root: str | None = None) -> int:
        """How many conversions of an impression count, for a root by its label, or for those not seen yet."""
        if self.per_impression is None:
            limit = self.spec.conversions_per_impression
            return 1 if limit == "auto" else limit
        return self.per_impression.roots.get(root or "", self.per_impression.default)

    @property
    def default_keys(self) -> int:
        """How many keys a conversion has in the default split."""
        return sum(n > 0 for plan in self.breakdowns for share in plan.measures for n in share.default)

    @property
    def largest_row(self) -> int:
        """What the contributions of one conversion sum to at most."""
        return sum(max(map(sum, (plan.default, *plan.roots.values()))) for plan in self.breakdowns)

    @property
    def most_of_all(self) -> int:
        """How many conversions of an impression count at most, at any root."""
        return max(plan.most(root) for plan in self.breakdowns for root in (None, *plan.roots))

    def most_of_heads(self, tree: Tree) -> Ints:
        """How many conversions of an impression count, for each value of the first attribute, in level order."""
        if self.per_impression is None or not tree.labels:
            heads = tree.slice(min(int(tree.total), tree.depth - 1))
            return np.full(heads.stop - heads.start, self.most(), np.int64)
        labels = tree.labels[0].dictionary.cast("string").to_pylist()
        of_label = np.array([self.most(label) for label in labels], np.int64)
        most: Ints = of_label[tree.labels[0].indices.to_numpy()]
        return most

    @property
    def by_level(self) -> tuple[list[Ints], Ints]:
        """For each level, the contributions of all roots that have their own, or of all nodes; and what they share."""
        if self.nodes is not None:
            level, contribution = (self.nodes.column(name).to_numpy() for name in ("level", "contribution"))
            return [contribution[level == i] for i in range(len(self.levels))], np.array([self.spec.budget])
        budget = np.array([self.spec.contributions_of(self.most(root)) for root in self.roots or [None]])
        return list(np.array(list(self.roots.values()) or [self.default]).T), budget

    def part_of(self, measure: "MeasurePlan") -> Floats:
        """A measure's part of the contributions, of the default split and of each root's."""
        mine, whole = (np.array([p.default, *p.roots.values()]).sum(axis=1) for p in (measure.plan, self))
        part: Floats = mine / np.maximum(whole, 1)
        return part

    @property
    def counts_alone(self) -> MeasureShare:
        """The share of the counts in a plan that measures nothing else: all of it."""
        return MeasureShare(name=COUNT, clip=1.0, tau=self.spec.tau, default=self.default, roots=self.roots)

    @property
    def largest(self) -> str:
        """The most that one conversion adds, by measure, as the metadata of estimates have it."""
        return json.dumps({share.name: share.clip for share in self.measures})

    @property
    def breakdowns(self) -> "tuple[Plan, ...]":
        """The plan of each breakdown: the plan itself, where there is one."""
        return self.parts or (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """What the breakdowns are called; the only one has no name."""
        return self.spec.called or ("",)

    @property
    def only(self) -> Self:
        """The plan itself, if it is of one breakdown; an InputError that names them if there are several."""
        if self.parts:
            names = ", ".join(map(repr, self.names))
            raise InputError(f"the plan is of several breakdowns ({names}), and one is needed here: take one of them")
        return self

    @property
    def error(self) -> float:
        """The error to expect of all levels and, by their weights, all breakdowns."""
        return self.expected.tree.plan

    @property
    def by_measure(self) -> "tuple[MeasurePlan, ...]":
        """A plan for each measure, in the order of the spec's; of a plan of one measure, the plan itself."""
        if len(self.only.measures) == 1:
            return (MeasurePlan(self.spec.asked[0], self, self.measures[0]),)
        plans = []
        for measure, share in zip(self.spec.asked, self.measures, strict=True):
            spec = self.spec.model_copy(update={"measures": (measure,)})
            alone = {"measures": (share,), "spec": spec, "tradeoff": None, "expected": share.expected or self.expected}
            plans.append(MeasurePlan(measure, self.model_copy(update=alone), share))
        return tuple(plans)

    def of_measure(self, name: str | None = None) -> "MeasurePlan":
        """The plan of a measure, by its name; of the only one without."""
        plans = {part.measure.name: part for part in self.by_measure}
        names = " and ".join(plans)
        if name is None and len(plans) > 1:
            raise ValueError(f'each measure has a part of the budget; this plan has {names}: name one, measure="…"')
        if name is not None and name not in plans:
            raise ValueError(f"the plan measures {names}; got {name!r}")
        return next(iter(plans.values())) if name is None else plans[name]

    def contribution(self, tree: Tree, measure: str | None = None) -> Ints:
        """What a conversion adds to each node's key, in the tree's order; roots not seen yet take the default.

        With several measures a node has a key for each; without naming one, what it adds to all of them together.
        """
        if measure is not None:
            return self.of_measure(measure).plan.contribution(tree)
        if tree.level_names != self.only.levels:
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
        part = self.of_measure(measure)
        return self.spec.noise_model.variance(self.budget(tree, measure)) * part.clip**2

    def budget(self, tree: Tree, measure: str | None = None) -> Floats:
        """The part of ε that each node's key has, in the tree's order; of several measures, name one."""
        plan = self.of_measure(measure).plan
        return plan.contribution(tree).astype(np.float64) * (self.spec.epsilon / self.spec.l1)

    def epsilon(self, root: str | None = None, measure: str | None = None) -> tuple[float, ...]:
        """The ε of each level, for a root by its label, or of the default split; of several measures, name one.

        With a δ, each is that of a level alone, at the same δ.
        """
        plan = self.of_measure(measure).plan
        row = plan.default if root is None else plan.roots.get(root, plan.default)
        return tuple(self.spec.noise_model.loss(contribution / self.spec.l1) for contribution in row)

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """The privacy loss under each neighbour relation, for the root that loses most."""
        return PrivacyLoss.of(*self.spent, self.spec.noise_model)

    @property
    def privacy_words(self) -> PrivacyWords:
        """What ε is of, and the privacy losses with what they are of, in sentences."""
        return privacy_words(self.spec, self.privacy_loss, self.most_of_all > 1)

    @property
    def spent(self) -> Spent:
        """The largest part of the budget that any root takes, in all breakdowns together."""
        if self.parts:
            return self.parts[0].spent
        varied, labels = self.spec.first_varied, list(self.roots)
        known, unknown = self.known_and_unknown
        repeats = self.spec.noise_model.repeats  # all conversions of an impression together
        times = np.array([repeats(most) for most in map(self.most, [None, *labels])])
        if self.nodes is not None:
            tree = Tree.from_parents(self.nodes.column("parent").to_numpy())
            path, below = paths(tree, tree.to_level_order(self.nodes.column("contribution").to_numpy()), varied)
            known, unknown = np.append(path - below, known)[None], np.append(below, unknown)[None]
            times = np.append(np.full(len(tree), times[0]), times)
        return spent(self.spec, known, unknown, times).plus(self.others)

    @property
    def known_and_unknown(self) -> tuple[Ints, Ints]:
        """Contributions by measure, of the default split and each root's: at levels that all conversions of an
        impression share, and at the others.
        """
        varied, each = self.spec.first_varied, [part.plan for part in self.by_measure]
        rows = np.array([[plan.default, *(plan.roots[label] for label in self.roots)] for plan in each])
        return rows[..., :varied].sum(axis=2), rows[..., varied:].sum(axis=2)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """The neighbour relations that ε holds for."""
        loss, most = self.privacy_loss, self.spec.epsilon * (1 + 1e-12)
        return tuple(name for name in UNITS if loss.under(name) <= most)

    @property
    def fingerprint(self) -> str:
        """What decides how its reports are to be read, in 16 hexadecimal digits; files made by the plan state it.

        Attributes and domains, contributions, limits, L1 and the API are in it; ε, prior and expected errors are not.
        Those of several breakdowns stand one after the other, with commas between them.
        """
        if self.parts:
            return ",".join(plan.fingerprint for plan in self.parts)
        spec, nodes = self.spec, self.nodes
        names = [*(attribute.name for attribute in spec.attributes), "contribution"]
        return digest(
            [spec.terms.kind, *(spec.api or ApiSection()).told_apart_by, spec.noise, spec.l1, self.levels],
            [attribute.model_dump(mode="json", include=DOMAIN, exclude_none=True) for attribute in spec.attributes],
            [
                (m.source, s.name, s.clip, s.default, s.roots, *m.told_apart_by)
                for m, s in zip(spec.asked, self.measures, strict=True)
            ],
            [self.most(), {root: self.most(root) for root in self.roots}],
            [] if nodes is None else [nodes.column(name).to_pylist() for name in names],
        )

    @property
    def key_mark(self) -> str:
        """What its keys begin with: 4 hexadecimal digits of its fingerprint and of where the bits of keys go."""
        return digest(self.fingerprint, [field.model_dump(mode="json") for field in self.keys or ()])[:4]

    @property
    def to_hand_on(self) -> Self:
        """The plan with what may be told of its prior: the one rule, by which every plan is made, and read from a file.

        A protected prior may be told. Of any other there is no sum, no node with its count, and of a mean two digits:
        what is left, contributions and expected errors, still depends on it.
        """
        if self.prior.protected:
            return self
        measures = tuple(share.model_copy(update=share.inexact) for share in self.measures)
        prior = self.prior.model_copy(update={"conversions": None, "lost": None})
        return self.model_copy(update={"expected": self.expected.unnamed(), "measures": measures, "prior": prior})

    def at(self, epsilon: float) -> Self:
        """The same plan under another ε. Under the API's noise it stays the best; errors go with √var(DLap(ε/L1))."""
        reason = self.only.fixed_epsilon
        if reason:
            raise ValueError(f"{reason}: make another plan")
        spec, factor = self.spec.at(epsilon), self.scale_of_errors(epsilon)
        unbounded = None if self.unbounded is None else self.unbounded * factor
        return self.model_copy(
            update={"spec": spec, "expected": self.expected.times(factor), "unbounded": unbounded, "other_noise": None}
        )

    def scale_of_errors(self, epsilon: float) -> float:
        """How many times as large errors of this split are under another ε, where only their scale changes."""
        spec = self.spec
        return sqrt(model(spec.noise, epsilon, spec.l1, spec.delta or 0.0).factor / spec.noise_model.factor)

    @property
    def fixed_epsilon(self) -> str:
        """Why another ε calls for another plan; empty if only the scale of its errors would change."""
        return self.changes_with_epsilon or "targets call for another split" * bool(self.spec.targets)

    @property
    def changes_with_epsilon(self) -> str:
        """Why the errors of this split do not go with one factor of ε; empty if they do."""
        if self.spec.has_limits and (self.tradeoff or self.per_impression or len(self.measures) > 1):
            return "another epsilon calls for other limits"
        if self.spec.has_limits and self.measures[0].bias_known:
            return "what limits cut off does not change with epsilon"
        if self.learn:
            return "what is learned is worth more or less under another epsilon"
        if not self.spec.noise_model.proportional:
            return f"noise is {self.spec.noise_model.words[0]}: another epsilon calls for another split"
        return ""

    def under(self, spec: Spec) -> Self:
        """The same contributions for another spec that has the same levels and measures."""
        if self.only.levels != spec.levels or self.spec.l1 != spec.l1:
            mine, other = (f"{', '.join(s.levels)} with l1 = {s.l1}" for s in (self.spec, spec))
            raise InputError(f"plans are compared level by level; the plan has {mine}, the spec has {other}")
        ours, theirs = ([measure.name for measure in s.asked] for s in (self.spec, spec))
        if ours != theirs:
            names = " and ".join
            raise InputError(
                f"plans are compared measure by measure; the plan has {names(ours)}, the spec has {names(theirs)}"
            )
        update: Record = {"spec": spec}
        update["measures"] = tuple(
            share.model_copy(update={"tau": spec.tau} if share.name == COUNT else {}) for share in self.measures
        )
        if spec.given_limit is None and self.per_impression is None:
            update["per_impression"] = PerImpression(default=self.most())
        return self.model_copy(update=update)

    def to_json(self) -> str:
        """The plan as JSON; one that goes by node has its nodes in a table of their own."""
        from attributary.plan.file import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str, nodes: Arrow = None) -> "Plan":
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

    def __repr__(self) -> str:
        levels, breakdowns = self.expected.levels, f" of {len(self.parts)} breakdowns" * bool(self.parts)
        nodes = f"{sum(level.nodes for level in levels):,} nodes in {len(levels)} levels{breakdowns}"
        return f"Plan({self.method} split of ε = {self.spec.epsilon:g}; {nodes}; expected error {self.error:.1%})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from attributary.report.notebook import plan_html

        return "".join(map(plan_html, self.breakdowns))

    def _rows(self, tree: Tree) -> Ints:
        """The contributions of each head, or one row for all."""
        if not self.roots:
            return np.array([self.default])
        labels = tree.labels[0].dictionary.cast("string").to_pylist()
        default, roots = self.default, self.roots
        of_label = np.array([roots.get(label, default) for label in labels], np.int64)
        rows: Ints = of_label[tree.labels[0].indices.to_numpy()]
        return rows

    def _by_node(self, tree: Tree) -> Ints:
        contribution = np.full(len(tree), -1)
        rows = match(tree, self.nodes)
        contribution[rows.node[rows.node >= 0]] = self.nodes.column("contribution").to_numpy()[rows.node >= 0]
        return down(tree, contribution, np.array(self.default), self.spec)

    def _check_measures(self) -> None:
        """Refuses measures that are not the spec's, and rows that are not alike or below 0."""
        names = [measure.name for measure in self.spec.asked]
        if [share.name for share in self.measures] != names:
            raise InputError(f"a plan has a part for each measure of its spec, {', '.join(names)}; make a new plan")
        rows = [[share.default, *share.roots.values()] for share in self.measures]
        if any(share.roots.keys() != self.measures[0].roots.keys() for share in self.measures) or any(
            len(row) != len(self.levels) or min(row) < 0 for each in rows for row in each
        ):
            raise InputError(
                f"contributions of a measure are {len(self.levels)} whole numbers, 0 or more, for the same roots as "
                "those of others; make a new plan"
            )

    def _check_breakdowns(self) -> None:
        """Refuses plans that are not of the spec's breakdowns, or that do not keep to one budget."""
        sharing, limit = self.sharing, self.spec.budget
        if sharing is None or any(len(each) != len(self.parts) for each in (sharing.alone, sharing.costs)):
            raise InputError(f"a plan says what each of its {len(self.parts)} breakdowns costs; make a new plan")
        for asked, part, name in zip(self.spec.parts, self.parts, self.names, strict=True):
            if part.spec.without_targets() != asked.without_targets():
                raise InputError(f"the plan of breakdown {name!r} is not of the spec's; make a new plan")
        if self.largest_row > limit:
            raise InputError(
                f"contributions of all breakdowns sum to {limit} at most; got {self.largest_row}: make a new plan"
            )
        for part, right in zip(self.parts, with_others(self.parts, self.names), strict=True):
            others = right.others
            if others is None or part.others in (others, others.model_copy(update={"together": None})):
                continue  # without it, the sum is a bound
            raise InputError("a plan says what the other breakdowns take of the budget; make a new plan")


def with_others(plans: Sequence[Plan], names: Sequence[str]) -> tuple[Plan, ...]:
    """Each plan with what the other breakdowns take of the budget."""
    spent = [plan.model_copy(update={"others": None}).spent for plan in plans]
    each = [one.purchase for one in spent if one.purchase is not None]
    of_all = purchase_of_all(plans[0].spec, [plan.known_and_unknown for plan in plans])
    together = of_all if len(each) == len(spent) and of_all < sum(each) * (1 - 1e-9) else None
    made = []
    for i, plan in enumerate(plans):
        rest = [one for k, one in enumerate(spent) if k != i]
        purchase = [one.purchase for one in rest if one.purchase is not None]
        others = OtherParts(
            names=tuple(name for k, name in enumerate(names) if k != i),
            path=sum(one.path for one in rest),
            unknown=sum(one.unknown for one in rest),
            purchase=sum(purchase) if len(purchase) == len(rest) else None,
            together=together,
        )
        made.append(plan.model_copy(update={"others": others}))
    return tuple(made)


def _together(rows: list[Row]) -> Row:
    """The sum of contributions, level by level."""
    return rows[0] if len(rows) == 1 else tuple(map(sum, zip(*rows, strict=True)))


@dataclass(frozen=True, eq=False)
class MeasurePlan:
    """One measure of a plan: what a conversion of `clip` or more contributes, and the noise of its sums."""

    measure: Measure
    plan: Plan  # of this measure alone
    share: MeasureShare

    @property
    def clip(self) -> float:
        return self.share.clip

    @property
    def tau(self) -> float:
        return self.share.tau

    @property
    def limited(self) -> bool:
        """Whether a value is clipped, or only the first of several conversions of an impression count."""
        return not self.measure.is_count or self.plan.spec.conversions_per_impression != 1

    def contribution(self, tree: Tree) -> Ints:
        """What such a conversion adds to each node's key, in the tree's order."""
        return self.plan.contribution(tree)

    def variance(self, tree: Tree) -> Floats:
        """The noise variance of each node's sum, in the measure's unit; inf for a node without a key."""
        return self.plan.variance(tree)


def digest(*parts: object) -> str:
    """16 hexadecimal digits of values that JSON can hold: the beginning of a SHA-256."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def checksum(nodes: Arrow) -> int:
    """Of the contributions in a table of nodes, in its order."""
    return zlib.crc32(np.ascontiguousarray(nodes.column("contribution").to_numpy(), "<i8").tobytes())

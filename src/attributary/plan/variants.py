"""variants: what the errors would be if something else were asked: another budget, a longer period, coarser levels."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.plan.make import expected, make_plan
from attributary.plan.plan import Plan
from attributary.prior import Prior
from attributary.prior.earlier import Profile
from attributary.spec import Spec
from attributary.spec.attribute import DOMAINS
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Bools, Cells, Floats

OF_DOMAINS = (*DOMAINS, "buckets", "start")


class Coarser(NamedTuple):
    """An attribute that takes the place of a finer one: its name, and its label for each label of the finer one."""

    name: str
    label: Mapping[str, str]


@dataclass(frozen=True)
class Change:
    """What is asked otherwise; all of it at once."""

    words: str  # what the variant is called
    epsilon: float | None = None  # another budget
    guard: float | str | None = None  # a stricter or a looser one
    times: float = 1.0  # the length of the period, in periods of the prior: counts are in proportion
    coarser: Mapping[str, Coarser | None] = field(default_factory=dict)  # by attribute; None leaves it out
    api: Mapping[str, object] = field(default_factory=dict)  # other settings of the API, or another one by its `kind`

    def also(self, other: "Change") -> "Change":
        """Both at once."""
        return Change(
            f"{self.words}; {other.words}",
            self.epsilon if other.epsilon is None else other.epsilon,
            self.guard if other.guard is None else other.guard,
            self.times * other.times,
            {**self.coarser, **other.coarser},
            {**self.api, **other.api},
        )

    def levels(self, names: Iterable[str]) -> list[str]:
        """What levels of these names are called after the change."""
        new = ((name, self.coarser.get(name, Coarser(name, {}))) for name in names)
        return [coarser.name for _, coarser in new if coarser is not None]


class Variant(NamedTuple):
    """A change and the plan for it; `plan.expected` has the errors to expect."""

    change: Change
    plan: Plan
    noise: float | None = None  # the tree's error of noise alone, where budgets cut something off as well


def what_if(
    plan: Plan, tree: Tree, prior: Prior, changes: Iterable[Change], *, profile: Profile | None = None, **options: Any
) -> Iterator[Variant]:
    """For each change, the plan that the same method makes for it.

    Tree, prior and profile are those that the plan was made for; so are the options of `make_plan`. A longer period
    also has values that the prior has not seen; they are not in the tree, and domains stay as they are.
    """
    for change in changes:
        if change.epsilon is not None and change == Change(change.words, change.epsilon) and not plan.fixed_epsilon:
            yield Variant(change, plan.at(change.epsilon))
            continue
        asked = _Asked(plan.spec, tree, prior, profile).after(change)
        wishes = {"rounding": plan.rounding, "learn": plan.learn or False, **options, "strict": False}
        wishes["compare"] = bool(change.api)  # which may leave the scheme open
        wishes["share"] = {new: v for name, v in (wishes.get("share") or {}).items() for new in change.levels([name])}
        wishes["keep"] = change.levels(wishes.get("keep", ()))
        made = make_plan(asked.spec, asked.tree, asked.prior, plan.method, profile=asked.profile, **wishes)
        yield Variant(change, made, of_noise(made, asked.tree, asked.prior, asked.profile))


def of_noise(plan: Plan, tree: Tree, prior: Prior, profile: Profile | None) -> float | None:
    """The tree's error of noise alone; None where no budgets of devices run out."""
    if plan.spec.paid is None:
        return None
    mean = prior.mean if profile is None else profile.full(plan.spec.asked[0])
    return expected(plan, tree, replace(prior, mean=mean)).tree


class _Asked(NamedTuple):
    """A question, and what is known beforehand."""

    spec: Spec
    tree: Tree
    prior: Prior
    profile: Profile | None

    def after(self, change: Change) -> "_Asked":
        asked = self
        if change.epsilon is not None:
            asked = asked._replace(spec=asked.spec.at(change.epsilon))
        if change.api:
            asked = asked._replace(spec=asked.spec.with_api(change.api))
            paying = asked.profile and asked.profile.paying(asked.spec.paid)
            if paying and asked.spec.paid is None:  # nothing runs out
                asked = asked._replace(prior=replace(asked.prior, mean=paying.full(asked.spec.asked[0])))
            asked = asked._replace(profile=paying)
        if change.guard is not None:
            asked = asked._replace(spec=asked.spec.with_keys(guard=change.guard))
        if change.times != 1:
            if not (asked.prior.history and 0 < change.times < np.inf):
                raise InputError("another period needs counts of an earlier one, and a length above 0; give a prior")
            scaled = asked.profile and asked.profile.times(change.times)
            asked = asked._replace(prior=asked.prior.times(change.times), profile=scaled)
        for name, coarser in change.coarser.items():
            asked = asked.with_coarser(name, coarser)
        return asked

    def with_coarser(self, name: str, coarser: Coarser | None) -> "_Asked":
        """With one attribute replaced, or left out: leaves of one new path are one."""
        spec, tree = _with_attribute(self.spec, name, coarser), self.tree.in_level_order
        leaves = tree.table().take(tree.leaves)
        place = leaves.column_names.index(name)
        if coarser is None:
            leaves = leaves.remove_column(place)
        else:
            leaves = leaves.set_column(place, coarser.name, _relabelled(leaves.column(place), name, coarser))
        made = spec.tree(leaves)
        to = np.full(len(tree), -1)
        to[tree.leaves] = match(made, leaves).node

        def summed(values: Floats | Bools) -> Floats:
            of_leaves = self.tree.to_level_order(values)[tree.leaves].astype(np.float64)
            sums: Floats = made.sum_up(np.bincount(to[tree.leaves], of_leaves, len(made)))
            return sums

        prior, profile = self.prior, self.profile
        prior = replace(
            prior,
            mean=summed(prior.mean),
            variance=None if prior.variance is None else summed(prior.variance),  # never too small
            new=None if prior.new is None else summed(~prior.new) == 0,
            share=None,
            spread=None,
            label=None,
        )
        return _Asked(spec, made, prior, profile and replace(profile, tree=made, leaf=to[profile.leaf]))


def _with_attribute(spec: Spec, name: str, coarser: Coarser | None) -> Spec:
    """The spec with an attribute replaced, or left out."""
    names = [attribute.name for attribute in spec.attributes]
    if name not in names:
        raise InputError(f"there is no attribute {name!r} to make coarser; the attributes are {', '.join(names)}")
    if coarser is not None and coarser.name in names:
        raise InputError(f"{coarser.name!r} is a level already: leave {name!r} out instead, as in {name}=")
    given = spec.model_dump(by_alias=True, exclude_none=True)
    attributes, place = list(given["attribute"]), names.index(name)
    one = {key: value for key, value in attributes.pop(place).items() if key not in OF_DOMAINS}
    if coarser is not None:
        if spec.attributes[place].unknown:
            labels = (_label(label, name, coarser) for label in spec.attributes[place].labels)
            one["domain"] = list(dict.fromkeys(labels))
        attributes.insert(place, one | {"name": coarser.name})
    given["attribute"] = attributes
    if spec.split_by == name:
        given["split_by"] = coarser and coarser.name
    return type(spec)(**{key: value for key, value in given.items() if value is not None})


def _relabelled(column: Cells, name: str, coarser: Coarser) -> Cells:
    """A column of labels, each as the coarser attribute calls it."""
    import pyarrow as pa

    coded = column.combine_chunks()
    labels = [_label(label, name, coarser) for label in coded.dictionary.cast("string").to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(labels, pa.string())).cast(pa.string())


def _label(label: str, name: str, coarser: Coarser) -> str:
    if label not in coarser.label:
        raise InputError(f"{name} {label!r} has no {coarser.name}; give the table a row for it, or leave it out")
    return coarser.label[label]

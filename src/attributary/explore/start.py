"""Start: what the Plan tab plays with: a question, a tree and the counts to expect on it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.parts import parts
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats

Names = Callable[[list[int]], list[str]]
FANS = (12, 20, 14)
LEVELS = ("campaign", "location", "day", "hour", "device", "placement")
MOST_NODES = 1_000_000
CONVERSIONS = 5_000
MOST_CONVERSIONS = 10**12
EPSILON = 4.0


@dataclass(frozen=True, eq=False)
class Start:
    """A spec without splits by root: the tab moves one split for all."""

    spec: Spec
    tree: Tree
    count: Floats  # of each node, in the tree's order
    words: str  # where tree and counts come from
    names: Names  # of nodes by their number
    warning: str = ""
    share: tuple[float, ...] | None = None  # of each level, to begin with; None: the best
    fans: tuple[int, ...] = ()  # of a made-up tree
    conversions: int = 0  # and what they sum to

    @property
    def prior(self) -> Prior:
        return Prior(self.count, protected=True, new=np.zeros(len(self.tree), bool))


def made_up(fans: tuple[int, ...] = FANS, conversions: int = CONVERSIONS) -> Start:
    """A tree by its fan-outs, top to bottom, with counts that fall with rank on every level, as Zipf's law has it."""
    sizes = np.cumprod(fans).tolist()
    if not 1 <= len(fans) <= len(LEVELS) or min(fans) < 1:
        raise InputError(
            f"a made-up tree has 1 to {len(LEVELS)} levels of 1 or more each; got {fans}: as in 12 × 20 × 14"
        )
    if sum(sizes) > MOST_NODES:
        raise InputError(f"a made-up tree has at most {MOST_NODES:,} nodes; got {sum(sizes):,}: lower a fan-out")
    if not 1 <= conversions <= MOST_CONVERSIONS:
        raise InputError(f"a made-up tree has 1 conversion or more; got {conversions:,}")
    names = LEVELS[: len(fans)]
    last = {"unknown": True, "domain": [str(i + 1) for i in range(fans[-1])]} if len(fans) > 1 else {}
    attributes = [*({"name": name} for name in names[:-1]), {"name": names[-1], **last}]
    begin = np.concatenate([[0], np.cumsum(sizes)])
    above = [begin[i] + np.repeat(np.arange(sizes[i]), fan) for i, fan in enumerate(fans[1:])]
    tree = Tree.from_parents(np.concatenate([np.full(fans[0], -1), *above]))
    return Start(
        Spec(epsilon=EPSILON, attribute=attributes),
        tree,
        _zipf(tree, fans, conversions),
        f"made-up tree and counts: {' × '.join(map(str, fans))}, {conversions:,} conversions",
        lambda nodes: [_ordinal(v, begin.tolist(), fans, names) for v in nodes],
        fans=tuple(fans),
        conversions=conversions,
    )


def _zipf(tree: Tree, fans: tuple[int, ...], conversions: int) -> Floats:
    weight = np.ones(1)
    for fan in fans:
        weight = np.outer(weight, 1 / np.arange(1, fan + 1)).ravel()
    return tree.roll_up(np.round(conversions * weight / weight.sum()))


def _ordinal(node: int, begin: list[int], fans: tuple[int, ...], names: tuple[str, ...]) -> str:
    level = int(np.searchsorted(begin, node, side="right")) - 1
    return f"{names[level]} {(node - begin[level]) % fans[level] + 1}"


def of_plan(plan: Plan) -> Start:
    """A tree with the plan's number of nodes on each level, families alike; counts are made up, their sum is not."""
    sizes = [max(level.nodes, 1) for level in plan.expected.levels]
    conversions = plan.prior.conversions if plan.prior.history and plan.prior.conversions > 0 else CONVERSIONS
    parents = [np.full(sizes[0], -1)]
    begin = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for i in range(1, len(sizes)):
        if sizes[i] < sizes[i - 1]:
            raise InputError(
                "a level of the plan has fewer nodes than the one above; give the estimates or the spec, too"
            )
        parents.append(begin[i - 1] + np.arange(sizes[i]) * sizes[i - 1] // sizes[i])
    tree = Tree.from_parents(np.concatenate(parents))
    weight = 1 / np.arange(1, sizes[-1] + 1)
    levels = plan.levels
    return Start(
        counted(plan.spec),
        tree,
        tree.roll_up(np.round(conversions * weight / weight.sum())),
        f"the plan's levels and their sizes; which node has how many of the {conversions:,.0f} conversions is made up",
        lambda nodes: [f"{levels[int(np.searchsorted(begin, v, side='right')) - 1]} {v + 1}" for v in nodes],
        share=shares_of(plan),
    )


def shares_of(plan: Plan) -> tuple[float, ...]:
    """What part of the budget each level gets from roots that have no split of their own; of measures, of the first."""
    if plan.measures is not None:
        first = parts(plan)[0].plan.default
        return tuple(contribution / sum(first) for contribution in first)
    return tuple(contribution / plan.spec.budget for contribution in plan.default)


def counted(spec: Spec) -> Spec:
    """The same question with one split for all roots, of counts of one conversion to an impression."""
    limited = {"measures": None, "conversions_per_impression": 1} if not spec.counts_alone else {}
    return spec.model_copy(update={"split_by": None, **limited})

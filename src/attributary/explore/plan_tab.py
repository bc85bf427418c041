"""Plan tab: what it starts with, what its sliders ask, and the library's answers as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isfinite

import numpy as np

from attributary.errors import InputError
from attributary.explore.estimate_store import EstimateStore
from attributary.facts import numerals
from attributary.facts.numerals import json_number
from attributary.facts.plan import nodes_in_words
from attributary.noise import MODELS, page_of
from attributary.plan import Plan
from attributary.plan.errors import Compared
from attributary.plan.make import DELTA, GUESS
from attributary.plan.trial import Path, Sample, Trial, Tried, example_draws, normal_shares, number_targets
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.spec.measure import AUTO, COUNT
from attributary.spec.privacy_unit import UNITS
from attributary.spec.terms import at_epsilon
from attributary.tree import Tree
from attributary.types import Floats, Record

FANS = (12, 20, 14)
LEVELS = ("campaign", "location", "day", "hour", "device", "placement")
MOST_NODES = 1_000_000
CONVERSIONS = 5_000
MOST_CONVERSIONS = 10**12
EPSILON = 4.0
MOST_DIGITS = 30
SPAN, POINTS = 4.0, 9  # of the curve: times less and more ε
Params = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class PlanStart:
    """A spec without splits by root: the tab moves one split for all."""

    spec: Spec
    tree: Tree
    count: Floats  # of each node, in the tree's order
    words: str  # where tree and counts come from
    path: Path | None = None  # the labels down to a node, where the tree has none
    warning: str = ""
    share: tuple[float, ...] | None = None  # of each level, to begin with; None: the best
    fans: tuple[int, ...] = ()  # of a made-up tree
    conversions: int = 0  # and what they sum to

    @property
    def prior(self) -> Prior:
        return Prior(self.count, protected=True, new=np.zeros(len(self.tree), bool))

    @cached_property
    def trial(self) -> Trial:
        return Trial(self.tree, self.prior, self.path)

    @cached_property
    def sample(self) -> Sample:
        return Sample.of(self.tree, self.count)

    @cached_property
    def noises(self) -> list[tuple[str, str]]:
        """The names of the noise models that the spec can have, with their words."""
        return [(name, page.short) for name, page in MODELS.items() if name == self.spec.noise or self._takes(name)]

    def _takes(self, noise: str) -> bool:
        try:
            return bool(requested_spec(self, {"noise": noise}))
        except InputError:
            return False


# What it starts with


def plan_start(store: EstimateStore | None, plan: Plan | None, tau: float | None = None) -> PlanStart:
    """Estimates say what counts to expect next time; without them the plan's sizes do, and without a plan nothing."""
    if store is not None:
        return _of_store(store, plan, tau)
    return start_of_plan(plan) if plan is not None else made_up_start()


def made_up_start(fans: tuple[int, ...] = FANS, conversions: int = CONVERSIONS) -> PlanStart:
    """A tree by its fan-outs, top to bottom, with counts that fall with rank on every level, as Zipf's law has it."""
    import pyarrow as pa

    sizes = np.cumprod(fans).tolist()
    if not 1 <= len(fans) <= len(LEVELS) or min(fans) < 1:
        raise InputError(
            f"a made-up tree has 1 to {len(LEVELS)} levels with 1 or more children per node; got {fans}: try 12 × 20"
        )
    if sum(sizes) > MOST_NODES:
        raise InputError(f"a made-up tree has at most {MOST_NODES:,} nodes; got {sum(sizes):,}: use smaller numbers")
    if not 1 <= conversions <= MOST_CONVERSIONS:
        raise InputError(f"a made-up tree has 1 conversion or more; got {conversions:,}")
    names = LEVELS[: len(fans)]
    last = {"unknown": True, "domain": [str(i + 1) for i in range(fans[-1])]} if len(fans) > 1 else {}
    attributes = [*({"name": name} for name in names[:-1]), {"name": names[-1], **last}]
    begin, weight = np.concatenate([[0], np.cumsum(sizes)]), np.ones(1)
    above = [begin[i] + np.repeat(np.arange(sizes[i]), fan) for i, fan in enumerate(fans[1:])]
    labels = tuple(
        pa.DictionaryArray.from_arrays(np.arange(size) % fan, [f"{name} {i + 1}" for i in range(fan)])
        for name, size, fan in zip(names, sizes, fans, strict=True)
    )
    tree = Tree.from_parents(np.concatenate([np.full(fans[0], -1), *above]))
    for fan in fans:
        weight = np.outer(weight, 1 / np.arange(1, fan + 1)).ravel()
    return PlanStart(
        Spec(epsilon=EPSILON, attribute=attributes),
        replace(tree, attributes=names, labels=labels),
        tree.roll_up(np.round(conversions * weight / weight.sum())),
        f"a made-up tree with made-up counts, {' × '.join(map(str, fans))}, {conversions:,} conversions",
        fans=tuple(fans),
        conversions=conversions,
    )


def start_of_plan(plan: Plan) -> PlanStart:
    """A tree with the plan's number of nodes on each level, families alike; counts are made up, to the plan's sum."""
    sizes = [max(level.nodes, 1) for level in plan.expected.levels]
    conversions = plan.prior.conversions or CONVERSIONS  # the plan states those of a protected prior alone
    parents = [np.full(sizes[0], -1)]
    begin = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for i in range(1, len(sizes)):
        if sizes[i] < sizes[i - 1]:
            raise InputError(
                "a level of the plan has fewer nodes than the one above; give the estimates or the spec, too"
            )
        parents.append(begin[i - 1] + np.arange(sizes[i]) * sizes[i - 1] // sizes[i])
    tree = replace(Tree.from_parents(np.concatenate(parents)), total=plan.spec.total)
    weight = 1 / np.arange(1, sizes[-1] + 1)
    levels = plan.levels
    return PlanStart(
        count_spec(plan.spec),
        tree,
        tree.roll_up(np.round(conversions * weight / weight.sum())),
        f"the plan's levels and their sizes, with {conversions:,.0f} conversions spread over made-up rows",
        lambda v: [f"{levels[int(np.searchsorted(begin, v, side='right')) - 1]} {v + 1}"],
        share=shares_of(plan),
    )


def shares_of(plan: Plan) -> tuple[float, ...]:
    """Each level's part of the budget, for roots without a split of their own; of several measures, of the first."""
    first = plan.measures[0].default
    whole = sum(first) if len(plan.measures) > 1 else plan.spec.contributions_of(plan.most())
    return tuple(contribution / whole for contribution in first)


def count_spec(spec: Spec) -> Spec:
    """The same question with one split for all roots, of counts of one conversion per impression."""
    limited = {"measures": None, "conversions_per_impression": 1} if spec.values or spec.given_limit is None else {}
    return spec.model_copy(update={"split_by": None, **limited})


def start_of_prior(spec: Spec, tree: Tree, prior: Prior, source: str) -> PlanStart:
    """The tree that a spec asks for, with the counts of an earlier period."""
    where = f"{numerals.many(len(tree), 'row')}, counts from {source}"
    warning = f"NOT PRIVATE: the counts from {source} are NOT protected, and this page shows some of them as they are."
    return PlanStart(
        count_spec(spec),
        tree,
        prior.mean,
        where if prior.history else "no prior: all counts are 0",
        warning="" if prior.protected else warning,
    )


def _of_store(store: EstimateStore, plan: Plan | None, tau: float | None) -> PlanStart:
    counts = next((each for each in (store, *store.others) if each.measure == COUNT), store)
    view, cursor = counts.view, store.connection.cursor
    count = np.empty(len(counts))
    columns = cursor().execute(f"SELECT node, coalesce(estimate, 0) AS estimate FROM {view}").fetchnumpy()
    count[columns["node"]] = columns["estimate"]
    cells = ", ".join(f"a{i}" for i in range(len(counts.attributes))) or "label"

    @cache
    def path(node: int) -> Sequence[str]:
        labels = cursor().execute(f"SELECT {cells} FROM {view} WHERE node = ?", [node]).fetchone()
        return [str(label) for label in labels if label is not None]

    same = plan if plan is not None and plan.levels == counts.levels else None
    return PlanStart(
        _spec(counts.levels, counts.total, tau) if same is None else count_spec(same.spec),
        replace(Tree.from_parents(counts.forest.parent), total=counts.total),
        count,
        f"{numerals.many(len(counts), 'row')}, estimates from {counts.path}",
        path,
        share=None if same is None else shares_of(same),
    )


def _spec(levels: tuple[str, ...], total: bool, tau: float | None) -> Spec:
    """A spec for levels of these names, or, where a spec would refuse a name, of their numbers."""
    options: Record = {"epsilon": EPSILON, "total": total} | ({} if tau is None else {"tau": tau})
    names = levels[int(total) :]
    try:
        return Spec(**options, attribute=[{"name": name} for name in names])
    except InputError:
        return Spec(**options, attribute=[{"name": f"level {i + 1}"} for i in range(len(names))])


# What its sliders ask


def requested_spec(start: PlanStart, params: Params) -> Spec:
    """The spec of the start with what was moved; whatever it cannot be is refused by the spec itself."""
    changed: Record = start.spec.model_dump(by_alias=True, exclude_none=True)
    if params.get("epsilon"):
        changed = at_epsilon(changed, _number(params["epsilon"], "epsilon"))
    if params.get("tau"):
        changed["tau"] = _number(params["tau"], "tau")
    changed |= {name: params[name] for name in ("noise", "neighbours") if params.get(name)}
    finds_epsilon = changed.get("epsilon") == AUTO
    if finds_epsilon:
        changed["epsilon"] = GUESS
    approximate = "noise" in changed and page_of(changed["noise"]).approximate
    spec = Spec(**({"delta": DELTA, **changed} if approximate else {n: v for n, v in changed.items() if n != "delta"}))
    if "target" in params:
        asked = zip(spec.levels, params["target"].split(","), strict=False)
        spec = spec.without_targets().with_targets({n: _number(x, "target") / 100 for n, x in asked if x.strip()})
    least = start.trial.least_epsilon(spec) if finds_epsilon else None
    if least is None:
        return spec
    return spec.at(min(least, spec.terms.largest_epsilon) if spec.noise_model.on_sums else least)


def requested_shares(start: PlanStart, spec: Spec, params: Params) -> Floats:
    """The part of ε that each level gets; by default that of the start, or the best, which is also for new targets."""
    text = params.get("share", "")
    if not text and (start.share is None or "target" in params):
        return start.trial.shares(spec)
    parts = [_number(part, "share") for part in text.split(",")] if text else start.share or ()
    return normal_shares(spec, parts)


def whole_number(params: Params, name: str, default: int, digits: int) -> int:
    text = params.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise InputError(f"{name} is a whole number with at most {digits} digits; got {text[:40]!r}")
    return int(text)


def _number(text: str, name: str) -> float:
    try:
        number = float(text) if len(text) <= MOST_DIGITS and "_" not in text else float("nan")
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise InputError(f"{name} is a number; got {text[:40]!r}")
    return number


# The answers


def answer(start: PlanStart, params: Params) -> Record:
    """What comes of the requested shares, beside an equal split and the leaves alone."""
    spec = requested_spec(start, params)
    tried = start.trial.tried(spec, requested_shares(start, spec, params))
    return {
        "levels": _levels(spec, tried),
        "tree": {**_compared(tried.tree), "zeros": json_number(tried.zeros_of_tree)},
        "epsilon": spec.epsilon,
        "tau": spec.tau,
        "l1": spec.l1,
        "spent": sum(tried.contribution),
        "noise": spec.noise,
        "noises": start.noises,
        "noise_words": spec.noise_model.words[1],
        "neighbours": spec.neighbours,
        "relations": [(name, unit.protects) for name, unit in UNITS.items()],
        "loss": tried.loss._asdict(),
        "privacy": tried.privacy.sentences,
        "unknown": [attribute.name for attribute in spec.unknown],
        "notes": list(spec.notes),
        "start": {name: getattr(start, name) for name in ("words", "warning", "fans", "conversions")}
        | {"nodes": len(start.tree)},
    }


def best_answer(start: PlanStart, params: Params) -> Record:
    """The split of least error, what comes of it, and the least ε that meets the targets."""
    spec = requested_spec(start, params)
    tried = start.trial.tried(spec, start.trial.shares(spec))
    return {
        "levels": _levels(spec, tried),
        "tree": json_number(tried.tree.plan),
        "least": start.trial.least_epsilon(spec),
    }


def curve(start: PlanStart, params: Params) -> Record:
    """The errors of the requested shares under other budgets: what there is to trade."""
    spec, trial = requested_spec(start, params), start.trial
    split, targets = trial.contribution(spec, requested_shares(start, spec, params)), number_targets(spec)
    epsilons = np.geomspace(spec.epsilon / SPAN, spec.epsilon * SPAN, POINTS).tolist()
    errors = [trial.levels(spec.model_copy(update={"epsilon_or_auto": epsilon}), split) for epsilon in epsilons]
    levels = zip(spec.levels, np.transpose(errors).tolist(), strict=True)
    return {
        "epsilon": epsilons,
        "here": spec.epsilon,
        "levels": [{"level": n, "target": targets.get(n), "error": list(map(json_number, e))} for n, e in levels],
    }


def draws(start: PlanStart, params: Params) -> Record:
    """For each node that is shown: its count, and some draws of the noisy figure and of the estimate."""
    spec, sample, seed = requested_spec(start, params), start.sample, whole_number(params, "seed", 1, 9)
    split = start.trial.contribution(spec, requested_shares(start, spec, params))
    drawn = example_draws(sample, spec, split, seed)
    path = start.path or start.tree.path
    rows = [
        {
            "name": (list(path(int(sample.number[i]))) or ["total"])[-1],
            "level": int(sample.tree.level[v]),
            "count": float(sample.count[v]),
            "draws": [[json_number(draw.noisy[i]), json_number(draw.estimate[i])] for draw in drawn],
        }
        for i, v in enumerate(sample.shown.tolist())
    ]
    return {"rows": rows, "nodes": len(sample.tree), "whole": sample.whole, "seed": seed}


def _levels(spec: Spec, tried: Tried) -> list[Record]:
    targets, answers = number_targets(spec), []
    for contribution, level, raw, zeros in zip(tried.contribution, tried.levels, tried.raw, tried.zeros, strict=True):
        better = " (less than under this split)" if zeros < level.error.plan else ""
        words = [nodes_in_words(level), f"answering 0 everywhere: {numerals.percent(zeros)}{better}"]
        answers.append(
            {
                "level": level.level,
                "nodes": level.nodes,
                "target": targets.get(level.level),
                "words": "; ".join(filter(None, words)),
                "contribution": contribution,
                "share": contribution / spec.budget,
                "epsilon": spec.noise_model.loss(contribution / spec.l1),
                **_compared(level.error),
                "raw": json_number(raw),
                "zeros": json_number(zeros),
            }
        )
    return answers


def _compared(error: Compared) -> Record:
    return {"error": json_number(error.plan), "equal": json_number(error.equal), "leaves": json_number(error.leaves)}

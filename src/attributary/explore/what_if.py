"""What if: a budget tried out on a tree, before a single conversion is measured.

Errors are exact, not simulated, and cost classes of nodes that share a variance, not nodes: so that they follow a
slider on trees of any size. The example draws are made-up noise, not for release.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isfinite
from typing import Any

import numpy as np

from attributary import rmsre
from attributary.budget import tree_error
from attributary.budget.classes import Classes, classes
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.explore.plan_start import PlanStart
from attributary.noise import page_of
from attributary.plan.bounded_shares import BoundedCase
from attributary.plan.choose_limits import ChosenLimits
from attributary.plan.contributions import contributions
from attributary.plan.level_shares import Question, Shares, shares
from attributary.plan.make import DELTA, GUESS
from attributary.plan.privacy_unit import privacy_words, spent
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.spec.measure import AUTO, EQUAL, Target
from attributary.spec.terms import PrivacyLoss, at_epsilon
from attributary.tree import Tree
from attributary.types import Floats, Ints

MOST_DIGITS = 30
DRAWS = 3
SPAN, POINTS = 4.0, 9  # of the curve: times less and more ε
SIBLINGS = 3  # children that are shown of each node on the way down
MOST = 50_000  # nodes that are drawn for
SPARE = 5e-4  # of the least ε that meets targets, for what rounding to whole contributions may cost
MOST_BY_NODE = 1_000_000  # nodes whose errors are compared while a slider moves


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """RMSRE_τ to expect: of each level, denoised and as measured, and of the tree, denoised."""

    levels: Floats
    raw: Floats
    tree: float
    variance: Floats  # of the estimates of each class


class WhatIf:
    """A start, and what is worth keeping between one position of a slider and the next."""

    def __init__(self, start: PlanStart) -> None:
        self.start = start
        self._weights: dict[tuple[float, str], Floats] = {}
        self._shares: dict[tuple[Any, ...], Floats] = {}
        self._cases: dict[tuple[Any, ...], BoundedCase] = {}
        self._near: dict[tuple[Any, ...], Floats] = {}  # the last best shares, where the next ones will not be far
        self._least: dict[tuple[Any, ...], tuple[float, Floats]] = {}  # ε and shares, by targets and the last ones

    @cached_property
    def forest(self) -> Classes:
        return classes(self.start.tree, -1)

    @cached_property
    def count(self) -> Floats:
        return np.asarray(self.start.tree.to_level_order(self.start.count), np.float64)

    def contribution(self, spec: Spec, share: Floats) -> Ints:
        """Shares as the whole numbers that a plan would contribute."""
        row: Ints = contributions([self._question(spec)], [Shares(share)]).default[0]
        return row

    def best(self, spec: Spec) -> Floats:
        """The shares of least error that meet the targets of levels, or come near, and keep to the guard."""
        epsilon = None if spec.noise_model.proportional else spec.epsilon  # if so, the best split is the same at any ε
        depends_on = ("optimal", spec.neighbours, spec.tau, spec.noise, epsilon)
        free = self._kept(depends_on, partial(self._question, spec), "optimal")
        asked = (spec.targets, spec.epsilon if spec.targets else epsilon)
        key = ("bounded", spec.guard, spec.neighbours, spec.tau, spec.noise, *asked)
        if key not in self._shares:
            _forget(self._shares)
            near = self._near.get(key[1:5])
            found = self._bounded(spec).within(free[None, :, None], spec.epsilon, near=near).share
            self._shares[key] = found[0, :, 0]
            self._near[key[1:5]] = found
        return self._shares[key]

    def least_epsilon(self, spec: Spec) -> float | None:
        """The least ε that meets the targets; None without any."""
        if not _numbers(spec):
            return None
        last = (spec.guard, spec.neighbours, spec.tau, spec.noise)
        key = (*last, spec.targets)
        if key not in self._least:
            _forget(self._least)
            epsilon, found = self._bounded(spec).least_epsilon(*self._least.get(last, (spec.epsilon, None)))
            self._least[key] = self._least[last] = epsilon, found.share
        return self._least[key][0]

    def _bounded(self, spec: Spec) -> BoundedCase:
        """The bounds of a spec. What goes over all nodes is kept: only the bounds move with the sliders."""
        key = (spec.guard, spec.neighbours, spec.tau, spec.weights, spec.noise)
        if key not in self._cases:
            _forget(self._cases)
            levels = [Target(level, 1.0, None) for level in spec.levels[: self.forest.depth]]
            one = ChosenLimits((1.0,), np.array([spec.given_limit or 1]), {})
            level_shares = Shares(self.shares(spec, "equal"))
            self._cases[key] = BoundedCase.of([self._question(spec)], one, [level_shares], levels)
        case, wanted = self._cases[key], {target.name: target for target in spec.targets}
        bounds = []
        for bound in case.bounds[0]:
            target = wanted.get(spec.levels[bound.level]) if bound.level is not None else None
            if bound.target is None:
                equal = target is not None and target.error == EQUAL
                bounds.append(bound._replace(times=1.0 if equal else bound.times))
            elif target is not None and isinstance(target.error, float):
                bounds.append(bound._replace(target=target, most=target.error**2))
        return replace(case, bounds=(tuple(bounds),))

    def shares(self, spec: Spec, method: str) -> Floats:
        """The shares of a simple method, equal or leaves, which look at the levels only: a chain has them, too."""

        def of_chain() -> Question:
            chain = Tree.from_parents(np.arange(self.forest.depth) - 1)
            return Question.of(spec, chain, Prior(np.ones(len(chain))))

        return self._kept((method, spec.neighbours), of_chain, method)

    def errors(self, spec: Spec, rows: list[Ints]) -> list[ExpectedErrors]:
        """What to expect of each row of contributions."""
        forest, weight = self.forest, self._class_weights(spec.tau, spec.weights)
        precision = np.array([self._precision(spec, row) for row in rows])
        variance = tree_error.variances(forest, precision)
        variance = np.where(variance > tree_error.ENDLESS, np.inf, variance)
        with np.errstate(divide="ignore"):
            both = np.stack([variance, 1.0 / precision])
        levels = np.add.reduceat(
            np.multiply(weight, both, out=np.zeros_like(both), where=weight > 0), forest.offsets[:-1], axis=2
        )
        levels[:, :, np.bincount(forest.level, weight, forest.depth) == 0] = np.nan  # without weight, it has no error
        denoised, raw = np.sqrt(levels)
        tree = np.sqrt(np.nanmean(levels[0], axis=1)).tolist()
        return [ExpectedErrors(*each) for each in zip(denoised, raw, tree, variance, strict=True)]

    def by_node(self, spec: Spec, variance: Floats) -> list[dict[str, Any]]:
        """Of each level the median node and the worst, by name; nothing of trees too large for a slider."""
        start, tree = self.start, self.start.tree
        if len(tree) > MOST_BY_NODE:
            return []
        error = rmsre.nodes(self.count, self.forest.spread(tree, variance), spec.tau, spec.weigh)
        levels = []
        for i in range(tree.depth):
            here = tree.slice(i)
            v = here.start + int(np.argmax(error[here]))
            name = start.names([v if tree.order is None else int(tree.order[v])])[0]
            worst = {"name": name, "count": float(self.count[v]), "error": _finite(error[v])}
            levels.append({"median": _finite(float(np.median(error[here]))), "worst": worst})
        return levels

    def _precision(self, spec: Spec, row: Ints) -> Floats:
        """1 / variance of the figure of each class; 0 without a key."""
        down = np.cumsum(row[::-1])[::-1]  # a leaf above the last level takes what is below it, too
        each = np.where(self.forest.leaf, down[self.forest.level], row[self.forest.level]).astype(np.float64)
        return spec.noise_model.precision(each * spec.epsilon / spec.l1)

    def _class_weights(self, tau: float, weights: str) -> Floats:
        """What a class's variance counts for in the error of its level."""
        key = (tau, weights)
        if key not in self._weights:
            tree, forest = self.start.tree, self.forest
            relative = self.start.spec.weigh(self.count, tau)
            by_count = np.maximum(self.count, 0.0) if weights == "counts" else None
            mass = np.bincount(forest.level, forest.add_up(tree, by_count), forest.depth)
            summed = forest.add_up(tree, relative if by_count is None else relative * by_count)
            level_mass = mass[forest.level]
            _forget(self._weights)
            self._weights[key] = np.divide(summed, level_mass, out=np.zeros(len(summed)), where=level_mass > 0)
        return self._weights[key]

    def _kept(self, depends_on: tuple[Any, ...], question: Callable[[], Question], method: str) -> Floats:
        """A method's shares, which depend on nothing else of the spec; the question is asked once."""
        if depends_on not in self._shares:
            _forget(self._shares)
            self._shares[depends_on] = shares(question(), method).default
        return self._shares[depends_on]

    def _question(self, spec: Spec) -> Question:
        start = self.start
        return Question.of(spec, start.tree, start.prior)


def _forget(kept: dict[Any, Any], most: int = 64) -> None:
    """Makes room for one more."""
    if len(kept) >= most:
        del kept[next(iter(kept))]


# The answer to one position of the sliders.


def answer(what_if: WhatIf, params: Mapping[str, str]) -> dict[str, Any]:
    """What comes of the requested shares, beside an equal split and the leaves alone."""
    spec = requested_spec(what_if, params)
    simple = [what_if.shares(spec, method) for method in ("equal", "leaves")]
    rows = [what_if.contribution(spec, share) for share in (requested_shares(what_if, spec, params), *simple)]
    mine, equal, leaves = what_if.errors(spec, rows)
    chosen, most = rows[0], spec.given_limit or 1
    known, unknown = (np.array([[part.sum()]]) for part in np.split(chosen, [spec.first_varied]))
    loss = PrivacyLoss.of(*spent(spec, known, unknown, np.array([spec.noise_model.repeats(most)])), spec.noise_model)
    sizes = np.diff(what_if.start.tree.offsets).tolist()
    by_node, targets = what_if.by_node(spec, mine.variance), _numbers(spec)
    levels = [
        {
            "level": name,
            "nodes": sizes[i],
            "unknown": i >= spec.first_unknown,
            **_level(spec, chosen, mine, i),
            "target": targets.get(name),
            "equal": _finite(equal.levels[i]),
            "leaves": _finite(leaves.levels[i]),
            **(by_node[i] if by_node else {}),
        }
        for i, name in enumerate(spec.levels[: len(sizes)])
    ]
    return {
        "levels": levels,
        "tree": {"error": _finite(mine.tree), "equal": _finite(equal.tree), "leaves": _finite(leaves.tree)},
        "epsilon": spec.epsilon,
        "tau": spec.tau,
        "l1": spec.l1,
        "spent": int(chosen.sum()),
        "noise": spec.noise,
        "noise_words": spec.noise_model.words[1],
        "neighbours": spec.neighbours,
        "loss": loss._asdict(),
        "privacy": privacy_words(spec, loss, most > 1).sentences,
        "unknown": [attribute.name for attribute in spec.unknown],
        "notes": list(spec.notes),
    }


def best_answer(what_if: WhatIf, params: Mapping[str, str]) -> dict[str, Any]:
    """The split of least error, and what comes of it."""
    spec = requested_spec(what_if, params)
    row = what_if.contribution(spec, what_if.best(spec))
    (errors,) = what_if.errors(spec, [row])
    levels = [_level(spec, row, errors, i) for i in range(what_if.forest.depth)]
    least = what_if.least_epsilon(spec)
    return {"levels": levels, "tree": _finite(errors.tree), "least": least and least * (1 + SPARE)}


def curve(what_if: WhatIf, params: Mapping[str, str]) -> dict[str, Any]:
    """The errors of the requested shares under other budgets: what there is to trade."""
    spec = requested_spec(what_if, params)
    row = what_if.contribution(spec, requested_shares(what_if, spec, params))
    epsilons = np.geomspace(spec.epsilon / SPAN, spec.epsilon * SPAN, POINTS).tolist()
    specs = [spec.model_copy(update={"epsilon_or_auto": epsilon}) for epsilon in epsilons]
    errors, targets = [what_if.errors(each, [row])[0].levels.tolist() for each in specs], _numbers(spec)
    return {
        "epsilon": epsilons,
        "here": spec.epsilon,
        "levels": [
            {"level": name, "target": targets.get(name), "error": [_finite(each[i]) for each in errors]}
            for i, name in enumerate(spec.levels[: what_if.forest.depth])
        ],
    }


def requested_spec(what_if: WhatIf, params: Mapping[str, str]) -> Spec:
    """The spec of the start with what was moved; whatever it cannot be is refused by the spec itself."""
    changed: dict[str, Any] = what_if.start.spec.model_dump(by_alias=True, exclude_none=True)
    if params.get("epsilon"):
        changed = at_epsilon(changed, _number(params["epsilon"], "epsilon"))
    if params.get("tau"):
        changed["tau"] = _number(params["tau"], "tau")
    for name in ("noise", "neighbours"):
        if params.get(name):
            changed[name] = params[name]
    finds_epsilon = changed.get("epsilon") == AUTO
    if finds_epsilon:
        changed["epsilon"] = GUESS
    approximate = "noise" in changed and page_of(changed["noise"]).approximate
    spec = Spec(**({"delta": DELTA, **changed} if approximate else {n: v for n, v in changed.items() if n != "delta"}))
    if "target" in params:
        asked = zip(spec.levels, params["target"].split(","), strict=False)
        spec = spec.without_targets().with_targets({n: _number(x, "target") / 100 for n, x in asked if x.strip()})
    least = what_if.least_epsilon(spec) if finds_epsilon else None
    most = spec.terms.largest_epsilon if spec.noise_model.on_sums else np.inf
    return spec if least is None else spec.at(min(least * (1 + SPARE), most))


def requested_shares(what_if: WhatIf, spec: Spec, params: Mapping[str, str]) -> Floats:
    """The part of ε that each level gets, made to sum to 1; without any, those of the start, or the best.

    Where targets were moved, the best for them.
    """
    text = params.get("share", "")
    if not text and (what_if.start.share is None or "target" in params):
        return what_if.best(spec)
    parts = [_number(part, "share") for part in text.split(",")] if text else list(what_if.start.share or ())
    share, depth = np.array(parts, np.float64), len(spec.levels)
    if share.shape != (depth,) or not (share >= 0).all() or not 0 < share.sum() < np.inf:
        raise InputError(f"shares are {depth} numbers, 0 or more and not all 0; got {text[:60]}")
    if not share[what_if.forest.depth - 1 :].sum() > 0:
        raise InputError(f"{spec.levels[-1]!r} cannot be estimated without a key; give it a share")
    normal: Floats = share / share.sum()
    return normal


def requested_seed(params: Mapping[str, str]) -> int:
    """The seed of the example draws."""
    text = params.get("seed") or "1"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"a seed is a whole number below 10⁹; got {text[:40]!r}")
    return int(text)


def _numbers(spec: Spec) -> dict[str, float]:
    """The targets that are numbers, by level."""
    return {target.name: target.error for target in spec.targets if isinstance(target.error, float)}


def _level(spec: Spec, row: Ints, errors: ExpectedErrors, i: int) -> dict[str, Any]:
    return {
        "contribution": int(row[i]),
        "share": int(row[i]) / spec.budget,
        "epsilon": spec.noise_model.loss(int(row[i]) / spec.l1),
        "error": _finite(errors.levels[i]),
        "raw": _finite(errors.raw[i]),
    }


def _finite(x: float) -> float | str | None:
    """A number that JSON knows; nan is nothing, and ∞ is a word."""
    return float(x) if isfinite(x) else None if np.isnan(x) else "inf"


def _number(text: str, name: str) -> float:
    try:
        number = float(text) if len(text) <= MOST_DIGITS and "_" not in text else float("nan")
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise InputError(f"{name} is a number; got {text[:40]!r}")
    return number


# Three examples of what a report would look like.


class Sample:
    """The largest root of a start with all below it; of a very large one, the largest nodes of each level."""

    def __init__(self, start: PlanStart) -> None:
        tree, count = start.tree, np.asarray(start.tree.to_level_order(start.count), np.float64)
        self.nodes = _largest(tree, count, MOST)
        place = np.full(len(tree), -1)
        place[self.nodes] = np.arange(len(self.nodes))
        parent = np.where(tree.family[self.nodes] < 0, -1, place[tree.family[self.nodes]])
        self.tree = Tree.from_parents(parent)
        self.count: Floats = self.tree.roll_up(count[self.nodes][self.tree.leaves])
        self.whole = bool((np.diff(self.tree.first) == np.diff(tree.first.astype(np.int64))[self.nodes]).all())
        self.shown = _shown(self.tree, self.count)
        number = self.nodes if tree.order is None else tree.order[self.nodes]
        self.names = start.names([int(v) for v in number[self.shown]])


def example_draws(sample: Sample, spec: Spec, contribution: Ints, seed: int) -> dict[str, Any]:
    """For each node that is shown: its count, and three draws of the noisy figure and of the estimate.

    The noise of a seed is made of the same random numbers whatever the budget: figures move with the sliders only.
    """
    tree, model = sample.tree, spec.noise_model
    deep = contribution[: tree.depth].astype(np.float64)
    deep[-1] += contribution[tree.depth :].sum()  # a tree that ends early takes the rest, as its leaves do
    budget: Floats = spec.epsilon * tree.spread(deep[None], rest=True) / spec.l1
    variance, steps = model.variance(budget), model.steps(budget)
    draws = []
    for i in range(DRAWS):
        rng = np.random.default_rng([seed, i])
        drawn = model.replay(budget, rng.standard_exponential(len(tree)), rng.standard_exponential(len(tree)))
        noisy = np.where(budget > 0, sample.count + drawn / steps, 0.0)
        draws.append((np.where(budget > 0, noisy, np.nan), denoise(tree, noisy, variance).count))
    rows = []
    for v, name in zip(sample.shown.tolist(), sample.names, strict=True):
        pairs = [[_finite(noisy[v]), _finite(estimate[v])] for noisy, estimate in draws]
        rows.append({"name": name, "level": int(tree.level[v]), "count": float(sample.count[v]), "draws": pairs})
    return {"rows": rows, "nodes": len(tree), "whole": sample.whole, "seed": seed}


def _largest(tree: Tree, count: Floats, most: int) -> Ints:
    """In level order: the largest root and all below it, or the largest of each level that stand below kept ones."""
    kept = [np.array([int(np.argmax(count[: int(tree.first[0])]))])]
    room = most // tree.depth
    for _ in range(1, tree.depth):
        above = kept[-1]
        begin, end = tree.first[above].astype(np.int64), tree.first[above + 1].astype(np.int64)
        size = end - begin
        below = np.repeat(begin - np.concatenate([[0], np.cumsum(size)[:-1]]), size) + np.arange(int(size.sum()))
        if not len(below):
            break
        if len(below) > room:
            below = np.sort(below[np.argsort(-count[below], kind="stable")[:room]])
        kept.append(below)
    return np.concatenate(kept)


def _shown(tree: Tree, count: Floats) -> Ints:
    """The root, its largest children, the largest children of the first of these, and so on."""
    shown, v = [0], 0
    while tree.first[v + 1] > tree.first[v]:
        children = np.arange(tree.first[v], tree.first[v + 1]).astype(np.int64)
        order = children[np.argsort(-count[children], kind="stable")[:SIBLINGS]]
        shown += order.tolist()
        v = int(order[0])
    return np.array(shown)

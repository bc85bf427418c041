"""Bounded plans to remember: small trees and some larger ones, with specs that set bounds of all kinds.

`python -m support.bounded > plan/bounded_answers.csv` in tests/ writes the answers of the search as it is today.
"""

import csv
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from attributary import Plan, Prior, Spec, Tree, make_plan
from attributary.errors import InputError
from attributary.plan import expected

CASES = 240
W3C = {"kind": "w3c", "site_epsilon": 2.0, "conversions_per_epoch": 2}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "roots": {"split_by": "a"},
    "total": {"total": True},
    "total above roots": {"total": True, "split_by": "a"},
    "definition 1": {"neighbours": "definition-1"},
    "definition 1 by root": {"neighbours": "definition-1", "split_by": "a"},
    "definition 1, total above roots": {"neighbours": "definition-1", "split_by": "a", "total": True},
    "by counts": {"weights": "counts"},
    "unit noise": {"noise": "unit"},
    "unit noise by root": {"noise": "unit", "split_by": "a"},
    "gaussian": {"noise": "gaussian", "delta": 1e-6},
    "gaussian by root": {"noise": "gaussian", "delta": 1e-6, "split_by": "a"},
    "w3c A": {"api": {**W3C, "scheme": "A"}},
    "w3c B": {"api": {**W3C, "scheme": "B"}},
    "w3c C": {"api": {**W3C, "scheme": "C"}, "split_by": "a"},
}
MEASURES = [{"name": "count"}, {"name": "revenue", "clip": 20, "tau": 100}, {"name": "items", "clip": 3, "weight": 0.5}]


class Case(NamedTuple):
    name: str
    spec: Spec
    tree: Tree
    prior: Prior
    options: dict[str, Any]  # of make_plan

    def plan(self) -> Plan:
        return make_plan(self.spec, self.tree, self.prior, compare=False, strict=False, **self.options)


class Answer(NamedTuple):
    """What a bounded plan comes to; errors are to expect of its whole contributions."""

    case: str
    epsilon: float
    goal: float  # what the search makes small: the error of the tree, or the root mean square of the roots' own errors
    missed: float  # the largest ratio of a level's error to a target of it
    guard: float  # ... and to its error under an equal split times the guard
    levels: tuple[float, ...]  # measure by measure


def cases() -> Iterator[Case]:
    """The cases in order, each from its own seed."""
    for seed in range(CASES):
        yield case(seed)


def case(seed: int) -> Case:
    rng = np.random.default_rng([26, seed])
    kind = list(KINDS)[seed % len(KINDS)]
    keys, w3c = dict(KINDS[kind]), kind.startswith("w3c")
    roots = int(rng.choice([1, 2, 3, 6, 12, 40]))
    names = ["a", "b", "c"][: int(rng.integers(2, 4)) if not w3c else 2]
    several = kind in list(KINDS)[:7] and rng.random() < 0.4
    measures = MEASURES[: int(rng.integers(2, 4))] if several else []
    guard = ["none", 1.0, 1.1, 1.3, 2.0][int(rng.integers(5))]
    options: dict[str, Any] = {"keep": [names[0]]} if rng.random() < 0.1 else {}
    options |= {"share": {names[1]: 0.2}} if not options and rng.random() < 0.1 else {}
    options |= {"learn": True} if not measures and not w3c and rng.random() < 0.1 else {}
    attributes = [{"name": name} for name in names]
    day = {"name": "day", "unknown": True, "range": [1, int(rng.choice([2, 4, 7]))]}
    attributes += [day] if "definition" in kind or rng.random() < 0.8 else []
    keys |= {"epsilon": float(rng.choice([0.5, 2, 4, 10])), "tau": float(rng.choice([3, 5, 20])), "guard": guard}
    keys |= {"measures": measures} if measures else {}
    if w3c:
        del keys["epsilon"]
    spec = Spec(**keys, attribute=attributes)
    tree, prior = _counted(spec, rng, roots, names)
    targets = _targets(spec, tree, prior, rng)
    spec = spec.with_targets(targets) if targets else spec
    number = {name: error for name, error in targets.items() if error != "equal"}
    auto = bool(number) and not w3c and rng.random() < 0.5
    spec = spec.with_keys(epsilon="auto") if auto else spec
    many = f", {len(measures)} measures" if measures else ""
    bounds = f"guard {guard}, {len(targets)} targets{', least epsilon' * auto}"
    extra = "".join(f", {name}" for name in options)
    return Case(f"{seed} {kind}: {roots} roots{many}, {bounds}{extra}", spec, tree, prior, options)


def _counted(spec: Spec, rng: np.random.Generator, roots: int, names: list[str]) -> tuple[Tree, Prior]:
    """An uneven tree with uneven counts; some roots may be new."""
    width = 9 if roots < 40 else 4
    rows = [(i, j) for i in range(roots) for j in range(rng.integers(1, width))]
    if len(names) > 2:
        rows = [(*row, k) for row in rows for k in range(rng.integers(1, width))]
    tree = spec.tree({name: [f"{name}{row[at]}" for row in rows] for at, name in enumerate(names)})
    head = tree.from_level_order(tree.in_level_order.hand_down(np.arange(roots), int(spec.total), above=-1))
    new = (head == 1) & (roots > 5) & (rng.random() < 0.5)
    size = np.exp(rng.normal(1.5, 1.5, roots)[head] + rng.normal(0, 1.3, len(tree)))
    counts = np.where(new, 0, rng.poisson(size))[tree.leaves]
    return tree, Prior(tree.roll_up(counts.astype(float)), None, True, new)


def _targets(spec: Spec, tree: Tree, prior: Prior, rng: np.random.Generator) -> dict[str, Any]:
    if rng.random() < 0.25:
        return {}
    equal = make_plan(spec.with_keys(guard="none"), tree, prior, "equal", compare=False, strict=False)
    names = rng.permutation(spec.levels)[: int(rng.integers(1, 3))]
    errors = {each.level: each.error.plan for each in equal.by_measure[0].plan.expected.levels}
    return {
        str(name): "equal" if rng.random() < 0.15 else float(errors[name] * rng.uniform(0.5, 1.2)) for name in names
    }


def answer(case: Case, plan: Plan | None = None) -> Answer:
    """The answer of the plan that is made today, or of another."""
    plan = plan or case.plan()
    goal = weight = missed = guard = 0.0
    errors: list[float] = []
    asked = {target.name: target.error for target in plan.spec.targets}
    for part in plan.by_measure:
        ours = expected(plan, case.tree, case.prior, measure=part.measure.name)
        errors += ours.levels.tolist()
        own = float(np.nanmean(ours.roots**2)) if plan.spec.split_by else ours.tree**2
        goal, weight = goal + part.measure.weight * own, weight + part.measure.weight
        for level, error in zip(part.plan.expected.levels, ours.levels, strict=True):
            target, without = asked.get(level.level, np.inf), level.error.equal
            with np.errstate(invalid="ignore"):  # max passes over ∞ / ∞
                missed = max(missed, error / (without if target == "equal" else float(target or np.inf)))
                if not plan.learn:  # else the error of an equal split is that with the prior
                    guard = max(guard, error / (plan.spec.guard_factor * without))
    return Answer(case.name, plan.spec.epsilon, float(np.sqrt(goal / weight)), missed, guard, tuple(errors))


def recorded(path: str) -> dict[str, Answer]:
    """Answers by case, as they were written."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["case"]: Answer(
            row["case"],
            float(row["epsilon"]),
            float(row["goal"]),
            float(row["missed"]),
            float(row["guard"]),
            tuple(map(float, row["levels"].split())),
        )
        for row in rows
    }


def main() -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(Answer._fields)
    for each in cases():
        try:
            found = answer(each)
        except InputError:  # of a least ε beyond what an answer takes
            found = Answer(each.name, np.inf, np.inf, np.inf, np.inf, ())
        figures = [f"{x:.6g}" for x in (found.epsilon, found.goal, found.missed, found.guard)]
        writer.writerow([found.case, *figures, " ".join(f"{error:.5g}" for error in found.levels)])


if __name__ == "__main__":
    main()

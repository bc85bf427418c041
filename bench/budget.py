"""Splitting the budget: against plain denoising of the same forest, and what each way to split gains."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attributary import Prior, Spec, Tree, budget, make_plan, prior
from attributary.denoising import linear
from bench.timing import best, heading

EPSILON, TAU = 4.0, 10.0
BARS = {"greedy": 15, "optimal": 100}
PARTNERS, DELAYS = 312, 15
LEVELS = ("partner", "country", "device", "age", "delay")
TARGETS = {"partner": 0.035, "country": 0.05}
TARGETS_BAR = 3  # times a plan without targets and guard


def main() -> None:
    for nodes, times in ((10**5, 5), (10**7, 1)):
        tree, count = csscl_like(nodes)
        variance = np.full(len(tree), 2.0)
        plain = best(lambda: linear.blue(tree, count, variance), 5)  # noqa: B023
        heading(f"Splitting over {len(tree):,} nodes ({sizes(tree)}), ε = {EPSILON:g}, τ = {TAU:g}")
        print(f"one plain denoising in NumPy, checks included: {plain * 1e3:.1f} ms", flush=True)
        for noise in ("api", "unit"):
            compare(tree, count, plain, noise, times)
        if nodes <= 10**5:
            hedged(tree, count, plain, times)
            targets(tree, count, times)


def compare(tree: Tree, count: NDArray[np.float64], plain: float, noise: str, times: int) -> None:
    """Time and expected error of each way to split, beside those of the best split by level."""
    found = {}
    for way in (budget.equal, budget.leaves, budget.greedy, budget.optimal, budget.per_node):
        splits: list[budget.Split] = []
        took = best(lambda: splits.append(way(tree, count, EPSILON, TAU, noise=noise)), times, 0)  # noqa: B023
        errors = budget.expected(tree, count, splits[0], TAU).roots
        found[way.__name__] = (took, np.sqrt(np.mean(errors**2)))
    for name, (took, error) in found.items():
        bar = f"(bar {BARS[name]}x)" if name in BARS else ""
        print(
            f"{noise:5}{name:9}{took * 1e3:10.1f} ms {took / plain:7.1f} denoisings {bar:11}"
            f"  RMSRE over roots {error:.5f}, {error / found['optimal'][1] - 1:+7.2%} against optimal",
            flush=True,
        )


def hedged(tree: Tree, count: NDArray[np.float64], plain: float, times: int) -> None:
    """Time of a split for estimates that use the prior, and of what it goes by."""
    then = Prior(count, None, True, np.zeros(len(tree), bool))
    known = [prior.foreseen(tree, then, tau=TAU)]
    foresight = best(lambda: known.append(prior.foreseen(tree, then, tau=TAU)), times, 0)
    given = {"share": known[0].share, "spread": known[0].spread}
    took = best(lambda: budget.optimal(tree, count, EPSILON, TAU, **given), times, 0)
    both = f"{took / plain:.1f} denoisings (bar 100x), and {foresight / plain:.1f} to foresee it"
    print(f"for estimates that use the prior: {both}")


def targets(tree: Tree, count: NDArray[np.float64], times: int) -> None:
    """Time of a whole plan that meets targets, with ε given and with the least that does, beside one without bounds."""
    labels = [[f"{name}{i}" for i in range(n)] for name, n in zip(LEVELS, np.diff(tree.offsets), strict=True)]
    coded = (pa.DictionaryArray.from_arrays(pa.array(np.arange(len(each), dtype=np.int32)), each) for each in labels)
    tree, then = (
        replace(tree, attributes=LEVELS, labels=tuple(coded)),
        Prior(count, None, True, np.zeros(len(tree), bool)),
    )
    for split_by in (None, LEVELS[0]):
        free = _asked(guard="none", split_by=split_by)
        kinds = {
            "without bounds": free,
            "targets": free.with_keys(guard=2).with_targets(TARGETS),
            'targets, epsilon = "auto"': free.with_keys(guard=2).with_targets(TARGETS).with_keys(epsilon="auto"),
        }
        took = {}
        for words, spec in kinds.items():
            took[words] = best(lambda: make_plan(spec, tree, then, compare=False), times, 0)  # noqa: B023
            bar = "" if words == "without bounds" else f" (bar {TARGETS_BAR}x)"
            ratio = took[words] / took["without bounds"]
            print(f"a plan, split_by {split_by}, {words}: {took[words] * 1e3:.0f} ms, {ratio:.1f}x{bar}", flush=True)


def _asked(**options: Any) -> Spec:
    attributes: list[dict[str, Any]] = [{"name": name} for name in LEVELS]
    attributes[-1] |= {"unknown": True, "domain": [str(i) for i in range(DELAYS)]}
    given = {key: value for key, value in options.items() if value is not None}
    return Spec(epsilon=EPSILON, tau=TAU, attribute=attributes, **given)


def sizes(tree: Tree) -> str:
    return " > ".join(f"{n:,}" for n in np.diff(tree.offsets))


def csscl_like(nodes: int, seed: int = 0) -> tuple[Tree, NDArray[np.float64]]:
    """Partner > country > device > age group > delay: 312 partners, a few of them large, and about this many nodes."""
    rng = np.random.default_rng(seed)
    groups = nodes / (DELAYS + 1.7)
    share = rng.pareto(1.2, PARTNERS) + 0.1
    countries = np.maximum(1, np.round(share / share.sum() * groups / 5.2)).astype(np.int64)
    levels = [np.full(PARTNERS, -1)]
    for fan in (countries, 3, 4, DELAYS):
        above = sum(map(len, levels[:-1])), len(levels[-1])
        size = (
            fan if np.ndim(fan) else np.full(above[1], fan) if fan == DELAYS else 1 + rng.binomial(fan, 0.35, above[1])
        )
        levels.append(np.repeat(above[0] + np.arange(above[1]), size))
    tree = Tree.from_parents(np.concatenate(levels))
    last = tree.slice(4)
    popular = np.repeat(np.exp(rng.normal(0.0, 2.0, len(levels[3]))), DELAYS)
    delay = np.tile(np.exp(-0.4 * np.arange(DELAYS)), len(levels[3]))
    count = np.zeros(len(tree))
    count[last] = rng.poisson(popular * delay)
    for i in reversed(range(1, 5)):
        level = tree.slice(i)
        count += np.bincount(tree.family[level], count[level], len(tree))
    return tree, count


if __name__ == "__main__":
    main()

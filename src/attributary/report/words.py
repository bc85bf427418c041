"""Words: what was asked and how private it is, in plain language."""

from collections.abc import Sequence
from math import exp

import numpy as np
from numpy.typing import NDArray

from attributary.plan import Plan
from attributary.report import figures
from attributary.report.estimates import Estimates
from attributary.report.fact import Fact
from attributary.report.measure_words import measure_facts, most_of_all
from attributary.tables.not_private import NO_NOISE, SEEDED, TRUE_COUNTS

LARGE = 1e6  # a factor that nobody can picture
FEW = 8  # levels that are named one by one
SPLITS = {
    "optimal": "where it makes the error least",
    "greedy": "step by step to the level that gains most",
    "equal": "equally over all levels",
    "leaves": "all to the last level",
    "per-node": "node by node",
}


def title(levels: tuple[str, ...], measures: Sequence[str] = ("conversions",)) -> str:
    """What a page is about, by the levels and by what the measures are called."""
    named, what = few([level for level in levels if level != "total"]), figures.listed(few(list(measures)))
    what = what[:1].upper() + what[1:]
    return f"{what} by {figures.listed(named)}" if named else what if levels else "Methods compared"


def few(levels: list[str] | tuple[str, ...]) -> list[str]:
    """The names of levels, those in the middle left out where there are many."""
    return list(levels) if len(levels) <= FEW else [*levels[:2], "…", levels[-1]]


def facts(plan: Plan | None, est: Estimates | None) -> list[Fact]:
    """The facts of the first section."""
    expected = [] if est is None or est.from_prior is None else [_expected(est, est.from_prior)]
    if plan is None:
        return [Fact("Question", " › ".join(few(est.tree.level_names))), NO_PLAN, *expected] if est else [EVALUATION]
    return [_question(plan, est), *measure_facts(plan), _budget(plan), _noise(plan), _prior(plan), *expected]


NO_PLAN = Fact(
    "Privacy",
    "not told",
    (
        "No plan was given, so this page cannot say which ε was spent, nor what it protects.",
        "Make the report from the plan and the estimates together.",
    ),
)
EVALUATION = Fact(
    "Question",
    "how large is the error of each method?",
    warning="An evaluation is computed from true counts, and no ε protects it.",
)


def not_private(said: str) -> list[str]:
    """The warning that files carry, in sentences; none if all are private."""
    known = {
        SEEDED: "The noise came from a known seed: whoever knows the seed can take the noise away.",
        NO_NOISE: "No noise was added: these are exact sums.",
        TRUE_COUNTS: "True counts without noise had a part in these figures.",
    }
    return [known.get(words, words) for words in said.split(" | ") if words]


def _question(plan: Plan, est: Estimates | None) -> Fact:
    spec = plan.spec
    sizes = [len(range(*est.tree.slice(i).indices(len(est)))) for i in range(est.tree.depth)] if est else None
    counts = sizes or [level.nodes for level in plan.expected.levels]
    told = figures.listed([f"{n:,} × {name}" for n, name in zip(counts, plan.levels, strict=False)])
    more = [f"{figures.many(sum(counts), 'node' if spec.values else 'count')}: {told}."]
    if spec.unknown:
        names = figures.listed([a.name for a in spec.unknown])
        more.append(
            f"Only a conversion knows its {names}, so every value is asked for, whether or not any conversion has it."
        )
    return Fact("Question", " › ".join(few(plan.levels)), tuple(more))


def _budget(plan: Plan) -> Fact:
    spec, costs = plan.spec, plan.costs
    factor = exp(min(spec.epsilon, 700))
    times = f"at most {figures.number(float(f'{factor:.2g}'))} times" if factor < LARGE else "at most e^ε times"
    about, it = "any one conversion happened at all", "it"
    if most_of_all(plan) > 1:
        about, it = "the conversions of any one impression happened at all, all that count together", "them"
    more = [
        f"Whether {about}: whatever is published here is {times} as likely with {it} as "
        f"without {it}. That costs {figures.number(costs.conversion)} of ε."
    ]
    warning = ""
    if spec.unknown:
        names = figures.listed([a.name for a in spec.unknown], "or")
        cost = f"Which {names} a conversion had costs {figures.number(costs.change)}"
        if "definition-1" in plan.guarantees:
            more.append(f"{cost}, so that ε holds for it, too (Definition 1).")
        else:
            warning = f'{cost}, more than ε: that is protected less. neighbours = "definition-1" would hold both to ε.'
    spent = SPLITS.get(plan.method, plan.method)
    each = f", for each {spec.split_by} on its own" if spec.split_by else ""
    more.append(f"The budget goes {spent}{each}.")
    return Fact("Privacy budget", f"ε = {figures.number(spec.epsilon)}", tuple(more), warning)


def _noise(plan: Plan) -> Fact:
    spec = plan.spec
    if plan.measures is not None:
        return Fact(
            "Noise",
            "discrete Laplace, as in a summary report",
            (
                "A conversion adds to one key of each level and measure, a value in proportion to where it is clipped; "
                f"an impression adds {spec.l1:,} at most. Every sum gets noise DLap(ε / {spec.l1:,}).",
            ),
        )
    what, how = spec.noise_model.words
    return Fact("Noise", what, (how,))


def _expected(est: Estimates, share: NDArray[np.float64]) -> Fact:
    each = [
        f"{figures.percent(share[est.tree.slice(i)].mean())} of {name}" for i, name in enumerate(est.tree.level_names)
    ]
    return Fact(
        "What was expected",
        f"{figures.percent(share.mean())} of the estimates came from it",
        (
            f"On average, by level: {figures.listed(few(each))}.",
            "Cousins, or an earlier period, say what to expect of a node; the more noise its own figure has, the more "
            "of the estimate comes from that.",
        ),
        "Such estimates are closer on average, but not unbiased: do not bill by them.",
    )


def _prior(plan: Plan) -> Fact:
    note = plan.prior
    if not note.history:
        return Fact("Made from", "no earlier counts", ("The plan goes by the structure of the tree alone.",))
    told = f"{figures.number(note.conversions)} earlier conversions"
    changed = []
    if note.new:
        changed.append(f"{figures.many(note.new, 'node')} are new since then.")
    if note.gone:
        changed.append(
            f"{figures.many(note.gone, 'leaf', 'leaves')} with {figures.number(note.lost)} conversions are gone."
        )
    if note.protected:
        return Fact("Made from", told, ("They were protected already, so planning with them costs nothing.", *changed))
    warning = "These were NOT protected: whoever sees the plan learns a little of them."
    return Fact("Made from", told, tuple(changed), warning)

"""Facts: what was asked and how private it is, as questions of a reader and their answers in plain language."""

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.budget import METHODS
from attributary.estimates import Estimates
from attributary.plan import MeasurePlan, Plan
from attributary.plan.plan import Trade
from attributary.report import numerals
from attributary.tables.not_private import NO_NOISE, SEEDED, TRUE_COUNTS


class Fact(NamedTuple):
    """`more` explains, `warning` must not be missed."""

    name: str
    answer: str
    more: tuple[str, ...] = ()
    warning: str = ""


SAME_NOISE = 0.02  # how far variances may be from those planned, relative to them
LARGE = 1e6  # a factor that nobody can picture


def title(levels: tuple[str, ...], measures: Sequence[str] = ("conversions",)) -> str:
    """What a page is about, by the levels and by what the measures are called."""
    named = numerals.few([level for level in levels if level != "total"])
    what = numerals.listed(numerals.few(list(measures)))
    what = what[:1].upper() + what[1:]
    return f"{what} by {numerals.listed(named)}" if named else what if levels else "Methods compared"


def facts(plan: Plan | None, est: Estimates | None) -> list[Fact]:
    """The facts of the first section."""
    expected = [] if est is None or est.from_prior is None else [_expected(est, est.from_prior)]
    if plan is None:
        if est is None:
            return [EVALUATION]
        return [Fact("Question", " › ".join(numerals.few(est.tree.level_names))), NO_PLAN, *expected]
    return [_question(plan, est), *measure_facts(plan), _budget(plan), _noise(plan, est), _prior(plan), *expected]


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
    told = numerals.listed([f"{n:,} × {name}" for n, name in zip(counts, plan.levels, strict=False)])
    more = [f"{numerals.many(sum(counts), 'node' if spec.values else 'count')}: {told}."]
    if spec.unknown:
        names = numerals.listed([a.name for a in spec.unknown])
        more.append(
            f"Only a conversion knows its {names}, so every value is asked for, whether or not any conversion has it."
        )
    return Fact("Question", " › ".join(numerals.few(plan.levels)), tuple(more))


def _budget(plan: Plan) -> Fact:
    spec, costs = plan.spec, plan.privacy_loss
    factor = exp(min(spec.epsilon, 700))
    times = f"at most {numerals.number(float(f'{factor:.2g}'))} times" if factor < LARGE else "at most e^ε times"
    about, it = "any one conversion happened at all", "it"
    if most_of_all(plan) > 1:
        about, it = "the conversions of any one impression happened at all, all that count together", "them"
    more = [
        f"Whether {about}: whatever is published here is {times} as likely with {it} as "
        f"without {it}. That costs {numerals.number(costs.conversion)} of ε."
    ]
    warning = ""
    if spec.unknown:
        names = numerals.listed([a.name for a in spec.unknown], "or")
        cost = f"Which {names} a conversion had costs {numerals.number(costs.change)}"
        if "definition-1" in plan.guarantees:
            more.append(f"{cost}, so that ε holds for it, too (Definition 1).")
        else:
            warning = f'{cost}, more than ε: that is protected less. neighbours = "definition-1" would hold both to ε.'
    spent = METHODS[plan.method].words if plan.method in METHODS else plan.method
    each = f", for each {spec.split_by} on its own" if spec.split_by else ""
    more.append(f"The budget goes {spent}{each}.")
    return Fact("Privacy budget", f"ε = {numerals.number(spec.epsilon)}", tuple(more), warning)


def _noise(plan: Plan, est: Estimates | None) -> Fact:
    spec, warning = plan.spec, _other_noise(plan, est)
    if spec.values or len(plan.measures) > 1:
        return Fact(
            "Noise",
            "discrete Laplace, as in a summary report",
            (
                "A conversion adds to one key of each level and measure, a value in proportion to where it is clipped; "
                f"an impression adds {spec.l1:,} at most. Every sum gets noise DLap(ε / {spec.l1:,}).",
            ),
            warning,
        )
    what, how = spec.noise_model.words
    return Fact("Noise", what, (how,), warning)


def _other_noise(plan: Plan, est: Estimates | None) -> str:
    """What to say where the figures do not have the plan's noise, so that its ε is not theirs."""
    if est is None or est.tree.level_names != plan.levels:
        return ""
    planned = est.tree.to_level_order(plan.variance(est.tree, plan.spec.asked[0].name))
    known = est.measured & (est.noise_variance > 0) & np.isfinite(planned)
    times = float(np.median(est.noise_variance[known] / planned[known])) if known.any() else 1.0
    if abs(times - 1) < SAME_NOISE:
        return ""
    return (
        f"The noise of these figures has {numerals.number(float(f'{times:.3g}'))} times the variance that was planned: "
        "reports were aggregated with another ε than the plan's, or several summary reports were added up. The ε here "
        "and the planned errors are those of the plan."
    )


def _expected(est: Estimates, share: NDArray[np.float64]) -> Fact:
    each = [
        f"{numerals.percent(share[est.tree.slice(i)].mean())} of {name}" for i, name in enumerate(est.tree.level_names)
    ]
    return Fact(
        "What was expected",
        f"{numerals.percent(share.mean())} of the estimates came from it",
        (
            f"On average, by level: {numerals.listed(numerals.few(each))}.",
            "Cousins, or an earlier period, say what to expect of a node; the more noise its own figure has, the more "
            "of the estimate comes from that.",
        ),
        "Such estimates are closer on average, but not unbiased: do not bill by them.",
    )


def _prior(plan: Plan) -> Fact:
    note = plan.prior
    if not note.history:
        return Fact("Made from", "no earlier counts", ("The plan goes by the structure of the tree alone.",))
    told = f"{numerals.number(note.conversions)} earlier conversions"
    changed = []
    if note.new:
        changed.append(f"{numerals.many(note.new, 'node')} are new since then.")
    if note.gone:
        changed.append(
            f"{numerals.many(note.gone, 'leaf', 'leaves')} with {numerals.number(note.lost)} conversions are gone."
        )
    if note.protected:
        return Fact("Made from", told, ("They were protected already, so planning with them costs nothing.", *changed))
    warning = "These were NOT protected: whoever sees the plan learns a little of them."
    return Fact("Made from", told, tuple(changed), warning)


def measure_facts(plan: Plan) -> list[Fact]:
    """What a plan of several measures, of values, or of several conversions to an impression has to say of these."""
    own = plan.by_measure
    found = []
    if plan.spec.measures:
        called = [f"{called_of(part)} in {part.measure.unit}" if part.measure.unit else called_of(part) for part in own]
        found.append(Fact("Measures", numerals.listed(called), tuple(_share(plan, part, len(own) > 1) for part in own)))
    if plan.spec.values or most_of_all(plan) > 1:
        found.append(_limits(plan, own))
    return found


def called_of(part: MeasurePlan) -> str:
    return "conversions" if part.measure.is_count else part.measure.name


def most_of_all(plan: Plan) -> int:
    """How many conversions of an impression count at most, at any root."""
    return max(plan.most(), *map(plan.most, plan.roots), 1)


def _share(plan: Plan, part: MeasurePlan, several: bool) -> str:
    """A measure's part of the budget, and what a conversion brings."""
    rows = np.array([part.plan.default, *part.plan.roots.values()]).sum(axis=1)
    whole = np.array([plan.default, *plan.roots.values()]).sum(axis=1)
    share = rows / np.maximum(whole, 1)
    low, middle, high = (numerals.percent(float(x)) for x in (share.min(), np.median(share), share.max()))
    told = (
        f"{middle} of the budget" + (f" ({low} to {high})" if low != high else "") if several else "all of the budget"
    )
    mean = part.share.mean
    unit = f"\u00a0{part.measure.unit}" if part.measure.unit else ""
    brings = f"; before, a conversion brought {numerals.number(mean)}{unit} on average" if mean is not None else ""
    name = called_of(part)
    return f"{name[:1].upper()}{name[1:]}: {told}{brings}."


def _limits(plan: Plan, own: tuple[MeasurePlan, ...]) -> Fact:
    counts = sorted({plan.most(), *map(plan.most, plan.roots)})
    few = str(counts[0]) if len(counts) == 1 else f"{counts[0]} {'or' if len(counts) == 2 else 'to'} {counts[-1]}"
    kept = [f"the first {few} conversions of an impression" if few != "1" else "one conversion of an impression"]
    kept += [
        f"{part.measure.name} up to {numerals.number(part.clip)}"
        + (f"\u00a0{part.measure.unit}" if part.measure.unit else "")
        for part in own
        if not part.measure.is_count
    ]
    more = ["What is beyond a limit is not in these figures, at any level. A wider limit would need more noise."]
    taken = chosen(plan)
    if taken is not None:
        more.append(
            f"Expected error of {numerals.percent(taken.error)}: {numerals.percent(taken.bias)} is what limits cut "
            f"off, which more reports do not average out; {numerals.percent(taken.noise)} is noise (squares add up)."
        )
    unknown = [part.name for part in plan.measures if not part.bias_known]
    warning = (
        f"The prior does not tell what they cut off of {numerals.listed(unknown)}; expected errors are without it."
    )
    return Fact("Limits", numerals.listed(kept), tuple(more), warning if unknown else "")


def chosen(plan: Plan) -> Trade | None:
    """What to expect of the limits that were chosen, all measures together; None where no row is of all roots."""
    rows = [trade for trades in (plan.tradeoff or {}).values() for trade in trades]
    return next((trade for trade in reversed(rows) if trade.chosen == 1), None)

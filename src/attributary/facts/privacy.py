"""Query and privacy: what was asked, how private the answer is, and what both rest on, for a page."""

from collections.abc import Sequence
from math import exp

import numpy as np

from attributary.estimates import Estimates
from attributary.facts import numerals
from attributary.facts.estimates import BIASED, prior_lines
from attributary.facts.numerals import Fact, Numeral, Table, percent, sentence
from attributary.facts.plan import REVEALS, about, split_words
from attributary.facts.quantity import Quantity
from attributary.logs.devices import LevelLoss, Reported
from attributary.plan import MeasurePlan, Plan
from attributary.plan.sections import Trade
from attributary.tables.table_columns import EXACT_PRIOR, NO_NOISE, SEEDED, TRUE_COUNTS

SAME_NOISE = 0.02  # how far variances may be from those planned, relative to them
LARGE = 1e6  # a factor that nobody can picture
NOT_PROTECTED = "these shares are counted in the logs without noise: no browser tells them, and no ε protects them"
USED_UP = "the budget of {} is used up"
OLDER = "credited to an older impression, or to another level"


def title(levels: tuple[str, ...], measures: Sequence[str] = ("conversions",)) -> str:
    """What a page is about, by the levels and by what the measures are called."""
    named = numerals.few([level for level in levels if level != "total"])
    what = numerals.listed(numerals.few(list(measures)))
    what = what[:1].upper() + what[1:]
    return f"{what} by {numerals.listed(named)}" if named else what if levels else "Methods compared"


def privacy_sentence(plan: Plan | None, est: Estimates, not_private: str) -> str:
    """How private estimates are, in a sentence; nothing where there is no plan, which nobody expects of a table."""
    if not_private:
        return "No ε protects these figures."
    if plan is None:
        return ""
    of = " by the plan" if _other_noise(plan, est) else ""
    return f"Privacy budget{of}: {_epsilon(plan.spec.epsilon)} ({plan.privacy_words.unit})."


def plan_headline(plan: Plan) -> list[str]:
    tree = plan.expected.tree
    errors = f"{percent(tree.plan)} ({percent(tree.equal)} with an equal split)"
    return [
        "A plan; nothing is measured yet.",
        f"Expected error over all levels: {errors}.",
        f"Privacy budget: {_epsilon(plan.spec.epsilon)} ({plan.privacy_words.unit}).",
    ]


def facts(plan: Plan | None, quantity: Quantity | None) -> list[Fact]:
    """What the section on query and privacy says of a plan and the estimates of its first measure."""
    est = None if quantity is None else quantity.estimates
    weight: list[Fact] = []
    if quantity is not None and quantity.estimates.from_prior is not None:
        mean = f"{percent(quantity.estimates.from_prior.mean())} on average"
        more = tuple(sentence(line.text) for line in prior_lines(quantity))
        weight = [Fact("Weight of the prior", mean, more, sentence(BIASED))]
    if plan is None:
        true = "An evaluation is computed from true counts, and no ε protects it."
        return weight if est is not None else [Fact("Query", "the error of each method", warning=true)]
    return [_question(plan, est), *measure_facts(plan), _budget(plan), _noise(plan, est), _prior(plan), *weight]


def not_private(said: str) -> list[str]:
    """The warning that files carry, in sentences; none if all are private."""
    known = {
        SEEDED: "The noise was drawn from a known seed: whoever knows the seed can remove the noise.",
        NO_NOISE: "No noise was added: these are exact sums.",
        TRUE_COUNTS: "True counts without noise were used for these figures.",
        EXACT_PRIOR: "The prior is counts without noise: these figures reveal a little about them.",
    }
    return [known.get(words, words) for words in said.split(" | ") if words]


def _question(plan: Plan, est: Estimates | None) -> Fact:
    spec = plan.spec
    counts = np.diff(est.tree.offsets).tolist() if est else [level.nodes for level in plan.expected.levels]
    sized = numerals.listed([f"{n:,}\u00a0×\u00a0{name}" for n, name in zip(counts, plan.levels, strict=False)])
    more = [f"{numerals.many(sum(counts), 'row' if spec.values else 'count')}: {sized}."]
    if spec.unknown:
        names = numerals.listed([a.name for a in spec.unknown])
        verb = "is" if len(spec.unknown) == 1 else "are"
        more.append(
            f"{names[:1].upper()}{names[1:]} {verb} known only at conversion time, so every value is queried, whether "
            "or not any conversion has it."
        )
    return Fact("Query", " › ".join(numerals.few(plan.levels)), tuple(more))


def _budget(plan: Plan) -> Fact:
    spec, private = plan.spec, plan.privacy_words
    split = f"Budget split: {split_words(plan)}."
    sentences = [words.replace("ε = ", "ε\u00a0=\u00a0") for words in private.sentences]
    warning = sentences.pop() if private.warning else ""
    first, *more = sentences
    factor = exp(min(spec.epsilon, 700))
    times = f"at most {numerals.number(float(f'{factor:.2g}'))} times" if factor < LARGE else "at most e^ε times"
    it = "it" if plan.most_of_all == 1 and not spec.terms.unit else "them"
    but = f", but for a chance of {spec.delta:g}" if spec.delta else ""
    if not spec.terms.guarantee:
        first += f" Whatever is published here is {times} as likely with {it} as without {it}{but}."
    if spec.noise_model.account:
        more.append(f"{', '.join(f'{name} = {x:.4g}' for name, x in spec.noise_model.account.items())}.")
    delta = f", δ\u00a0=\u00a0{spec.delta:g}" if spec.delta else ""
    return Fact("Privacy budget", f"{_epsilon(spec.epsilon)}{delta}", (first, *more, split), warning)


def _epsilon(epsilon: float) -> str:
    """ε with its value, on one line."""
    return f"ε\u00a0=\u00a0{numerals.number(epsilon)}"


def _noise(plan: Plan, est: Estimates | None) -> Fact:
    spec, warning = plan.spec, _other_noise(plan, est)
    if spec.noise_model.on_sums and (spec.values or len(plan.measures) > 1):
        words = (
            "A conversion adds to one key of each level and measure, a value in proportion to where it is clipped; "
            f"an impression adds {spec.l1:,} at most. Every sum gets noise DLap(ε / {spec.l1:,})."
        )
        return Fact("Noise", "discrete Laplace, as in a summary report", (words,), warning)
    what, how = spec.noise_model.words
    other = plan.other_noise
    beside = () if other is None else (f"{other.words(plan.expected.tree.plan)}.",)
    return Fact("Noise", what, (how, *beside), warning)


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
        f"The noise of these figures has {numerals.number(float(f'{times:.3g}'))} times the planned variance: reports "
        "were aggregated with another ε than the plan's, or several summary reports were added up. The ε and the "
        "expected errors on this page are the plan's."
    )


def _prior(plan: Plan) -> Fact:
    note = plan.prior
    if not note.history:
        return Fact("Planned from", "no earlier counts", ("The plan uses the structure of the tree alone.",))
    changed = []
    if note.new:
        changed.append(f"{numerals.many(note.new, 'row is', 'rows are')} new since then.")
    if note.gone:
        leaves = numerals.many(note.gone, "leaf", "leaves")
        had = "" if note.lost is None else f" with {numerals.number(note.lost)} conversions"
        changed.append(f"{leaves}{had} no longer occur.")
    if note.protected:
        conversions = f"{numerals.number(note.conversions or 0)} earlier conversions"
        return Fact("Planned from", conversions, ("They were protected, so using them again is free.", *changed))
    return Fact("Planned from", "earlier counts", tuple(changed), f"These counts were NOT protected: {REVEALS}.")


def measure_facts(plan: Plan) -> list[Fact]:
    """The measures and limits of a plan of values, or of several conversions per impression."""
    each, rows = plan.by_measure, list[Fact]()
    if plan.spec.measures:
        measures = [part.measure for part in each]
        called = [measure.called + (f" in {measure.unit}" if measure.unit else "") for measure in measures]
        rows.append(Fact("Measures", numerals.listed(called), tuple(sentence(about(plan, part)) for part in each)))
    if plan.spec.values or plan.most_of_all > 1:
        rows.append(_limits(plan, each))
    return rows


def _limits(plan: Plan, each: tuple[MeasurePlan, ...]) -> Fact:
    counts = sorted({plan.most(), *map(plan.most, plan.roots)})
    few = str(counts[0]) if len(counts) == 1 else f"{counts[0]} {'or' if len(counts) == 2 else 'to'} {counts[-1]}"
    kept = [f"the first {few} conversions of an impression" if few != "1" else "one conversion of an impression"]
    kept += [
        f"{part.measure.name} up to {numerals.number(part.clip)}"
        + (f"\u00a0{part.measure.unit}" if part.measure.unit else "")
        for part in each
        if not part.measure.is_count
    ]
    more = ["What exceeds a limit is in none of these figures. Wider limits would need more noise."]
    taken = chosen(plan)
    if taken is not None:
        more.append(
            f"Expected error {percent(taken.error)}: {percent(taken.bias)} cut off by limits, which "
            f"more reports do not average out, and {percent(taken.noise)} noise (squares add up)."
        )
    unknown = [part.name for part in plan.measures if not part.bias_known]
    warning = (
        f"The prior does not show how much of {numerals.listed(unknown)} they cut off; expected errors leave it out."
    )
    return Fact("Limits", numerals.listed(kept), tuple(more), warning if unknown else "")


def chosen(plan: Plan) -> Trade | None:
    """What to expect of the limits that were chosen, all measures together; None where no row is of all roots."""
    rows = [trade for trades in (plan.tradeoff or {}).values() for trade in trades]
    return next((trade for trade in reversed(rows) if trade.chosen == 1), None)


# What is not reported since budgets run out: of all levels together, and of each level by itself


def count_lines(reported: Reported, paid: int | None, name: str = "") -> list[str]:
    """What becomes of conversions under the limit of the spec, and how many are lost under others."""
    whole = max(reported.by_limit.get(paid or 0, 0) + sum(reported.lost.values()), 1)
    each = [(times, 1 - number / whole) for times, number in reported.by_limit.items()]
    others = [f"{times}{' (the spec)' * (times == paid)}: {lost:.1%}" for times, lost in each]
    lines = [f"share lost, by how many conversions of a device one epoch pays for: {', '.join(others)}"]
    if reported.by_clip:
        parts = ", ".join(f"{clip:g}: {1 - here / reported.whole:.1%}" for clip, here in reported.by_clip.items())
        what = f"{reported.whole:,.2f} of {name} are on conversions with an impression"
        lines += [f"{what}; clips and budgets leave out, by the clip: {parts}"]
    if reported.moved:
        lines += [f"{reported.moved:,} conversions are credited to an older impression, whose epoch can still pay"]
    return lines


def loss_table(losses: Sequence[LevelLoss]) -> Table:
    """A row for each level: its conversions, and the part that it does not learn, by ledger, and the error of noise."""
    ledgers = list(dict.fromkeys(name for loss in losses for name in loss.lost))
    moved = any(loss.moved for loss in losses)
    rows = []
    for loss in losses:
        whole, lost = max(loss.conversions, 1), sum(loss.lost.values())
        cells = [Numeral(f"{loss.conversions:,}", loss.conversions), percent(lost / whole)]
        cells += [percent(loss.lost.get(name, 0) / whole) for name in ledgers]
        rows.append([loss.level, *cells, *[percent(loss.moved / whole)] * moved, percent(loss.noise)])
    heads = ["level", "conversions", "lost", *(f"to {name}" for name in ledgers), *["moved"] * moved]
    heads += ["error of noise"]
    return Table("conversions that find no budget left", heads, rows)


def loss_facts(losses: Sequence[LevelLoss]) -> list[Fact]:
    """The same for a page; nothing where no budget runs out."""
    if not losses:
        return []
    parts = {loss.level: sum(loss.lost.values()) / max(loss.conversions, 1) for loss in losses}
    alike = len({percent(part) for part in parts.values()}) == 1
    answer = f"{percent(max(parts.values()))} of conversions{'' if alike else ' at the level that loses most'}"
    more = [] if alike else [f"{', '.join(f'{level} {percent(part)}' for level, part in parts.items())}."]
    worst = max(losses, key=lambda loss: parts[loss.level])
    more += [f"{percent(n / worst.conversions)}: {USED_UP.format(name)}." for name, n in worst.lost.items()]
    moved = max(loss.moved / max(loss.conversions, 1) for loss in losses)
    more += [f"{percent(moved)} more are {OLDER}."] if moved else []
    noise = ", ".join(f"{loss.level} {percent(loss.noise)}" for loss in losses)
    more += [f"In addition, the error of noise: {noise}."]
    more += ["Intervals and errors of the estimates are of noise alone; what is lost is missing from all figures."]
    return [Fact("Lost to budgets", answer, tuple(more), sentence(NOT_PROTECTED) if any(parts.values()) else "")]

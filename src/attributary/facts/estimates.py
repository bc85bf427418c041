"""Estimate facts: totals, what denoising gained at each level, and what to doubt; and the same of a raw table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attributary.estimates import Z_FINE, suspects
from attributary.facts import numerals
from attributary.facts.numerals import (
    NOTHING,
    Fact,
    Line,
    Numeral,
    Table,
    change,
    listed,
    many,
    number,
    percent,
    sentence,
    signed,
)
from attributary.facts.plan import cut_off, limits_of
from attributary.facts.quantity import Quantity, RootSum, difference, label
from attributary.pipeline.check_table import TableCheck
from attributary.plan import Plan
from attributary.spec.measure import COUNT
from attributary.tables.as_written import UNNAMED
from attributary.types import Floats, Record

EVEN = 0.05  # how far the sides of an interval may differ to be one figure
WHOLE_MARGIN = 10  # from here on without digits behind the point
FAR = 10.0  # times the stated standard deviation, or a part of it: then the scale is wrong
LISTED = 10  # suspects
BIASED = "estimates are no longer unbiased: closer on average, but not suited for billing"
MADE_OF = {
    True: "the prior combines an earlier period with today's other rows of the same label",
    False: "the prior comes from other rows with the same label; no earlier period is used",
    None: "the prior comes from an earlier period or from other rows with the same label",
}
POSTERIOR = "the estimates are means over all whole counts, each weighted by its probability given the noisy values"


# Totals


def sum_words(quantity: Quantity) -> str:
    """The sum of all roots, with its interval: 5,285 visits, give or take 31 (95 % interval)."""
    what = "in all" if quantity.called in (UNNAMED, "noisy") else quantity.called
    if quantity.kind == "value":
        what = f"{quantity.unit} of {quantity.name}" if quantity.unit else ""
    words = _sum_words(quantity, quantity.total, what)
    return words if what else f"{quantity.name} {words}"


def _sum_words(quantity: Quantity, total: RootSum, what: str) -> str:
    said, below, above = quantity.shown(total.estimate), total.estimate - total.low, total.high - total.estimate
    if np.isfinite(above) and abs(above - below) <= EVEN * above:
        margin = f"{above:,.0f}" if above >= WHOLE_MARGIN and quantity.digits == 1 else quantity.figure(above)
        return f"{said} {what}".strip() + f", give or take {margin} ({quantity.interval_words})"
    return f"{said} {what}".strip() + f" ({quantity.interval_words}: {quantity.interval(total.low, total.high)})"


def after_refunds(quantities: Sequence[Quantity], plan: Plan | None) -> list[str]:
    """The sum of each value less its refunds, with the variance of both; nothing where no refunds are measured."""
    sums = {quantity.name: quantity for quantity in quantities}
    values = [measure for measure in plan.spec.values if measure.name in sums] if plan else []
    words = []
    for value in (measure for measure in values if measure.sign > 0):
        back = next((sums[each.name] for each in values if each.sign < 0 and each.source == value.source), None)
        if back is not None:
            here = sums[value.name]
            what = f"{here.unit} of {here.name} after {back.name}".strip()
            words.append(_sum_words(here, difference(here.total, back.total), what))
    return words


def limit_words(plan: Plan | None) -> str:
    """What limits leave out of the figures; nothing where they leave out nothing."""
    if plan is None:
        return ""
    unknown = listed([share.name for share in plan.measures if plan.spec.has_limits and not share.bias_known])
    words = [f"judging by the prior, {limits_of(plan)} leave out {listed(cut)}"] if (cut := cut_off(plan)) else []
    words += [f"{limits_of(plan)} leave out an unknown part of {unknown}"] if unknown else []
    return " and ".join(words)


def leading(quantity: Quantity) -> str:
    """Which node of the first attribute has most; the two largest where noise does not tell them apart."""
    est = quantity.estimates
    here = est.tree.slice(min(int(est.tree.total), est.tree.depth - 1))
    if here.stop - here.start < 2 or not est.tree.attributes or not np.isfinite(est.estimate[here]).all():
        return ""
    first, second = (here.start + np.argsort(-est.estimate[here], kind="stable")[:2]).tolist()
    names = [numerals.short(label(est, v)) for v in (first, second)]
    figures = [quantity.shown(est.estimate[v]) for v in (first, second)]
    if est.low[first] > est.high[second]:
        return f"{names[0]} leads with {figures[0]}"
    return f"{names[0]} and {names[1]} lead with {figures[0]} and {figures[1]}"


def headline(quantities: Sequence[Quantity], plan: Plan | None) -> list[str]:
    """The answer in a few sentences: what is wrong with it, if anything is, then the totals, then how good they are."""
    sums = [quantity for quantity in quantities if quantity.kind != "ratio"]
    troubles = list(dict.fromkeys(sentence(line.text) for line in map(fit_line, sums) if line.warning))
    totals = listed([*map(sum_words, sums), *after_refunds(sums, plan)])
    cut = limit_words(plan)
    totals = f"if the noise were as stated, {totals}" if troubles else totals
    totals += f", only part of what happened: {cut}" if cut else ""
    leads = leading(sums[0])
    sentences = [*troubles, sentence(f"{totals}; {leads}" if leads else totals)]
    number_of = sum(quantity.doubt.nodes for quantity in sums)
    if number_of and not troubles:
        sentences.append(f"{many(number_of, 'figure is', 'figures are')} off by more than noise explains.")
    tree = sums[0].estimates.tree
    errors = [
        f"{percent(error)} for a {name}"
        for name, error in zip(tree.level_names, median_errors(sums[0]), strict=True)
        if name != "total"
    ]
    if tree.attributes and errors:
        of = f" of {sums[0].called}" if len(sums) > 1 else ""
        sentences.append(f"Median error{of}: {listed(numerals.few(errors))}.")
    return sentences


# Levels


class LevelGain(NamedTuple):
    """What denoising made of a level: variances on average, errors as root mean squares, both of its measured nodes.

    Errors are relative to the count, or to tau if that is larger. Where no node was measured, variance and error are
    those of all.
    """

    level: str
    nodes: Numeral
    measured: int
    noise: Numeral  # its variance
    variance: Numeral  # of the estimates
    variance_change: Numeral
    noisy_error: Numeral
    error: Numeral  # of all nodes that can be estimated
    error_change: Numeral
    median: Numeral  # error of the median node
    open: int  # nodes that cannot be estimated: nothing that was measured tells them apart from their siblings


HEADS = {
    "level": "level",
    "nodes": "rows",
    "noise": "noise variance",
    "variance": "estimate variance",
    "variance_change": "vs. noise",
    "noisy_error": "noisy error",
    "error": "estimate error",
    "error_change": "vs. noisy",
    "median": "median error",
}


def level_gain(level: str, nodes: int, measured: int, open_: int, figures: Sequence[float]) -> LevelGain:
    """A gain of its numbers: noise, variance, noisy error, error, error of the measured nodes, and median error."""
    noise, variance, noisy, error, alike, median = figures
    unmeasured = Numeral("not measured", None)
    size = f"{nodes:,}" + (f" ({measured:,} measured)" if 0 < measured < nodes else "")
    known = percent(error) + (f" ({open_:,} cannot be estimated)" if open_ else "")
    return LevelGain(
        level,
        Numeral(size, nodes),
        measured,
        Numeral(number(noise), noise) if measured else unmeasured,
        Numeral(number(variance), variance),
        change(variance, noise) if measured and noise > 0 else Numeral(NOTHING, None),
        percent(noisy) if measured else unmeasured,
        Numeral(known, error),
        change(alike, noisy) if measured and noisy > 0 else Numeral(NOTHING, None),
        percent(median),
        open_,
    )


def level_gains(quantity: Quantity) -> list[LevelGain]:
    """One for each level, top to bottom; nothing where the table does not tell the noise."""
    est = quantity.estimates
    if quantity.kind == "ratio" or np.isnan(est.noise_variance).all():
        return []
    weight, levels = quantity.metric(est.estimate, quantity.tau), []
    medians = median_errors(quantity)
    for i, name in enumerate(est.tree.level_names):
        here = est.tree.slice(i)
        noise, variance, weights = est.noise_variance[here], est.variance[here], weight[here]
        measured, known = est.measured[here], np.isfinite(variance)
        judged = measured if measured.any() else np.ones(len(measured), bool)
        with np.errstate(invalid="ignore"):
            squares = [(noise * weights)[measured], (variance * weights)[known], (variance * weights)[measured & known]]
        figures = [_mean(noise[measured]), _mean(variance[judged]), *(np.sqrt(_mean(each)) for each in squares)]
        levels.append(level_gain(name, len(measured), int(measured.sum()), int((~known).sum()), [*figures, medians[i]]))
    return levels


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else np.nan


def median_errors(quantity: Quantity) -> list[float]:
    """The relative error of the median node of each level."""
    est, error = quantity.estimates, quantity.errors
    return [float(np.median(error[est.tree.slice(i)])) for i in range(est.tree.depth)]


def gains_table(gains: Sequence[LevelGain]) -> Table:
    """A row for each level, as all renderers show them."""
    rows = [[getattr(gain, name) for name in HEADS] for gain in gains]
    return Table("What denoising gained", list(HEADS.values()), rows, 5)


def gain_words(gains: Sequence[LevelGain]) -> str:
    """The gains in a sentence; nothing where there are none."""
    each = [f"{gain.level} {gain.error} (noisy {gain.noisy_error})" for gain in gains]
    return f"Estimate error by level: {', '.join(numerals.few(each))}." if each else ""


def as_numbers(gain: LevelGain) -> Record:
    """A gain as JSON has it."""
    names = {"name": "level", "nodes": "nodes", "measured": "measured", "noise": "noise", "estimate": "variance"}
    names |= {"noisy_error": "noisy_error", "error": "error", "median_error": "median"}
    values = {name: getattr(gain, attribute) for name, attribute in names.items()}
    return {name: numerals.json_number(x.value if isinstance(x, Numeral) else x) for name, x in values.items()}


def summed(gains: Sequence[LevelGain]) -> list[str]:
    """The levels that are not measured, but summed from those below."""
    return [gain.level for gain in gains if not gain.measured]


# What to doubt


def fit_line(quantity: Quantity) -> Line:
    """Whether there is as much noise as stated, where anybody stated it."""
    doubt, estimated = quantity.doubt, quantity.estimates.estimated
    if doubt.z is None:
        alone = " in this breakdown alone" if quantity.estimates.beside else ""
        return Line("noise", f"the noise level cannot be checked: no figure was measured twice{alone}")
    detail = f"z = {doubt.z:z,.1f}".replace("-", numerals.MINUS)
    stated = {True: "estimated from these figures", False: "stated", None: "the table says"}[estimated]
    if abs(doubt.z) <= Z_FINE:
        if estimated:
            return Line("noise", "the noise level was estimated from these figures, and they fit it", detail=detail)
        return Line("noise", f"the noise is as large as {stated}", detail=detail)
    if not 1 / FAR <= doubt.ratio <= FAR:
        size = "larger" if doubt.ratio > 1 else "smaller"
        words = f"the noise is far {size} than {stated}: do not use these figures; is the scale right?"
        return Line("noise", words, True, detail)
    more = "more" if doubt.z > 0 else "less"
    times = f"it looks {doubt.ratio:.2g} times as large"
    return Line("noise", f"there is {more} noise than {stated}: {times}", True, detail)


def correction_line(quantity: Quantity) -> Line:
    nodes, beyond = quantity.doubt.nodes, f"threshold {quantity.doubt.threshold:.1f} standard deviations"
    verb = many(nodes, "figure is", "figures are") if nodes else "no figure is"
    return Line("corrections", f"{verb} off by more than noise explains", nodes > 0, beyond)


def worst(quantity: Quantity, most: int = LISTED) -> tuple[int, list[tuple[str, str, str, str]]]:
    """How many nodes are to be looked at, and the worst of them: name, noisy, estimate, correction."""
    found, listed_ = suspects(quantity.estimates, quantity.doubt.implausible, most)
    rows = [(s.name, quantity.figure(s.noisy), quantity.shown(s.estimate), signed(s.correction)) for s in listed_]
    return found, rows


def negative_line(quantity: Quantity) -> Line | None:
    below, of = int((quantity.estimates.estimate < 0).sum()), len(quantity.estimates)
    verb = "is" if below == 1 else "are"
    words = f"{below:,} of {of:,} estimates {verb} negative, which is normal for small noisy {quantity.noun}s"
    return Line("negative", words) if below else None


def weights(quantity: Quantity) -> list[tuple[str, Numeral]]:
    """The average weight of the prior in the estimates of each level; none without a prior."""
    est = quantity.estimates
    if est.from_prior is None:
        return []
    each = [float(est.from_prior[est.tree.slice(i)].mean()) for i in range(est.tree.depth)]
    return [(name, percent(weight)) for name, weight in zip(est.tree.level_names, each, strict=True)]


def prior_lines(quantity: Quantity) -> list[Line]:
    """What weight the prior has, what it is made of, and what that does to the estimates."""
    if not (each := weights(quantity)):
        return []
    by_level = ", ".join(numerals.few([f"{name} {weight}" for name, weight in each]))
    texts = [f"weight of the prior: {by_level} ({BIASED})", MADE_OF[quantity.estimates.earlier]]
    texts += [POSTERIOR] if quantity.estimates.zero_probability is not None else []
    return [Line("prior", text) for text in texts]


def beside_words(quantity: Quantity) -> str:
    """What other breakdown had a part in the estimates."""
    by = quantity.estimates.beside
    return f"these figures were denoised together with totals by {by}" if by else ""


def lines(quantity: Quantity) -> list[Line]:
    """What a careful reader asks of estimates, one sentence each; what is wrong comes first."""
    negative, cut, made = negative_line(quantity), limit_words(quantity.plan), quantity.estimates.made
    each = [fit_line(quantity), *([correction_line(quantity)] if quantity.doubt.z is not None else [])]
    each += [*([negative] if negative else []), *prior_lines(quantity)]
    each += [Line("estimates", made.remark)] if made and made.remark else []
    each += [Line("estimates", beside)] if (beside := beside_words(quantity)) else []
    each += [Line("limits", f"{cut}: these figures are only part of what happened")] if cut else []
    return sorted(each, key=lambda line: not line.warning)


def as_data(quantity: Quantity) -> Record:
    """The same figures by name, as --summary has them."""
    doubt, total = quantity.doubt, quantity.total
    _, listed_ = suspects(quantity.estimates, doubt.implausible, LISTED)
    return {
        "measure": COUNT if quantity.kind == "count" else quantity.name,
        "nodes": len(quantity.estimates),
        "total": {"estimate": total.estimate, "low": total.low, "high": total.high},
        "confidence": quantity.estimates.level,
        "levels": [as_numbers(gain) for gain in level_gains(quantity)],
        "fit": {"z": doubt.z, "ratio": doubt.ratio},
        "implausible": {"nodes": doubt.nodes, "threshold": doubt.threshold, "worst": listed_},
        "negative": int((quantity.estimates.estimate < 0).sum()),
        "from_prior": dict(weights(quantity)) or None,
        "limits": limit_words(quantity.plan) or None,
    }


NONE = "none"
FAR_OFF = "Off by more than noise explains"
NOISE = "noise of"  # how the note on an estimated noise level begins


def table_lead(check: TableCheck, quantity: Quantity | None) -> list[str]:
    """The answers in a few sentences: what this is, does it add up, is the noise as stated, what is far off."""
    levels = listed(numerals.few(check.form.tree.level_names))
    rows = numerals.many(check.form.table.num_rows, "row")
    noise = _noise(check, quantity)
    sentences = [f"{rows} of {check.form.called} by {levels}.", _adds_up(check), f"{noise.name}: {noise.answer}."]
    if quantity is not None:
        off = _far_off(check).answer
        sentences.append("No figure is off by more than noise explains." if off == NONE else f"{FAR_OFF}: {off}.")
        sentences.append(f"Denoising would change the errors by {_gain(quantity)}.")
    return sentences


def table_section(check: TableCheck, quantity: Quantity | None) -> Record:
    """What the page says of the table: facts, the sums of each level, and the figures that noise does not explain."""
    tree = check.form.tree
    sizes = [f"{size:,}\u00a0×\u00a0{name}" for size, name in zip(np.diff(tree.offsets), tree.level_names, strict=True)]
    notes = [sentence(note) for note in check.notes if not note.startswith(NOISE)]
    facts = [
        Fact("Table", " › ".join(numerals.few(tree.level_names)), (f"{', '.join(numerals.few(sizes))}.", *notes)),
        _sums(check),
        _noise(check, quantity),
        *(Fact("Doubt", "look at the figures", (), sentence(doubt)) for doubt in check.doubts),
    ]
    if quantity is not None:
        command = "Nothing was changed: “attributary denoise --table” writes the estimates beside your columns."
        facts += [_far_off(check), Fact("Denoising would change the errors by", _gain(quantity), (command,))]
    count = numerals.count
    sums = [
        (each.level, f"{each.sums:,}", f"{each.exact:,}", count(each.typical), count(each.largest), each.where)
        for each in check.sums
    ]
    far_off = [(s.name, count(s.noisy), count(s.estimate), f"{abs(s.correction):.1f}") for s in check.mangled[1]]
    return {"facts": facts, "sums": sums, "suspects": far_off}


def _held(check: TableCheck) -> tuple[int, int]:
    """How many sums there are, and how many hold exactly."""
    return sum(each.sums for each in check.sums), sum(each.exact for each in check.sums)


def _adds_up(check: TableCheck) -> str:
    sums, exact = _held(check)
    if not sums:
        return "Whether it adds up cannot be checked: no figure has rows for all that is below it."
    if exact == sums:
        return f"It adds up: all {sums:,} sums hold exactly."
    return f"It does not add up: {sums - exact:,} of {sums:,} sums miss."


def _sums(check: TableCheck) -> Fact:
    sums, exact = _held(check)
    if not sums:
        return Fact("Sums", "cannot be checked", ("No figure has rows for all that is below it.",))
    typical = [f"A {s.level} typically differs from its rows by {numerals.count(s.typical)}." for s in check.sums]
    return Fact("Sums", f"{exact:,} of {sums:,} hold exactly", tuple(typical) if exact < sums else ())


def _noise(check: TableCheck, quantity: Quantity | None) -> Fact:
    if quantity is None:
        return Fact("Noise", "not stated, and cannot be estimated", (), sentence(check.noise))
    if check.estimated:
        more = tuple(sentence(note) for note in check.notes if note.startswith(NOISE))
        return Fact("Noise", f"standard deviation {_deviation(check)}, as estimated", more)
    fit, z = fit_line(quantity), quantity.doubt.z
    if z is None:
        return Fact("Noise", "cannot be checked", ("No figure was measured twice.",))
    more, warning = ((), sentence(fit.text)) if fit.warning else ((sentence(fit.text),), "")
    return Fact("Noise", f"{'higher' if z > 0 else 'lower'} than stated" if fit.warning else "as stated", more, warning)


def _deviation(check: TableCheck) -> str:
    """The standard deviation that was estimated, with its standard error; of each level where they differ."""
    assert check.estimate is not None
    tree, measured, each = check.form.tree, check.estimate.measurements, list[str]()
    freedom = float(np.min(measured.freedom)) if measured.freedom is not None else np.inf
    std = tree.to_level_order(np.sqrt(measured.variance))
    for level, name in enumerate(tree.level_names):
        here = std[tree.slice(level)]
        if (here < np.inf).any():
            middle = float(np.median(here[here < np.inf]))
            each.append(f"{middle:.3g} ± {middle / np.sqrt(2 * freedom):.2g} ({name})")
    values = {words.rpartition(" (")[0] for words in each}
    return values.pop() if len(values) == 1 else listed(numerals.few(each))


def _far_off(check: TableCheck) -> Fact:
    number, examples = check.mangled
    if not examples:
        return Fact(FAR_OFF, NONE)
    more = "" if number == 1 else f" and {number - 1:,} more"
    worst = f"{numerals.count(examples[0].noisy)} in the table, about {numerals.count(examples[0].estimate)} expected"
    warning = f"{worst}. Noise alone does not explain that."
    return Fact(FAR_OFF, f"{examples[0].name}{more}", (), warning)


def _gain(quantity: Quantity) -> str:
    """By how much denoising changes the error of each level."""
    gains = [f"{gain.error_change} ({gain.level})" for gain in level_gains(quantity) if gain.measured]
    return listed(numerals.few(gains)) if gains else percent(0.0)

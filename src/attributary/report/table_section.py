"""Table section: what a raw table is, whether it adds up, how noisy it is, and what denoising would gain."""

from typing import Any

import numpy as np

from attributary.estimates import Z_FINE
from attributary.facts import numerals
from attributary.pipeline.check_table import TableCheck
from attributary.report.facts import Fact

NONE = "none"
NOISE = "noise of"  # how the note on an estimated noise level begins


def table_lead(check: TableCheck) -> list[str]:
    """The answers in a few sentences: what this is, does it add up, is the noise as stated, what looks mangled."""
    levels = numerals.listed(numerals.few(check.form.tree.level_names))
    rows = numerals.many(check.form.table.num_rows, "row")
    sentences = [
        f"{rows} of {check.form.value} by {levels}.",
        _adds_up(check),
        f"{_noise(check).name}: {_noise(check).answer}.",
    ]
    if check.estimate is not None:
        mangled = _mangled(check).answer
        sentences.append("No figure looks mangled." if mangled == NONE else f"Figures that look mangled: {mangled}.")
        sentences.append(f"Denoising would lower the standard errors by {_gain(check)}.")
    return sentences


def table_section(check: TableCheck) -> dict[str, Any]:
    """What the page says of the table: facts, the sums of each level, and the figures that look mangled."""
    tree = check.form.tree
    sizes = [f"{size:,}\u00a0×\u00a0{name}" for size, name in zip(np.diff(tree.offsets), tree.level_names, strict=True)]
    notes = [f"{note[:1].upper()}{note[1:]}." for note in check.notes if not note.startswith(NOISE)]
    facts = [
        Fact("Table", " › ".join(numerals.few(tree.level_names)), (f"{', '.join(numerals.few(sizes))}.", *notes)),
        _sums(check),
        _noise(check),
        *(Fact("Doubt", "look at the figures", (), f"{doubt[:1].upper()}{doubt[1:]}.") for doubt in check.doubts),
    ]
    if check.estimate is not None:
        command = "Nothing was changed: “attributary denoise --table” writes the estimates beside your columns."
        facts += [_mangled(check), Fact("Denoising would lower the errors by", _gain(check), (command,))]
    sums = [
        (
            each.level,
            f"{each.sums:,}",
            f"{each.exact:,}",
            *map(numerals.count, (each.typical, each.largest)),
            each.where,
        )
        for each in check.sums
    ]
    suspects = [
        (each.name, numerals.count(each.noisy), numerals.count(each.estimate), f"{abs(each.correction):.1f}")
        for each in check.mangled[1]
    ]
    return {"facts": facts, "sums": sums, "suspects": suspects}


def _adds_up(check: TableCheck) -> str:
    sums, exact = (sum(getattr(each, name) for each in check.sums) for name in ("sums", "exact"))
    if not sums:
        return "Whether it adds up cannot be checked: no figure has rows for all that is below it."
    if exact == sums:
        return f"It adds up: all {sums:,} sums hold exactly."
    return f"It does not add up: {sums - exact:,} of {sums:,} sums miss."


def _sums(check: TableCheck) -> Fact:
    sums, exact = (sum(getattr(each, name) for each in check.sums) for name in ("sums", "exact"))
    if not sums:
        return Fact("Sums", "cannot be checked", ("No figure has rows for all that is below it.",))
    typical = [
        f"A {each.level} typically differs from its rows by {numerals.count(each.typical)}." for each in check.sums
    ]
    return Fact("Sums", f"{exact:,} of {sums:,} hold exactly", tuple(typical) if exact < sums else ())


def _noise(check: TableCheck) -> Fact:
    doubt, est = check.plausibility, check.estimate
    if est is None or doubt is None:
        return Fact("Noise", "neither stated nor seen", (), f"{check.noise[:1].upper()}{check.noise[1:]}.")
    if check.estimated:
        more = tuple(f"{note[:1].upper()}{note[1:]}." for note in check.notes if note.startswith(NOISE))
        return Fact("Noise", f"standard deviation {_deviation(check)}, as estimated", more)
    if doubt.z is None:
        return Fact("Noise", "cannot be checked", ("No figure was measured twice.",))
    more = (f"z = {doubt.z:z.1f}: within ±{Z_FINE:g} if it is as stated.",)
    if abs(doubt.z) <= Z_FINE:
        return Fact("Noise", "as stated", more)
    warning = f"Its standard deviation looks {doubt.ratio:.2g} times the stated one."
    return Fact("Noise", f"{'higher' if doubt.z > 0 else 'lower'} than stated", more, warning)


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
    return values.pop() if len(values) == 1 else numerals.listed(numerals.few(each))


def _mangled(check: TableCheck) -> Fact:
    number, examples = check.mangled
    if not examples:
        return Fact("Mangled figures", NONE)
    more = "" if number == 1 else f" and {number - 1:,} more"
    worst = f"{numerals.count(examples[0].noisy)} in the table, about {numerals.count(examples[0].estimate)} expected"
    warning = f"{worst}. Noise alone does not explain that."
    return Fact("Mangled figures", f"{examples[0].name}{more}", (), warning)


def _gain(check: TableCheck) -> str:
    """By how much denoising lowers the standard error of each level."""
    est = check.estimate
    assert est is not None
    tree, parts = est.tree, []
    noise, after = (tree.to_level_order(a) for a in (est.measurements.variance, est.variance))
    for i, name in enumerate(tree.level_names):
        here = tree.slice(i)
        known = (noise[here] < np.inf) & (noise[here] > 0)
        if known.any():
            lower = 1 - float(np.sqrt(after[here][known] / noise[here][known]).mean())
            parts.append(f"{numerals.percent(lower)} ({name})")
    return numerals.listed(numerals.few(parts)) if parts else "nothing"

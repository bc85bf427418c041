"""Table facts: what a raw table is, whether it adds up, how noisy it is, and what denoising would gain."""

from typing import Any

import numpy as np

from attributary.facts import numerals
from attributary.facts.estimates import fit_line, level_gains
from attributary.facts.numerals import Fact, listed, percent, sentence
from attributary.facts.quantity import Quantity
from attributary.pipeline.check_table import TableCheck

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


def table_section(check: TableCheck, quantity: Quantity | None) -> dict[str, Any]:
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

"""print_results: what was counted, planned and denoised, in words and figures, for standard error and for --summary."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from attributary.cli.printing import Out, fact, place_of, plain, print_table, say
from attributary.errors import one_line
from attributary.facts import breakdowns as of_breakdowns
from attributary.facts import estimates as of_estimates
from attributary.facts import plan as facts
from attributary.facts.numerals import Line, many, percent
from attributary.facts.privacy import USED_UP, count_lines
from attributary.facts.quantity import Quantity
from attributary.plan import Plan, Variant
from attributary.prior import Prior
from attributary.tree import Tree
from attributary.types import Record

if TYPE_CHECKING:
    from attributary.logs.counts import Counts, ValueTotals
    from attributary.logs.labels import OutsideDomain
    from attributary.spec import Spec

LISTED = 5  # suspects
LARGEST = 5  # roots


def print_counts(counts: "Counts", spec: "Spec", leaves: int | None = None) -> None:
    """Prints how many impressions and conversions were counted, and why others were not, to standard error.

    `leaves` is how many there are, where a cluster has their table.
    """
    window, limit = spec.logs.window if spec.logs else None, spec.conversions_per_impression
    several = f"{20 if limit == 'auto' else limit} conversions" if limit != 1 else "a conversion"
    not_counted = [
        (counts.unattributed, "no impression before it"),
        (counts.late, f"not within the window of {window}"),
        (counts.exceeded, f"its impression has {several} already"),
        (counts.incomplete, "no user, key or time"),
        *((number, USED_UP.format(name)) for name, number in (counts.reported.lost if counts.reported else {}).items()),
        *((outside.conversions, _outside(outside)) for outside in counts.outside if not outside.kept),
    ]
    by_bin = leaves is None and "rank" in counts.table.column_names
    rows = f"{counts.table.num_rows if leaves is None else leaves:,}"
    what = f"{rows} rows: one per leaf, rank and value bin" if by_bin else f"{rows} leaves"
    lines = [f"{counts.impressions:,} impressions, {counts.conversions:,} conversions, {what}"]
    if any(number for number, _ in not_counted):
        lines += ["conversions not counted:"]
        lines += [f"{number:12,}  {reason}" for number, reason in not_counted if number]
    lines += [f"{name}: {number:,} rows do not meet the spec's conditions" for name, number in counts.filtered.items()]
    lines += [counts.clock] if counts.clock else []
    lines += count_lines(counts.reported, spec.paid, spec.asked[0].name) if counts.reported else []
    lines += [line for totals in counts.values for line in _value(totals)]
    lines += [
        f"{outside.conversions:,} conversions count as other: {_outside(outside)}"
        for outside in counts.outside
        if outside.kept
    ]
    if counts.undated:
        lines += [f"{counts.undated:,} impressions have no time: they get no conversion, and are in no period"]
    fact(counts=counts.summary())
    say("\n".join(map(one_line, lines)))


def _value(totals: "ValueTotals") -> list[str]:
    unit = f" {totals.unit}" if totals.unit else ""
    lines = [f"{totals.measure}: {totals.total - totals.cut:,.2f}{unit} of {totals.total:,.2f}{unit} counted"]
    if totals.clip is None:
        lines = [f"{totals.measure}: {totals.total:,.2f}{unit}; the plan chooses the limit at which values are clipped"]
    if totals.clipped:
        lines += [f"{totals.clipped:12,}  values above {totals.clip:,g}{unit}, counted as {totals.clip:,g}{unit}"]
    if totals.missing:
        lines += [f"{totals.missing:12,}  conversions without a {totals.measure}, counted as 0"]
    if totals.not_positive:
        refunds = f" (sum {totals.refunded:,.2f}{unit})" if totals.refunded else ""
        lines += [f"{totals.not_positive:12,}  conversions with a {totals.measure} of 0 or less, counted as 0{refunds}"]
    return lines


def _outside(outside: "OutsideDomain") -> str:
    shown = [f"{value} ({times:,})" for value, times in outside.values.items()]
    more = ["…"] if sum(outside.values.values()) < outside.conversions else []
    return f"{outside.attribute} not in its domain: {', '.join([*shown, *more])}"


def print_estimates(quantities: Sequence[Quantity], rows: int, output: str, notes: list[str]) -> None:
    """Prints what denoising did to each measure, and last where the rows went, to standard error."""
    out, several = Out(), len(quantities) > 1
    for quantity in quantities:
        if several:
            out.print(one_line(f"{quantity.name}:"))
        _print_estimates_of(out, quantity)
        if several:
            out.print()
    fact(rows=rows)
    apart = ", one per node and measure" * several
    out.print("; ".join([f"{rows:,} rows written to {place_of(output)}{apart}", *notes]))


def print_form(recognised: Sequence[str], doubts: Sequence[str]) -> None:
    """Prints what a table was taken for, and what its figures say against it."""
    out = Out()
    fact(recognised=list(recognised), doubts=list(doubts))
    for note in recognised:
        out.print(one_line(f"recognised: {note}"))
    for doubt in doubts:
        out.print(one_line(doubt), warning=True)


def _print_estimates_of(out: Out, quantity: Quantity) -> None:
    est, lines, gains = quantity.estimates, of_estimates.lines(quantity), of_estimates.level_gains(quantity)
    fact(estimates=of_estimates.as_data(quantity))
    trouble = lines[0].subject == "noise" and lines[0].warning
    if trouble:
        out.print(lines[0].full, warning=True)
    total = "if the noise were as stated, " * trouble + of_estimates.sum_words(quantity)
    out.print(one_line(plain(f"{many(len(est), 'row')} in {many(est.tree.depth, 'level')}; {total}")))
    if gains:
        table = of_estimates.gains_table(gains)
        rows = [table.heads, *([one_line(row[0]), *row[1:]] for row in table.rows)]
        print_table(out, rows, table.together, space=False)
    for line in lines[trouble:]:
        out.print(line.full, line.warning)
        if line.subject == "corrections" and line.warning:
            found, worst = of_estimates.worst(quantity, LISTED)
            for name, noisy, estimate, correction in worst:
                words = f"  {name}: noisy {noisy} → estimate {estimate} ({correction})"
                out.print(one_line(words), warning=True)
            if found > len(worst):
                out.print(f"  and {found - len(worst):,} more; see the column correction", warning=True)


def print_plans(
    plan: Plan,
    known: Sequence[tuple[Tree, Prior]],
    prior_path: str | None,
    earlier: facts.Earlier | None = None,
) -> None:
    """Prints the plan of each breakdown; of several, first what each has of the budget and costs the others."""
    if plan.parts:
        out, table = Out(), of_breakdowns.table(plan)
        print_table(out, [table.heads, *table.rows], table.together)
        _print_lines(out, of_breakdowns.lines(plan))
        fact(breakdowns=of_breakdowns.as_data(plan))
    for name, part, (tree, prior) in zip(plan.names, plan.breakdowns, known, strict=True):
        if name:
            say(f"\n{name}")
        print_plan(part, tree, prior, prior_path, earlier)


def print_plan(
    plan: Plan, tree: Tree, prior: Prior, prior_path: str | None, earlier: facts.Earlier | None = None
) -> None:
    """Prints a plan's tables, what it protects, and what it was made of."""
    out, spec = Out(), plan.spec
    out.print(facts.title(plan))
    fact(plan=_facts(plan, tree))
    for part in plan.by_measure:
        if spec.measures or part.limited:
            out.print()
            out.print(facts.about(plan, part))
        table = facts.table(part.plan)
        rows = [table.heads, *table.rows]
        if earlier:
            beside = [["last plan", "vs. last"], *earlier.beside(part.plan, part.measure.name)]
            rows = [[*row, *more] for row, more in zip(rows, beside, strict=True)]
        print_table(out, rows, table.together)
        if changed := [each for each in earlier.changes if each.measure == part.measure.name] if earlier else []:
            _print_changes(out, plan, changed)
        for line in facts.level_lines(part):
            out.print(f"{line.subject}: {line.text}", line.warning)
    if plan.roots and len(plan.measures) == 1 and prior.history:
        print_table(out, _largest(plan, tree, prior))
    if len(plan.measures) > 1:
        out.print()
        out.print(facts.together(plan))
    for of_limit in facts.limit_tables(plan).values():
        out.print()
        out.print(of_limit.caption)
        print_table(out, [of_limit.heads, *of_limit.rows])
    _print_schemes(out, plan)
    out.print()
    lines = facts.error_lines(plan)
    if earlier:
        lines += earlier.lines
        fact(last_plan=earlier.changes)
    lines += [*facts.limit_lines(plan), *facts.bound_lines(plan), *facts.privacy_lines(plan)]
    _print_lines(out, [*lines, *facts.prior_lines(plan, tree, prior, prior_path), *facts.note_lines(plan)])


def _print_changes(out: Out, plan: Plan, changed: list[facts.RootChange]) -> None:
    """Prints what changes for the roots whose contributions change most."""
    moved = [each for each in changed if each.moved or each.state]
    if not moved:
        return
    shown = LARGEST + (moved[0].root is None)
    whose = f"each {plan.spec.split_by}" if plan.roots else "all"
    out.print(f"contributions and expected error of {whose}, last plan → this one")
    cells = [each.cells("if new" if plan.roots else "all") for each in moved[:shown]]
    print_table(out, [["", *plan.levels, "expected error"], *cells], space=False)
    if len(moved) > shown:
        out.print(f"and {len(moved) - shown:,} more with smaller changes; --summary has all")


def _print_lines(out: Out, lines: list[Line]) -> None:
    """Prints lines, those of one subject below each other; a target or a note is one for itself."""
    for subject, group in groupby(lines, lambda line: line.subject):
        for i, line in enumerate(group):
            head = f"{subject}: " if i == 0 or subject in ("target", "note") else " " * (len(subject) + 2)
            out.print(head + line.text, line.warning)


def print_methods(plans: dict[str, Plan], earlier: facts.Earlier | None) -> None:
    """Prints the errors of each method, whether it keeps to guard and targets, and the errors of an earlier plan."""
    first = next(iter(plans.values()))
    by_root = bool(first.spec.split_by) and not first.spec.total
    bounded = facts.keeps_bounds(first) is not None
    within = [f"within a {first.spec.split_by}"] * by_root
    rows = [["method", *first.levels, "all", *within, *["keeps guard and targets"] * bounded]]
    for name, plan in plans.items():
        levels, whole, roots = [e.error for e in plan.expected.levels], plan.expected.tree, plan.expected.roots
        errors = [percent(error.plan) for error in [*levels, whole, *[roots] * by_root]]
        rows.append([name, *errors, *["yes" if facts.keeps_bounds(plan) else "no"] * bounded])
    zeros = [e.error.zeros for e in first.expected.levels] + [first.expected.tree.zeros]
    if None not in zeros:
        rows.append(["all zeros", *(percent(x or 0.0) for x in zeros), *[""] * by_root, *[""] * bounded])
    if earlier:
        each, tree, median = earlier.together()
        rows += [["last plan", *map(percent, [*each, tree, *[median] * by_root]), *[""] * bounded]]
    out = Out()
    out.print(f"expected errors at epsilon = {first.spec.epsilon:g} by method")
    print_table(out, rows)


def print_what_if(plan: Plan, variants: list[Variant], planned: float | None = None) -> None:
    """Prints the errors of the plan and of its variants, level by level; a level that a variant does not have is –.

    `planned` is the plan's error of noise alone, where budgets cut something off as well.
    """
    instead = {name: [x for v in variants for x in v.change.levels([name])] for name in plan.levels}
    levels = list(dict.fromkeys(level for name in plan.levels for level in (name, *instead[name])))
    settings = any(variant.change.api for variant in variants)
    under = ["ε of a conversion", "lost", "noise"] if settings else ["nodes"]
    rows = [["what if", *under, *levels, "all", *["all, equal split"] * (not settings)]]
    for words, one, noise in [("as planned", plan, planned), *((v.change.words, v.plan, v.noise) for v in variants)]:
        errors = one.expected
        of_level = {level.level: percent(level.error.plan) for level in errors.levels}
        whole = [percent(errors.tree.plan), *[percent(errors.tree.equal)] * (not settings)]
        first = _under_settings(one, noise) if settings else [f"{sum(level.nodes for level in errors.levels):,}"]
        rows.append([words, *first, *(of_level.get(level, "–") for level in levels), *whole])
    out = Out()
    out.print(f"\nwhat-if: expected errors with one thing changed, {plan.method} split; all: over the levels there are")
    print_table(out, rows)
    if settings:
        _print_settings(out, plan, variants)
    if any(variant.change.times != 1 for variant in variants):
        out.print(
            "periods: counts in proportion to the time, one report at epsilon for each; values that the prior has not "
            "seen are left out, and a longer period has more of them; domains stay as they are"
        )
    told = [
        {
            "change": variant.change.words,
            "expected": variant.plan.expected,
            **({"epsilon": variant.plan.spec.epsilon} if settings else {}),
            **({"noise": variant.noise, "lost": variant.plan.measures[0].cut_off} if variant.noise is not None else {}),
        }
        for variant in variants
    ]
    fact(what_if=told)


def _under_settings(plan: Plan, noise: float | None) -> list[str]:
    """Cells of `print_what_if`: a conversion's ε and what it is a part of, what budgets lose, the error of noise."""
    spec, lost = plan.spec, None if noise is None else plan.measures[0].cut_off
    granted = spec.api and spec.api.granted
    whole = f"of {granted:g} " if granted else ""
    cells = [f"{spec.epsilon:.4g} {whole}per {spec.terms.protects}", percent(np.nan if lost is None else lost)]
    return [*cells, percent(plan.expected.tree.plan if noise is None else noise)]


def _print_settings(out: Out, plan: Plan, variants: list[Variant]) -> None:
    """Prints which of the settings has the least error, and what each ε is of."""
    each = [("as planned", plan), *((variant.change.words, variant.plan) for variant in variants)]
    alike = [(words, one) for words, one in each if one.spec.terms is plan.spec.terms]
    best, least = min(alike, key=lambda pair: pair[1].expected.tree.plan)
    under = "" if len(alike) == len(each) else f" under the {plan.spec.terms.title}"
    out.print(f"least error{under}: {best}, {percent(least.expected.tree.plan)} over all levels")
    lost = "all² = noise² + loss²: what budgets lose is missing from all figures, and no denoising brings it back"
    out.print(lost if plan.measures[0].bias_known else f"{lost}; this prior does not show what is lost")
    for terms in dict.fromkeys(one.spec.terms for _, one in each):
        out.print(f"per {terms.protects}: what ε of the {terms.title} protects is {terms.protected}")


def _facts(plan: Plan, tree: Tree) -> Record:
    spec = plan.spec
    return {
        "nodes": int(tree.number.sum()),
        "levels": plan.levels,
        "method": plan.method,
        "epsilon": spec.epsilon,
        "tau": spec.tau,
        "noise": spec.noise,
        **spec.noise_model.account,
        "other_noise": plan.other_noise,
        "expected": plan.expected,
        "targets": [target._asdict() for target in spec.targets],
        "guard": spec.guard,
        "unbounded": plan.unbounded,
        "privacy_loss": plan.privacy_loss,
        "privacy": plan.privacy_words.all_lines,
        "guarantees": plan.guarantees,
        "prior": plan.prior,
    }


def _largest(plan: Plan, tree: Tree, prior: Prior) -> list[list[str]]:
    """The shares of the largest roots, with their counts; or of the first ones, where counts may not be told."""
    count, told = tree.to_level_order(prior.mean)[tree.slice(int(tree.total))], plan.prior.protected
    labels = tree.labels[0].cast("string")
    rows = [[f"{'largest' if told else 'first'} of {len(count):,}", *["conversions"] * told, *plan.levels]]
    for v in (np.argsort(-count, kind="stable") if told else np.arange(len(count)))[:LARGEST].tolist():
        label = labels[v].as_py()
        budget = plan.spec.contributions_of(plan.most(label))
        shares = (percent(c / budget) for c in plan.roots.get(label, plan.default))
        rows.append([label, *[f"{count[v]:,.0f}"] * told, *shares])
    return rows


def _print_schemes(out: Out, plan: Plan) -> None:
    """Prints what each scheme of the API would mean, and why one was taken."""
    if plan.schemes is None:
        return
    rows = [["scheme", "expected error", "credits", "reports", "bytes", "impressions per view", "all or nothing", ""]]
    for cost in plan.schemes:
        numbers = [f"{cost.credits or '–'}", f"{cost.reports}", f"{cost.bytes:,}", f"{cost.impressions}"]
        took = "does not fit" if cost.refused else "chosen" if cost.chosen else ""
        rows.append([cost.scheme, percent(cost.error), *numbers, "yes" if cost.atomic else "no", took])
    out.print()
    unit = "credits" if plan.spec.noise_model.on_sums else "millionths of epsilon"
    out.print(f"schemes: reports and their bytes are those of one conversion; contributions above are {unit}")
    print_table(out, rows)
    for cost in plan.schemes:
        out.print(f"{cost.scheme}: {cost.words}{f'; {why}' if (why := cost.refused or cost.why) else ''}")
    fact(schemes=plan.schemes)

"""print_plan: a plan in words and figures, several plans side by side, and an earlier plan beside today's."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from attributary.cli.printing import Out, console, print_table
from attributary.cli.summary_file import fact
from attributary.facts import joint_plan as joint_facts
from attributary.facts import plan as facts
from attributary.facts.numerals import Line, percent
from attributary.plan import Plan, Variant
from attributary.plan.joint import JointPlan
from attributary.prior import Prior
from attributary.tree import Tree

LARGEST = 5  # roots that are listed


def print_plan(
    plan: Plan, tree: Tree, prior: Prior, prior_path: str | None, earlier: facts.Earlier | None = None
) -> None:
    """Prints a plan's tables, what it protects, and what it was made of."""
    out, spec = console(), plan.spec
    out.print(facts.title(plan))
    fact("plan", _facts(plan, tree))
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
            _print_line(out, f"{line.subject}: {line.text}", line.warning)
    if plan.roots and len(plan.measures) == 1 and prior.history:
        print_table(out, _largest(plan, tree, prior))
    if len(plan.measures) > 1:
        out.print()
        out.print(facts.together(plan))
    _print_tradeoffs(out, plan)
    _print_schemes(out, plan)
    out.print()
    lines = facts.error_lines(plan)
    if earlier:
        lines += earlier.lines
        fact("last_plan", earlier.changes)
    lines += [*facts.limit_lines(plan), *facts.bound_lines(plan), *facts.privacy_lines(plan)]
    _print_lines(out, [*lines, *facts.prior_lines(plan, tree, prior, prior_path), *facts.note_lines(plan)])


def print_joint_plan(plan: JointPlan, trees: Sequence[Tree], priors: Sequence[Prior], source: str | None) -> None:
    """Prints what each breakdown has of the budget and costs the others, then the plan of each."""
    out = console()
    table = joint_facts.table(plan)
    print_table(out, [table.heads, *table.rows], table.together)
    _print_lines(out, joint_facts.lines(plan))
    fact("breakdowns", joint_facts.as_data(plan))
    for name, part, tree, prior in zip(plan.names, plan.breakdowns, trees, priors, strict=True):
        out.print(f"\n{name}")
        print_plan(part, tree, prior, source)


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
            _print_line(out, head + line.text, line.warning)


def _print_line(out: Out, words: str, warning: bool) -> None:
    from rich.text import Text

    out.print(Text(words, style="yellow" if warning else ""))


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
    out = console()
    out.print(f"expected errors at epsilon = {first.spec.epsilon:g} by method")
    print_table(out, rows)


def print_what_if(plan: Plan, variants: list[Variant]) -> None:
    """Prints the errors of the plan and of its variants, level by level; a level that a variant does not have is –."""
    levels = _all_levels(plan, variants)
    rows = [["what if", "nodes", *levels, "all", "all, equal split"]]
    for words, errors in [("as planned", plan.expected), *((v.change.words, v.plan.expected) for v in variants)]:
        of_level = {level.level: percent(level.error.plan) for level in errors.levels}
        nodes = sum(level.nodes for level in errors.levels)
        whole = [percent(errors.tree.plan), percent(errors.tree.equal)]
        rows.append([words, f"{nodes:,}", *(of_level.get(level, "–") for level in levels), *whole])
    out = console()
    out.print(f"\nexpected errors if something else were asked, {plan.method} split; all: over the levels there are")
    print_table(out, rows)
    if any(variant.change.times != 1 for variant in variants):
        out.print(
            "periods: counts in proportion to the time, one report at epsilon for each; values that the prior has not "
            "seen are left out, and a longer period has more of them; domains stay as they are"
        )
    fact("what_if", [{"change": v.change.words, "expected": v.plan.expected} for v in variants])


def _all_levels(plan: Plan, variants: list[Variant]) -> list[str]:
    """The levels of the plan, each followed by what variants have in its place."""
    levels: dict[str, None] = {}
    for name in plan.levels:
        levels[name] = None
        levels |= dict.fromkeys(new for variant in variants for new in variant.change.levels([name]))
    return list(levels)


def _facts(plan: Plan, tree: Tree) -> dict[str, Any]:
    spec = plan.spec
    return {
        "nodes": len(tree),
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


def _print_tradeoffs(out: Out, plan: Plan) -> None:
    """Prints a table for each limit that the plan chose."""
    for name, trades in (plan.tradeoff or {}).items():
        clip = name in {measure.name for measure in plan.spec.values}
        rows = [["clip" if clip else "limit", "expected error", "cut off", "noise", "chosen"]]
        for t in trades:
            chosen = "" if t.chosen == 0 else "chosen" if t.chosen == 1 else f"{t.chosen:.0%} of roots"
            rows.append([f"{t.limit:,.6g}", *map(percent, (t.error, t.bias, t.noise)), chosen])
        out.print()
        out.print(f"{name}: {'clipped at' if clip else 'chosen by expected error'}")
        print_table(out, rows)


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
    fact("schemes", plan.schemes)

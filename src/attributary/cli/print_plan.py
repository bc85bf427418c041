"""print_plan: a plan in words and figures, several plans side by side, and an earlier plan beside today's."""

from typing import Any, NamedTuple, Self

import numpy as np

from attributary.budget import METHODS, Expected
from attributary.cli.printing import Out, console, print_table
from attributary.cli.summary_file import fact
from attributary.facts.numerals import Numeral, change, percent, span
from attributary.plan import MeasurePlan, Plan, Variant, expected
from attributary.plan.bounded_shares import ENOUGH
from attributary.plan.expected_errors import Compared
from attributary.plan.plan_html import REVEALS, SUMMED
from attributary.prior import Prior, foreseen
from attributary.prior.earlier import Profile
from attributary.tree import Tree

LARGEST = 5  # roots that are listed
LOST = 0.1  # a part of the conversions that is worth a warning
CLASSES = 50  # contributions that the filter data of an impression can tell apart


class Earlier(NamedTuple):
    """The errors of an earlier plan, by measure, on today's tree and prior."""

    path: str
    errors: dict[str, Expected]
    weights: list[float]

    @classmethod
    def of(cls, path: str, earlier: Plan, plan: Plan, tree: Tree, prior: Prior, profile: Profile | None) -> Self:
        """Judged as today's plan is."""
        known = foreseen(tree, prior, tau=plan.spec.tau) if plan.learn is True else None
        errors = {
            (name := part.measure.name): expected(
                earlier, tree, prior, known, profile=profile, measure=name, tau=part.tau
            )
            for part in plan.by_measure
        }
        return cls(path, errors, [measure.weight for measure in plan.spec.asked])

    def together(self) -> tuple[list[float], float, float]:
        """Errors of the levels, of the tree, and the median of the roots; of measures, root mean squares by weight."""

        def mean(each: list[Any]) -> Any:
            return np.sqrt(np.average(np.square(each), axis=0, weights=self.weights))

        errors = list(self.errors.values())
        roots = mean([np.nanmedian(e.roots) for e in errors])
        return mean([e.levels for e in errors]).tolist(), float(mean([e.tree for e in errors])), float(roots)


def print_plan(plan: Plan, tree: Tree, prior: Prior, prior_path: str | None, earlier: Earlier | None = None) -> None:
    """Prints a plan's tables, what it protects, and what it was made of."""
    from rich.text import Text

    out, spec = console(), plan.spec
    each = f", one for each {spec.split_by}" if spec.split_by else ""
    use = {True: ", for estimates that use the prior", "split": ", for non-negative estimates"}.get(
        plan.learn or "", ""
    )
    out.print(
        f"{len(tree):,} nodes in {len(plan.levels)} levels; epsilon = {spec.epsilon:g}, {plan.method} split{each}{use}"
    )
    fact("plan", _facts(plan, tree))
    for part in plan.by_measure:
        if spec.measures or spec.has_limits:
            out.print()
            out.print(_about(plan, part))
        print_table(out, _levels(plan, part, earlier and earlier.errors[part.measure.name]), together=4)
        _print_by_node(out, part)
    if plan.roots and len(plan.measures) == 1 and prior.history:
        print_table(out, _largest(plan, tree, prior))
    if len(plan.measures) > 1:
        out.print()
        error = plan.expected.tree
        out.print(
            f"all measures together, root mean square by weight: {percent(error.plan)}; equal split: "
            f"{percent(error.equal)} ({change(error.plan, error.equal)})"
        )
    _print_tradeoffs(out, plan)
    _print_schemes(out, plan)
    out.print()
    for line in [
        *_errors(plan, earlier),
        *_bounds(plan),
        *_privacy(plan),
        *_prior(plan, tree, prior, prior_path),
        *_notes(plan),
    ]:
        out.print(Text(line.removeprefix("!"), style="yellow" if line.startswith("!") else ""))


def print_methods(plans: dict[str, Plan], earlier: Earlier | None) -> None:
    """Prints the errors of each method, and of an earlier plan."""
    first = next(iter(plans.values()))
    by_root = bool(first.spec.split_by) and not first.spec.total
    rows = [["method", *first.levels, "all", *[f"within a {first.spec.split_by}"] * by_root]]
    for name, plan in plans.items():
        levels, whole, roots = [e.error for e in plan.expected.levels], plan.expected.tree, plan.expected.roots
        rows.append([name, *(percent(error.plan) for error in [*levels, whole, *[roots] * by_root])])
    if earlier:
        each, tree, median = earlier.together()
        rows += [["last plan", *map(percent, [*each, tree, *[median] * by_root])]]
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


# Tables


def _about(plan: Plan, part: MeasurePlan) -> str:
    share = span(plan.part_of(part), percent)
    unit = f" in {part.measure.unit}" if part.measure.unit else ""
    clip = "" if part.measure.is_count else f", clipped at {part.clip:,.6g}"
    mean = part.share.mean
    brings = f"; a conversion of the prior brings {mean:,.4g} on average" if mean is not None else ""
    return f"{part.measure.name}{unit}{clip}: {share} of the budget{brings}"


def _levels(plan: Plan, part: MeasurePlan, earlier: Expected | None) -> list[list[str]]:
    """The heads, a row for each level and one for all: what it gets, and what comes of it."""
    by_root, errors = bool(plan.roots), part.plan.expected
    heads = [f"share of a {plan.spec.split_by}", "contribution if new"] if by_root else ["share", "contribution"]
    heads += ["expected error", "equal split", "vs. equal", "leaves only"]
    rows = [["level", "nodes", *heads, *["last plan", "vs. last"] * (earlier is not None)]]
    contributions, budget = part.plan.by_level
    for i, level in enumerate(errors.levels):
        contribution = _key(part.plan.default[i]) if by_root else span(contributions[i], _key)
        compared = _compared(level.error, None if earlier is None else float(earlier.levels[i]))
        rows.append(
            [level.level, f"{level.nodes:,}", span(contributions[i] / budget, percent), contribution, *compared]
        )
    nodes = sum(level.nodes for level in errors.levels)
    spent = np.sum(contributions, axis=0) if plan.nodes is None else np.array([plan.spec.budget])
    compared = _compared(errors.tree, None if earlier is None else earlier.tree)
    whole = _key(sum(part.plan.default)) if by_root else span(spent, _key)
    return [*rows, ["all", f"{nodes:,}", span(spent / budget, percent), whole, *compared]]


def _compared(error: Compared, last: float | None) -> list[str]:
    beside = [] if last is None else [percent(last), change(error.plan, last)]
    equal = [percent(error.equal), change(error.plan, error.equal)]
    return [percent(error.plan), *equal, percent(error.leaves), *beside]


def _key(contribution: float) -> Numeral:
    """A contribution; a level without one has no key."""
    return Numeral(f"{contribution:,.0f}" if contribution else "not measured", contribution)


def _print_by_node(out: Out, part: MeasurePlan) -> None:
    """Says of each level what its nodes are off by, since a root mean square is not that, and what has no key."""
    contributions, _ = part.plan.by_level
    unit = "conversions" if part.measure.is_count else part.measure.unit or f"of {part.measure.name}"
    for level, contribution in zip(part.plan.expected.levels, contributions, strict=True):
        if not contribution.any() and np.isfinite(level.error.plan):
            out.print(f"{level.level}: {SUMMED}; expected error {percent(level.error.plan)}")
        if words := level.words(percent, unit):
            out.print(f"{level.level}: {words}")


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


# Lines


def _errors(plan: Plan, earlier: Earlier | None) -> list[str]:
    spec, roots = plan.spec, plan.expected.roots
    by = "weighted by prior count, " if spec.weights == "counts" else ""
    pooled = "all roots together" if len(plan.roots) > 1 else "all nodes of a level together"
    cut = "what limits cut off included, " if spec.has_limits else ""
    what = "sum" if spec.values else "count"
    taus = [f"{part.tau:,.4g}{f' for {part.measure.name}' * (len(plan.measures) > 1)}" for part in plan.by_measure]
    lines = [
        f"errors: after denoising, root mean square, {cut}{by}{pooled}; relative to the {what}, or to tau = "
        f"{', '.join(taus)} if that is larger",
        "        a split gives up accuracy at some levels to gain more at others: compare the last row",
    ]
    if plan.learn:
        of = {
            True: "these errors assume `denoise --prior`",
            "split": "of unbiased estimates; the split is for non-negative ones, whose errors are smaller",
        }
        lines += [f"        {of[plan.learn]}"]
    if plan.roots and not spec.total:
        lines += [
            f"        median error within a {spec.split_by}: {percent(roots.plan)} (each {spec.split_by} has its own "
            f"split; equal split: {percent(roots.equal)})"
        ]
    if earlier:
        lines += [f"        last plan: {earlier.path}, as if it were used again, on this tree and prior"]
    if spec.has_limits:
        most = np.array([plan.most(), *map(plan.most, plan.roots)])
        if most.max() > 1:
            lines += [f"limit: the first {span(most, lambda x: f'{x:g}')} conversions of an impression count"]
    unknown = [share.name for share in plan.measures if not share.bias_known]
    if unknown:
        lines += [f"!note: the prior does not tell what limits cut off {', '.join(unknown)}; errors are without it"]
    return lines


def _bounds(plan: Plan) -> list[str]:
    """Whether the targets are met, and what they and the guard cost on the average."""
    spec, lines = plan.spec, []
    for target in spec.targets:
        errors = [each.plan.expected for each in plan.by_measure]
        of_measure = {each.measure.name: each.plan.expected.tree for each in plan.by_measure}
        compared = [level.error for each in errors for level in each.levels if level.level == target.name]
        compared = compared or [of_measure[target.name]]
        if target.half_width is not None:
            within = f"half of the 95 % interval within {target.half_width:.3%} of counts of at least tau"
            lines.append(f"target: {target.name}: {within}")
            continue
        most = [each.equal if target.error == "equal" else float(target.error or 0) for each in compared]
        met = all(each.plan <= at * (1 + ENOUGH) for each, at in zip(compared, most, strict=True))
        found = ", ".join(percent(each.plan) for each in compared)
        asked = "no worse than an equal split" if target.error == "equal" else f"within {percent(most[0])}"
        lines.append(f"{'' if met else '!'}target: {target.name} {asked}: {'met' if met else 'missed'}, {found}")
    names = [*(["guard"] if np.isfinite(spec.guard_factor) else []), *(["targets"] if spec.targets else [])]
    if not names or not METHODS[plan.method].bounded:
        return [*lines, f"!note: method {plan.method} goes by no targets; optimal does"] if lines else []
    error, rule = plan.expected.tree.plan, f"no level above {spec.guard_factor:g} times its error under an equal split"
    cost = "cost nothing here: the best split keeps to them" if len(names) > 1 else "costs nothing here"
    if plan.unbounded is not None:
        change_of = f"({change(error, plan.unbounded)})"
        cost = f"cost: {percent(error)} over all levels instead of {percent(plan.unbounded)} {change_of}"
    return [*lines, f"{' and '.join(names)}: {f'{rule}; ' if 'guard' in names else ''}{cost}"]


def _privacy(plan: Plan) -> list[str]:
    spec, lines = plan.spec, plan.privacy_words.all_lines
    if spec.noise_model.account:
        lines += [f"with {', '.join(f'{name} = {x:.4g}' for name, x in spec.noise_model.account.items())}"]
        lines += [f"sigma{part}" for part in _sigmas(plan)]
    return [
        f"noise: {spec.noise_model.words[0]}",
        *([f"       {plan.other_noise.words(plan.expected.tree.plan)}"] if plan.other_noise else []),
        f"privacy: {lines[0]}",
        *(f"         {line}" for line in lines[1:]),
    ]


def _sigmas(plan: Plan) -> list[str]:
    """The standard deviation of the noise of each level, for whoever adds it; of the default split."""
    spec, lines = plan.spec, []
    for part in plan.by_measure:
        budget = np.array(part.plan.default) * spec.epsilon / spec.l1
        sigma = zip(plan.levels, np.sqrt(spec.noise_model.variance(budget)) * part.clip, strict=True)
        of = f" of {part.measure.name}" * (len(plan.measures) > 1)
        lines.append(f"{of}: {', '.join(f'{x:.4g} ({level})' for level, x in sigma if np.isfinite(x))}")
    return lines


def _prior(plan: Plan, tree: Tree, prior: Prior, path: str | None) -> list[str]:
    note, spec = plan.prior, plan.spec
    if not note.history:
        return ["prior: none; the plan goes by the tree's structure, as if no node had more than tau conversions"]
    several = f"{prior.source}, " if prior.source else ""
    average = " in an average period" * bool(several)
    lines = [f"prior: {path}, {several}{note.conversions or 0:,.0f} conversions{average}, protected"]
    if not note.protected:
        lines = [f"!prior: {path}, {several}NOT protected: {REVEALS}"]
    new = int(prior.new_roots(tree).sum()) if spec.split_by else 0
    if note.new:
        takes = f"; {new:,} of them are values of {spec.split_by} and take the default split" if new else ""
        lines += [f"       {note.new:,} nodes are new since then{takes}"]
    if note.gone:
        much = bool(prior.lost > LOST * prior.mean[tree.parent < 0].sum())
        part = f", with {note.lost:,.0f} conversions," if note.lost is not None else ", with many conversions," * much
        gone = f"{note.gone:,} of its leaves{part} are not in the tree"
        lines += [f"{'!' * much}       {gone} and left out; the first is {prior.example}"]
    return lines


def _notes(plan: Plan) -> list[str]:
    lines = [f"!note: {note}" for note in plan.spec.notes]
    classes = len({(plan.most(x), *(share.roots[x] for share in plan.measures)) for x in plan.roots})
    if plan.nodes is not None or classes > CLASSES:
        many = f"{classes:,} different splits" if plan.nodes is None else "contributions by node"
        lines += [f"!note: {many}: the filter data of an impression can tell {CLASSES} apart at most"]
    unmeasured = [e.level for e in plan.expected.levels if not np.isfinite(e.error.plan)]
    if unmeasured:
        lines += [f"!note: {', '.join(unmeasured)} cannot be estimated with this plan; give it a share, or --keep it"]
    return lines

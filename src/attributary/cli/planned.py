"""planned: a plan in words and figures, for standard error."""

from typing import Any, NamedTuple, Self

import numpy as np

from attributary.cli.planned_parts import limits, print_parts
from attributary.cli.printing import change, console, key, percent, print_table, span
from attributary.cli.summary_file import fact
from attributary.plan import Plan, expected
from attributary.plan.expected_errors import Compared
from attributary.prior import Prior, foreseen
from attributary.prior.profile import Profile
from attributary.tree import Tree

LARGEST = 5  # roots that are listed
LOST = 0.1  # a part of the conversions that is worth a warning
CLASSES = 50  # contributions that the filter data of an impression can tell apart


class Earlier(NamedTuple):
    """The errors of an earlier plan on today's tree and prior."""

    path: str
    levels: list[float]
    tree: float
    roots: float  # their median

    @classmethod
    def of(cls, path: str, earlier: Plan, plan: Plan, tree: Tree, prior: Prior, profile: Profile | None) -> Self:
        """Judged as today's plan is; of several measures, root mean squares by weight."""
        weights = [measure.weight for measure in plan.spec.asked]
        errors = [
            expected(
                earlier,
                tree,
                prior,
                foreseen(tree, prior, tau=plan.spec.tau) if plan.learn else None,
                profile=profile,
                measure=part.measure.name,
                tau=part.tau,
            )
            for part in plan.by_measure
        ]

        def mean(each: list[Any]) -> Any:
            return np.sqrt(np.average(np.square(each), axis=0, weights=weights))

        levels = mean([e.levels for e in errors]).tolist()
        tree_error, roots = (mean(each) for each in ([e.tree for e in errors], [np.nanmedian(e.roots) for e in errors]))
        return cls(path, levels, float(tree_error), float(roots))


def print_plan(plan: Plan, tree: Tree, prior: Prior, prior_path: str | None, earlier: Earlier | None = None) -> None:
    """Prints a plan's table, what it protects, and what it was made of."""
    from rich.text import Text

    out, spec = console(), plan.spec
    each = f", one for each {spec.split_by}" if spec.split_by else ""
    use = ", for estimates that use the prior" if plan.learn else ""
    out.print(
        f"{len(tree):,} nodes in {len(plan.levels)} levels; epsilon = {spec.epsilon:g}, {plan.method} split{each}{use}"
    )
    fact("plan", _facts(plan, tree))
    measured = plan.spec.has_limits
    if measured:
        print_parts(out, plan)
    else:
        print_table(out, _levels(plan, earlier), together=4)
    if plan.roots and not measured:
        print_table(out, _largest(plan, tree, prior))
    out.print()
    errors = limits(plan) if measured else _errors(plan, earlier)
    for line in [*errors, *_privacy(plan), *_prior(plan, tree, prior, prior_path), *_notes(plan)]:
        out.print(Text(line.removeprefix("!"), style="yellow" if line.startswith("!") else ""))


def _facts(plan: Plan, tree: Tree) -> dict[str, Any]:
    spec = plan.spec
    return {
        "nodes": len(tree),
        "levels": plan.levels,
        "method": plan.method,
        "epsilon": spec.epsilon,
        "tau": spec.tau,
        "noise": spec.noise,
        "expected": plan.expected,
        "privacy_loss": plan.privacy_loss,
        "guarantees": plan.guarantees,
        "prior": plan.prior,
    }


def _levels(plan: Plan, earlier: Earlier | None) -> list[list[str]]:
    """The heads, a row for each level and one for all: what it gets, and what comes of it."""
    own = bool(plan.roots)
    heads = [f"share of a {plan.spec.split_by}", "contribution if new"] if own else ["share", "contribution"]
    errors = ["expected error", "equal split", "vs. equal", "leaves only", *["last plan", "vs. last"] * bool(earlier)]
    rows, contributions = [["level", "nodes", *heads, *errors]], _contributions(plan)
    for i, level in enumerate(plan.expected.levels):
        share = span(contributions[i] / plan.spec.budget, percent)
        contribution = key(plan.default[i]) if own else span(contributions[i], key)
        compared = _compared(level.error, earlier and earlier.levels[i])
        rows.append([level.level, f"{level.nodes:,}", share, contribution, *compared])
    nodes, spent = sum(level.nodes for level in plan.expected.levels), plan.privacy_loss.conversion / plan.spec.epsilon
    compared = _compared(plan.expected.tree, earlier and earlier.tree)
    return [*rows, ["all", f"{nodes:,}", percent(spent), key(spent * plan.spec.l1), *compared]]


def _compared(error: Compared, last: float | None) -> list[str]:
    beside = [] if last is None else [percent(last), change(error.plan, last)]
    return [
        percent(error.plan),
        percent(error.equal),
        change(error.plan, error.equal),
        percent(error.leaves),
        *beside,
    ]


def _contributions(plan: Plan) -> list[Any]:
    """For each level, the contributions of all roots that have their own, or of all nodes."""
    if plan.nodes is None:
        return list(np.array(list(plan.roots.values()) or [plan.default]).T)
    level, contribution = plan.nodes.column("level").to_numpy(), plan.nodes.column("contribution").to_numpy()
    return [contribution[level == i] for i in range(len(plan.levels))]


def _largest(plan: Plan, tree: Tree, prior: Prior) -> list[list[str]]:
    """The shares of the largest roots."""
    import pyarrow as pa

    count = tree.to_level_order(prior.mean)[tree.slice(int(tree.total))]
    labels = tree.labels[0].cast(pa.string())
    rows = [[f"largest of {len(count):,}", "conversions", *plan.levels]]
    for v in np.argsort(-count, kind="stable")[:LARGEST].tolist():
        label = labels[v].as_py()
        shares = (percent(c / plan.spec.budget) for c in plan.roots.get(label, plan.default))
        rows.append([label, f"{count[v]:,.0f}", *shares])
    return rows


def _errors(plan: Plan, earlier: Earlier | None) -> list[str]:
    spec, roots = plan.spec, plan.expected.roots
    by = "weighed by prior count, " if spec.weights == "counts" else ""
    pooled = "all roots together" if len(plan.roots) > 1 else "all nodes of a level together"
    lines = [
        f"errors: after denoising, root mean square, {by}{pooled}; relative to the count, or to tau = {spec.tau:g} if "
        "that is larger"
    ]
    if plan.learn:
        lines += ["        of estimates that use what the prior says of shares, if they will be so: denoise --prior"]
    if plan.roots and not spec.total:
        lines += [
            f"        each {spec.split_by} for itself, which is what its split makes small: {percent(roots.plan)} "
            f"(median), {percent(roots.equal)} with an equal split"
        ]
    if earlier:
        lines += [f"        last plan: {earlier.path}, as if it were used again, on this tree and prior"]
    return lines


def _privacy(plan: Plan) -> list[str]:
    spec, costs = plan.spec, plan.privacy_loss
    many = max(map(plan.most, [None, *plan.roots])) > 1
    what = "all conversions of an impression that count" if many else "a conversion"
    lines = [
        f"noise: {spec.noise_model.words[0]}",
        f"privacy: epsilon = {spec.epsilon:g} holds for {what} against none, which costs {costs.conversion:.4g}",
    ]
    if not spec.unknown:
        return lines
    names = " or ".join(attribute.name for attribute in spec.unknown)
    change = f"         {'all of them' if many else 'a conversion'} with another {names} costs {costs.change:.4g}"
    if "definition-1" in plan.guarantees:
        return [*lines, f"{change}; epsilon holds for both, which is Definition 1 of the paper"]
    return [*lines, f'{change}; neighbours = "definition-1" in the spec makes epsilon hold for that, too']


def _prior(plan: Plan, tree: Tree, prior: Prior, path: str | None) -> list[str]:
    note, spec = plan.prior, plan.spec
    if not note.history:
        return ["prior: none; the plan goes by the tree's structure, as if no node had more than tau conversions"]
    told = f"{path}, {note.conversions:,.0f} conversions"
    lines = [f"prior: {told}, protected"]
    if not note.protected:
        lines = [f"!prior: {told}, NOT protected: whoever sees the plan learns a little of these counts"]
    new = int(prior.new_roots(tree).sum()) if spec.split_by else 0
    if note.new:
        takes = f"; {new:,} of them are values of {spec.split_by} and take the default split" if new else ""
        lines += [f"       {note.new:,} nodes are new since then{takes}"]
    if note.gone:
        much = "!" if note.lost > LOST * note.conversions else ""
        gone = f"{note.gone:,} of its leaves, with {note.lost:,.0f} conversions, are not in the tree"
        lines += [f"{much}       {gone} and left out; the first is {prior.example}"]
    return lines


def _notes(plan: Plan) -> list[str]:
    lines = [f"!note: {note}" for note in plan.spec.notes]
    classes = len({(plan.most(x), *(share.roots[x] for share in plan.measures)) for x in plan.roots})
    if plan.nodes is not None or classes > CLASSES:
        many = f"{classes:,} different splits" if plan.nodes is None else "contributions by node"
        lines += [f"!note: {many}: the filter data of an impression tells a conversion {CLASSES} apart at most"]
    unmeasured = [e.level for e in plan.expected.levels if not np.isfinite(e.error.plan)]
    if unmeasured:
        lines += [f"!note: {', '.join(unmeasured)} cannot be estimated with this plan; give it a share, or --keep it"]
    return lines

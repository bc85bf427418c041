"""denoise_summary: summary reports, denoised by the plan that their reports were made by.

>>> measured = Measurements.from_summary(plan, "summary.avro", tree)         # one measure
>>> denoise_summary(plan, ["summary.avro"], tree).table                      # all of them, as a table of estimates
>>> denoise_batches([QueriedReports(plan, ["monday.avro"], tree, covers=True), …])    # the sum of several days or plans
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from attributary import api
from attributary.api.attribution_api import Answer
from attributary.denoising import Estimate
from attributary.denoising.joint import joint, meetings_of
from attributary.errors import InputError
from attributary.estimates import by_measure, estimates_table, noted
from attributary.estimators import FIT, Estimator, refuse_estimator
from attributary.measurements import Measurements
from attributary.pipeline.breakdowns import in_one_table
from attributary.pipeline.denoise_table import Denoised
from attributary.pipeline.read_prior import far, notes_of, queried_tree, read_prior, refuse_today, under_plan
from attributary.plan import Plan
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.tables.table_columns import mark, together
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.tree.paths import refused


class QueriedReports(NamedTuple):
    """Reports of one plan that were queried by one tree, or by one for each breakdown."""

    plan: Plan
    summaries: Sequence[str]  # files or folders
    tree: Tree | Sequence[Tree]  # of several breakdowns a list
    covers: bool = False  # whether the tree has all impressions that the reports may hold conversions of
    name: str = "the plan"  # what messages call it


def denoise_summary(
    plan: Plan, summaries: Sequence[str], tree: Tree | Sequence[Tree], *, name: str = "the plan", **options: Any
) -> Denoised:
    """What the reports say of each node that was queried, and the estimates: a table with a row per node and measure.

    `summaries` are files or folders; several reports hold different conversions, and add up. Of several breakdowns,
    give a list of trees. `name` is what messages call the plan. The options are those of `denoise_batches`.
    """
    return denoise_batches([QueriedReports(plan, summaries, tree, name=name)], **options)


def denoise_batches(
    batches: Sequence[QueriedReports],
    *,
    estimator: Estimator | None = None,
    prior: str | None = None,
    protected: bool = False,
    noise: str | None = None,
    confidence: float = 0.95,
    stage: Callable[[str], None] = lambda _: None,
) -> Denoised:
    """The sum of several batches, each read by its own plan on its own tree: a row per node of any, and measure.

    A node that a batch's tree does not have is 0 there, exactly, if the tree covers all impressions; else it is not
    measured. `prior` is the file of an earlier period, for the estimator `learned`; exact counts in it mark the result
    as not private, unless they were `protected` themselves. `noise`, as in "api:epsilon=4", is that of reports which
    do not state it, if it is not the plan's. Where plans differ, the last one says how small counts are judged.
    """
    chosen = estimator or Estimator("unbiased" if prior is None else "learned")
    chosen.refuse_unused(prior, protected)
    plan, summaries = batches[-1].plan, batches[-1].summaries
    if plan.parts:
        refuse_estimator(chosen)
    trees, answers = _together(batches, noise)
    answers = _marked(answers)
    past = None if prior is None else under_plan(read_prior(plan.spec, trees[0], prior, protected), plan, trees[0])
    if past is not None:
        refuse_today(past, *answers[0].measures.values())
    stage("denoising")
    with refused(summaries[0]):
        made = estimate_measures(plan, trees, [answer.measures for answer in answers], chosen, past, stage)
    prints = ",".join(dict.fromkeys(batch.plan.fingerprint for batch in batches))
    each = {}
    for name, one, answer, estimates in zip(plan.names, plan.breakdowns, answers, made, strict=True):
        notes = [*answer.notes, *([] if past is None else notes_of(past))]
        for measure, est in estimates.items():
            notes += [] if past is None else far(past, measure, est.tree, est.count)
        if chosen.kind.values and plan.spec.values:
            notes += [f"`estimator={chosen.name}` is for counts; values are estimated by {chosen.kind.values}"]
        if chosen.whole and plan.spec.values:
            notes += ["whole numbers are for counts; values are left as they are"]
        table = by_measure({measure: estimates_table(est, confidence) for measure, est in estimates.items()})
        not_private = together(*(measured.not_private for measured in answer.measures.values()))
        table = noted(table, largest=one.largest, plan=prints)
        marked = mark(table, not_private, "" if past is None else past.not_private)
        misfit = "" if past is None else past.misfit(trees[0])
        each[name] = Denoised(marked, estimates, notes, misfit=misfit, plan=one)
    if not plan.parts:
        return each[""]
    whole = in_one_table(plan.spec, [one.table for one in each.values()])
    return Denoised(whole, {}, [], plan=plan, breakdowns=each)


def _together(batches: Sequence[QueriedReports], noise: str | None) -> tuple[list[Tree], list[Answer]]:
    """Of each breakdown the tree of all nodes of some batches, and what they say of it together."""
    first = batches[0]
    for other in batches[1:]:
        if asked(first.plan.spec) != asked(other.plan.spec):
            raise InputError(
                f"figures of plans that ask for the same tree and measures add up; {first.name} and {other.name} do "
                "not: denoise each of them alone"
            )
    each = []
    for i in range(len(first.plan.breakdowns)):
        of_one = []
        for batch in batches:
            tree = batch.tree if isinstance(batch.tree, Tree) else batch.tree[i]
            of_one.append(_Batch(batch.plan.breakdowns[i], batch.summaries, tree, batch.covers, batch.name))
        each.append(_sum(of_one, noise))
    answers = [answer for _, answer in each]
    if len(answers) > 1 and (strange := max(a.own + a.others for a in answers) - sum(a.own for a in answers)) > 0:
        told = f"{strange:,} keys are those of no breakdown and are left out"
        answers[0] = replace(answers[0], notes=(told, *answers[0].notes))
    return [tree for tree, _ in each], answers


def _marked(answers: Sequence[Answer]) -> list[Answer]:
    """The answers, each marked as not private if any is: all of them tell each other's figures."""
    words = together(*(m.not_private for answer in answers for m in answer.measures.values()))
    return [
        replace(answer, measures={name: replace(m, not_private=words) for name, m in answer.measures.items()})
        for answer in answers
    ]


class _Batch(NamedTuple):
    """What `QueriedReports` have of one breakdown."""

    plan: Plan
    summaries: Sequence[str]
    tree: Tree
    covers: bool
    name: str

    def answer(self, tree: Tree, noise: str | None = None) -> Answer:
        """What the reports say of a tree's nodes; nothing, if other breakdowns tell all of this one."""
        if self.plan.others is not None and not (self.plan.default_keys or self.plan.roots):
            nothing = Measurements.of(tree, np.zeros(len(tree)), np.full(len(tree), np.inf))
            return Answer({part.measure.name: nothing for part in self.plan.by_measure})
        rate = None if noise is None else stated_rate(noise, self.plan)
        return api.answer(self.plan, self.summaries, tree, rate, self.name)


def _sum(batches: Sequence[_Batch], noise: str | None) -> tuple[Tree, Answer]:
    """The tree of all nodes of some batches of one breakdown, and what they say of it together."""
    trees = list(dict.fromkeys(batch.tree for batch in batches))
    spec = batches[0].plan.spec
    tree = trees[0] if len(trees) == 1 else queried_tree(spec, [each.table() for each in trees])
    total: dict[str, Measurements] = {}
    before: list[tuple[str, Measurements]] = []
    notes: dict[str, None] = {}
    own = others = 0
    for batch in batches:
        _, files, here, covers, _ = batch
        answer = batch.answer(here, noise)
        measures = {m: _onto(tree, here, each, covers) for m, each in answer.measures.items()}
        _refuse_copy(files[0], next(iter(measures.values())), before)
        notes |= dict.fromkeys(answer.notes)
        own, others = own + answer.own, others + answer.others
        if len(tree) > len(here):
            if covers:
                _refuse_outside(files[0], here, batch.answer(tree).measures)
            how = "has all impressions: they are 0 there" if covers else "may lack some: they count as not measured"
            notes[f"{len(tree) - len(here):,} nodes are not in the tree of {files[0]}, which {how}"] = None
        total = {m: total[m].plus(each) if total else each for m, each in measures.items()}
    return tree, Answer(total, tuple(notes), own, others)


def asked(spec: Spec) -> tuple[object, ...]:
    """What a spec asks for: levels, the domains of unknown attributes in any order, and measures, of each breakdown."""
    return tuple(
        (part.levels, [frozenset(a.labels) for a in part.unknown], [measure.name for measure in part.asked])
        for part in spec.parts
    )


def _onto(tree: Tree, here: Tree, measured: Measurements, covers: bool) -> Measurements:
    """Measurements of the nodes of a tree on a larger one, which has all of them."""
    if here is tree:
        return measured
    node = tree.at(match(tree, here.table()).node)
    noisy, variance = np.zeros(len(tree)), np.full(len(tree), 0.0 if covers else np.inf)
    noisy[node], variance[node] = measured.noisy, measured.variance
    return replace(measured, noisy=noisy, variance=variance, tree=tree)


def _refuse_outside(name: str, here: Tree, measures: Mapping[str, Measurements]) -> None:
    """Refuses sums of nodes that a report's own tree lacks, although it has all impressions: it is another's tree."""
    for measured in measures.values():
        tree = measured.tree
        assert tree is not None
        outside = np.isfinite(measured.variance)
        outside[tree.at(match(tree, here.table()).node)] = False
        if outside.any():
            path = " > ".join(map(str, tree.path(int(np.argmax(outside)))))
            raise InputError(
                f"{name} has sums of {outside.sum():,} nodes that its tree does not have, such as {path}; give the "
                "tree that it was queried by, or make it with `attributary keys --partial`"
            )


FEW = 8  # nodes


def _refuse_copy(name: str, measured: Measurements, before: list[tuple[str, Measurements]]) -> None:
    """Refuses figures that came before: independent noise does not repeat itself."""
    for other, figures in before:
        both = (measured.variance > 0) & (figures.variance > 0) & np.isfinite(measured.variance + figures.variance)
        few = bool(measured.not_private) and both.sum() <= FEW  # without noise, small sums may be equal
        if both.any() and not few and (measured.noisy[both] == figures.noisy[both]).all():
            raise InputError(f"{name} holds the same figures as {other}; each is counted once: leave one out")
    before.append((name, measured))


def estimate_measures(
    plan: Plan,
    trees: Sequence[Tree],
    measures: Sequence[Mapping[str, Measurements]],
    estimator: Estimator,
    past: Prior | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Estimate]]:
    """The estimates of each breakdown by measure; only counts are made whole.

    A sum that two breakdowns reach is one number: they are denoised together, without an earlier period.
    """
    names, made = plan.names, [dict[str, Estimate]() for _ in trees]
    if not plan.parts:
        for part in plan.by_measure:
            name, chosen = part.measure.name, estimator if part.measure.is_count else estimator.for_values
            earlier, about = None if past is None else past.of(name), {"tau": part.tau, "worth": part.share.worth}
            made[0][name] = chosen.denoise(trees[0], measures[0][name], earlier=earlier, **about, stage=stage)
        return made
    meetings = meetings_of(trees, names)
    others = [" and ".join(name for name in names if name != own) for own in names]
    for measure in measures[0]:
        figures = [(tree, each[measure]) for tree, each in zip(trees, measures, strict=True)]
        for estimates, est in zip(made, joint(figures, meetings, others, estimator == FIT), strict=True):
            estimates[measure] = est
    return made


def stated_rate(noise: str, plan: Plan) -> tuple[float, int]:
    """ε and L1 as stated for a summary report, whose contributions are the plan's."""
    model, _, rest = noise.partition(":")
    stated = {key.strip(): value for key, _, value in (piece.partition("=") for piece in rest.split(","))}
    try:
        if model.strip() != plan.spec.noise_model.name or not stated.keys() <= {"epsilon", "l1"}:
            raise ValueError
        epsilon, l1 = float(stated["epsilon"]), int(stated.get("l1", plan.spec.l1))
    except (KeyError, ValueError):
        rule = f"the noise of a summary report is stated as {plan.spec.noise_model.name}:epsilon=…[,l1=65536]"
        raise InputError(f"{rule}; got {noise!r:.80}") from None
    if not (0 < epsilon < float("inf") and 0 < l1 < 2**32):
        raise InputError(f"ε and L1 of a summary report are above 0; got {epsilon:g} and {l1}")
    return epsilon, l1

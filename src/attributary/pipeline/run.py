"""run: from logs to counts that add up, end to end on this machine, as one call.

What browsers and the aggregation service would do is simulated: conversions are attributed and counted, the budget is
split, every node gets the noise that a summary report would have, and the noisy figures are denoised.

    run = attributary.run(Spec.load("spec.toml"), prior_until="2026-02-02")
    run.estimates["count"].table()
    run.save("out")
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attributary import rmsre
from attributary.denoising import Estimate, denoise
from attributary.errors import InputError
from attributary.estimates import IMPRESSIONS, USUAL, by_measure, estimates_table, known_above, noted, with_impressions
from attributary.estimators import Estimator
from attributary.logs.count import count
from attributary.logs.counts import Counts, leaves
from attributary.logs.devices import Devices, LevelLoss, rules_of
from attributary.logs.engine import Engine
from attributary.logs.log_columns import Moment, Period
from attributary.logs.log_files import all_files, is_generated
from attributary.measurements import Measurements
from attributary.noise import Entropy
from attributary.pipeline.denoise_summary import asked, estimate_measures
from attributary.pipeline.read_prior import prior_table, read_prior, under_plan
from attributary.plan import MeasurePlan, Plan, make_plan
from attributary.plan.make import why_not_learned
from attributary.prior import Prior, from_counts, none
from attributary.prior.earlier import Profile, profile
from attributary.ratio import ratios_table
from attributary.spec import Spec
from attributary.spec.measure import AT
from attributary.tables import write_table
from attributary.tables.table_columns import floats, mark
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Floats
from attributary.whole_files import whole_folder

if TYPE_CHECKING:
    from attributary.report import ReportInputs

FORMATS = ("parquet", "csv")
TABLES = ("estimates", "ratios", "counts", "prior")
FILES = ("report.html", "plan.json", "plan.nodes.parquet", *(f"{name}.{end}" for name in TABLES for end in FORMATS))


@dataclass(frozen=True, eq=False)
class Run:
    """What a run came to; `counts`, `before` and `truth` are NOT protected, all else is."""

    plan: Plan
    tree: Tree
    prior: Prior  # that the plan was made for
    counts: Counts  # of the period that was measured
    before: Counts | None  # of the period before, which is the prior
    truth: dict[str, Floats]  # of each measure the sums of nodes, as if there were no limits, in the tree's order
    estimates: dict[str, Estimate]  # by measure
    confidence: float  # of the intervals in tables and on the page
    generated: bool  # whether the rows of the logs were generated
    losses: tuple[LevelLoss, ...] = ()  # of each level, where browsers' budgets run out

    @cached_property
    def impressions(self) -> Floats | None:
        """The impressions of each node, in the tree's order; None where no attribute is known to an impression.

        An impression has no unknown attributes: nodes below the last known one have the impressions of the node above.
        """
        tree, known = self.tree, len(self.plan.spec.known)
        if not known and not tree.total:
            return None
        rows, seen = match(tree, self.counts.table), floats(self.counts.table, IMPRESSIONS, "the counts")
        first = np.bincount(rows.node[rows.leaf], np.nan_to_num(seen[rows.leaf]), len(tree))
        each: Floats = tree.in_level_order.sum_up(first)
        each[tree.offsets[tree.total + known] :] = np.nan
        return tree.from_level_order(known_above(tree, each))

    @property
    def errors(self) -> dict[str, float]:
        """The error of this draw, by measure: RMSRE_τ of the tree, what limits cut off included."""
        metric = self.plan.spec.weigh
        return {
            part.measure.name: rmsre.tree(self.tree, truth, np.square(est.count - truth), part.tau, metric=metric)
            for part, truth, est in zip(self.plan.by_measure, self.truth.values(), self.estimates.values(), strict=True)
        }

    @cached_property
    def tables(self) -> dict[str, Any]:
        """The Arrow tables: estimates, ratios where there are counts and values, counts, and prior if there was one."""
        with np.errstate(divide="ignore"):  # Estimate.correction divides by 0 where an estimate is not moved
            made = {name: estimates_table(est, self.confidence) for name, est in self.estimates.items()}
            if self.impressions is not None:
                made = {name: with_impressions(table, self.impressions) for name, table in made.items()}
            estimates = noted(by_measure(made), largest=self.plan.largest)
            tables = {"estimates": noted(estimates, generated="logs") if self.generated else estimates}
            ratios = ratios_table(self.estimates, self.confidence) if len(self.estimates) > 1 else None
        if ratios is not None:
            tables["ratios"] = mark(ratios, *(est.not_private for est in self.estimates.values()))
        tables["counts"] = self.counts.table
        if self.before is not None:
            tables["prior"] = self.before.table
        return tables

    @cached_property
    def shown(self) -> "ReportInputs":
        """Plan and estimates as page and terminal show them."""
        from attributary.report import ReportInputs

        inputs = ReportInputs.of(self.plan, self.estimates, confidence=self.confidence, generated=self.generated)
        return replace(inputs.with_impressions(self.impressions), losses=self.losses)

    def page(self, files: tuple[str, ...] = ()) -> str:
        """The page that shows plan and estimates, as HTML that needs nothing else; it names these files."""
        from attributary.report import page

        return page(replace(self.shown, files=files)).html

    def save(self, folder: str, format: str = "parquet", stage: Callable[[str], None] = lambda _: None) -> None:
        """Writes plan.json, the tables and report.html to a folder, in the place of an earlier run's, all at once."""
        with whole_folder(folder, FILES) as place:
            stage("writing")
            self.plan.save(os.path.join(place, "plan.json"))
            names = {f"{name}.{format}": table for name, table in self.tables.items()}
            for name, table in names.items():
                write_table(table, os.path.join(place, name))
            stage("drawing")
            shown = tuple(name for name in names if name.startswith(("estimates", "ratios")))
            with open(os.path.join(place, "report.html"), "w", encoding="utf-8") as file:
                file.write(self.page(("plan.json", *shown)))


def run(
    spec: Spec | str,
    folder: str | None = None,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    prior_until: Moment | None = None,
    prior: str | None = None,
    protected: bool = False,
    plan: Plan | str | None = None,
    method: str = "optimal",
    estimator: Estimator | str = "unbiased",
    confidence: float = USUAL,
    engine: Engine | str = "duckdb",
    rng: Entropy | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> Run:
    """Counts the logs of a spec, plans, simulates a summary report, and denoises it.

    `spec` may be the path of its file; the logs are relative to its folder, or to `folder`. Impressions from `since` on
    and before `until` count, all by default, with the conversions that belong to them. Of these, impressions before
    `prior_until` are the prior, which tells the plan what to expect, and the others are measured; or the `prior` is the
    file of an earlier report, or of counts (`protected`, if they were so themselves). A `plan`, or the path of one, is
    simulated as it is: its budget, noise and limits hold, and no method is needed. The estimator "learned" uses what
    other nodes of the same label and the prior share; earlier impressions are measured with noise of their own then, by
    the same plan. The noise is exact and from the operating system; with an `rng` it is not private, and all tables say
    so. `stage` is told what comes next.
    """
    if protected and prior is None:
        raise InputError("`protected` describes the counts in `prior`; give those, or leave it out")
    if prior is not None and prior_until is not None:
        raise InputError("the prior is a file, or the impressions before a time; got both: leave one of them out")
    if isinstance(spec, str):
        folder, spec = os.path.dirname(spec) if folder is None else folder, Spec.load(spec)
    folder, estimator = folder or ".", Estimator(estimator) if isinstance(estimator, str) else estimator
    ready = Plan.load(plan) if isinstance(plan, str) else plan
    spec = spec if ready is None else _spec_of(ready, spec)
    table = None if prior is None else prior_table(prior)  # before minutes of counting: it may not be there
    stage("counting")
    before = None
    if prior_until is not None:
        before = count(spec, folder, since=since, until=prior_until, engine=engine).refuse_no_match()
        before = replace(before, devices=None)
        since = prior_until
    counts = count(spec, folder, since=since, until=until, engine=engine).refuse_no_match()
    stage("planning")
    tree = spec.tree(counts.table)
    names = [attribute.name for attribute in spec.known]
    if prior is not None:
        expected = read_prior(spec, tree, prior, protected, table)
    elif before is not None:
        expected = from_counts(tree, before.table, known=names, spec=spec)
        expected = replace(expected, lost=expected.lost + before.left_out)
    else:
        expected = none(tree)
    known = expected.profile
    learn = estimator.kind.plan if not why_not_learned(spec, expected, method, known) else False
    plan = ready or make_plan(spec, tree, expected, method, profile=known, learn=learn)
    stage("simulating a summary report")
    now = profile(tree, spec, counts.table)
    losses: tuple[LevelLoss, ...] = ()
    if counts.devices is None:
        measures = {part.measure.name: measure(part, tree, now, rng) for part in plan.by_measure}
    else:
        sums, losses = reported(plan, tree, counts.devices)
        measures = {part.measure.name: Measurements.simulate(part.plan, tree, sums, rng) for part in plan.by_measure}
    stage("denoising")
    past = None
    if prior is not None and estimator.uses_prior:
        past = under_plan(expected, plan, tree)
    elif known is not None and estimator.uses_prior:
        simulated = {p.measure.name: measured_prior(p, tree, known, expected, rng) for p in plan.by_measure}
        past = replace(expected, measures=simulated)
    estimates = estimate_measures(plan, tree, measures, estimator, past, stage)
    truth = {part.measure.name: now.full(part.measure) for part in plan.by_measure}
    generated = spec.logs is not None and any(map(is_generated, all_files(spec.logs, folder)))
    counts = replace(counts, devices=None)  # which may be large
    return Run(plan, tree, expected, counts, before, truth, estimates, confidence, generated, losses)


def _spec_of(plan: Plan, spec: Spec) -> Spec:
    """The plan's own spec with the logs of another one, which must ask for the same tree and measures."""
    if asked(plan.spec) != asked(spec):
        of_plan, of_spec = (" > ".join(s.levels) for s in (plan.spec, spec))
        both = f"the plan has {of_plan}, the spec has {of_spec}"
        differ = "their domains or measures differ" if plan.levels == spec.levels else both
        raise InputError(f"a plan is simulated on the tree and the measures it was made for; {differ}: make a new plan")
    return plan.spec.model_copy(update={"logs": spec.logs})


def measure(part: MeasurePlan, tree: Tree, conversions: Profile, rng: Entropy | None = None) -> Measurements:
    """What a summary report would say of each node's sum of a measure, under the plan's limits."""
    sums = conversions.limited(part.measure, part.plan.most_of_heads(tree), part.clip)
    return Measurements.simulate(part.plan, tree, sums, rng)


def reported(plan: Plan, tree: Tree, devices: Devices) -> tuple[Floats, tuple[LevelLoss, ...]]:
    """What the reports of devices say of each node, in the tree's order, and what levels do not learn."""
    rules, logs = rules_of(plan.spec), plan.spec.logs
    assert rules is not None and logs is not None
    groups, losses = rules.by_level(plan, devices)
    table = leaves(plan.spec, logs, groups, Period()).table
    rows, sums = match(tree, table), np.zeros(len(tree))
    for level in range(tree.depth):
        leaf = floats(table, f"{AT}{level}", "the counts")[rows.leaf]
        each = tree.in_level_order.sum_up(np.bincount(rows.node[rows.leaf], leaf, len(tree)))
        sums[tree.slice(level)] = each[tree.slice(level)]
    return tree.from_level_order(sums), losses


def measured_prior(part: MeasurePlan, tree: Tree, earlier: Profile, prior: Prior, rng: Entropy | None = None) -> Prior:
    """What a report of the earlier period, measured by the same plan, would have said."""
    est = denoise(tree, measure(part, tree, earlier, rng))
    mean = np.asarray(est.count, np.float64)
    return replace(prior, mean=mean, variance=est.variance, protected=True, not_private=est.not_private)

"""run: from logs to counts that add up, end to end on this machine, as one call.

What browsers and the aggregation service would do is simulated: conversions are attributed and counted, the budget is
split, every node gets the noise that a summary report would have, and the noisy figures are denoised.

    run = attributary.run(Spec.load("spec.toml"), prior_until="2026-02-02")
    run.estimates["count"].table()
    run.save("out")
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attributary import rmsre
from attributary.denoising import Estimate, denoise
from attributary.errors import InputError, PrivacyRefusal
from attributary.estimates import IMPRESSIONS, USUAL, by_measure, estimates_table, known_above, noted, with_impressions
from attributary.estimators import Estimator
from attributary.logs.count import count
from attributary.logs.counts import Counts
from attributary.logs.engine import Engine
from attributary.logs.log_columns import Moment
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
from attributary.tables import write_table
from attributary.tables.table_columns import floats, mark
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Floats
from attributary.whole_files import was_stopped, whole_folder

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
        return inputs.with_impressions(self.impressions)

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
    spec = spec if ready is None else spec_of(ready, spec)
    table = None if prior is None else prior_table(prior)  # before minutes of counting: it may not be there
    stage("counting")
    before = None
    if prior_until is not None:
        before = count(spec, folder, since=since, until=prior_until, engine=engine).refuse_no_match()
        since = prior_until
    counts = count(spec, folder, since=since, until=until, engine=engine).refuse_no_match()
    stage("planning")
    tree = spec.tree(counts.table)
    expected = expect(spec, tree, before, None if prior is None else read_prior(spec, tree, prior, protected, table))
    plan = ready or plan_for(estimator, spec, tree, expected, method)
    generated = spec.logs is not None and any(map(is_generated, all_files(spec.logs, folder)))
    return simulate(plan, tree, expected, counts, before, estimator, confidence, rng, generated, stage)


def expect(spec: Spec, tree: Tree, before: Counts | None, prior: Prior | None = None) -> Prior:
    """What a plan is to expect: a prior that was read, or the counts of the period before, or nothing."""
    if prior is not None or before is None:
        return prior or none(tree)
    made = from_counts(tree, before.table, known=[attribute.name for attribute in spec.known], spec=spec)
    return replace(made, lost=made.lost + before.left_out)


def plan_for(estimator: Estimator, spec: Spec, tree: Tree, expected: Prior, method: str) -> Plan:
    """The plan that a method makes for what an estimator will make of its reports."""
    known = expected.profile
    learn = estimator.kind.plan if not why_not_learned(spec, expected, method, known) else False
    return make_plan(spec, tree, expected, method, profile=known, learn=learn)


def simulate(
    plan: Plan,
    tree: Tree,
    expected: Prior,
    counts: Counts,
    before: Counts | None,
    estimator: Estimator,
    confidence: float = USUAL,
    rng: Entropy | None = None,
    generated: bool = False,
    stage: Callable[[str], None] = lambda _: None,
) -> Run:
    """What a summary report by a plan would say of these counts, and its estimates."""
    stage("simulating a summary report")
    now, known = profile(tree, plan.spec, counts.table), expected.profile
    measures = {part.measure.name: measure(part, tree, now, rng) for part in plan.by_measure}
    stage("denoising")
    past = None
    if estimator.uses_prior and before is not None and known is not None:
        simulated = {p.measure.name: measured_prior(p, tree, known, expected, rng) for p in plan.by_measure}
        past = replace(expected, measures=simulated)
    elif estimator.uses_prior and expected.path:
        past = under_plan(expected, plan, tree)
    estimates = estimate_measures(plan, tree, measures, estimator, past, stage)
    truth = {part.measure.name: now.full(part.measure) for part in plan.by_measure}
    return Run(plan, tree, expected, counts, before, truth, estimates, confidence, generated)


def spec_of(plan: Plan, spec: Spec) -> Spec:
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


def measured_prior(part: MeasurePlan, tree: Tree, earlier: Profile, prior: Prior, rng: Entropy | None = None) -> Prior:
    """What a report of the earlier period, measured by the same plan, would have said."""
    est = denoise(tree, measure(part, tree, earlier, rng))
    mean = np.asarray(est.count, np.float64)
    return replace(prior, mean=mean, variance=est.variance, protected=True, not_private=est.not_private)


def check_earlier(folder: str, names: Collection[str], again: bool, there: Collection[str] | None = None) -> None:
    """Refuses to replace an earlier run unless that is wanted, and files that are not of a run at all.

    `there` are the files of these names in the folder, if it is not on this machine.
    """
    if there is None:
        there = [name for name in names if os.path.exists(os.path.join(folder, name))]
        there = [] if was_stopped(folder) else there
    if not there:
        return
    if "plan.json" not in there or not any(name.startswith("estimates.") for name in there):
        raise InputError(f"{folder} has a {min(there)} that is not of a run; choose another folder with `output`")
    if not again:
        raise PrivacyRefusal(
            f"{folder} holds an earlier run, and another one is a second release (2ε if both are published); "
            "add `again` to replace it, or choose another folder with `output`"
        )

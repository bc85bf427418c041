"""run: from logs to counts that add up, end to end on this machine, as one call.

What browsers and the aggregation service would do is simulated: conversions are attributed and counted, the budget is
split, every node gets the noise that a summary report would have, and the noisy figures are denoised.

    run = attributary.run(Spec.load("spec.toml"), prior_until="2026-02-02")
    run.estimates["count"].table()
    run.save("out")
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attributary import rmsre
from attributary.denoising import Estimate, denoise
from attributary.errors import InputError, PrivacyRefusal
from attributary.estimates import IMPRESSIONS, USUAL, by_measure, estimates_table, noted, with_impressions
from attributary.estimators import Estimator, refuse_estimator
from attributary.logs.count import Question, count
from attributary.logs.counts import Counts, leaves
from attributary.logs.devices import Devices, LevelLoss, rules_of
from attributary.logs.log_columns import Moment, Period
from attributary.logs.log_files import Engine, all_files, is_generated
from attributary.measurements import Measurements
from attributary.noise import Entropy
from attributary.pipeline.breakdowns import by_breakdown, in_one_table
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
from attributary.tables.table_columns import floats, mark, together
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Arrow, Floats
from attributary.whole_files import was_stopped, whole_folder

if TYPE_CHECKING:
    from attributary.report import ReportInputs

FORMATS = ("parquet", "csv")
TABLES = ("estimates", "ratios", "counts", "prior")
FILES = ("report.html", "plan.json", "plan.nodes.parquet", *(f"{name}.{end}" for name in TABLES for end in FORMATS))


class Simulated(NamedTuple):
    """One breakdown of a run: the prior that its plan was made for, its true sums, and its estimates."""

    tree: Tree
    prior: Prior
    truth: dict[str, Floats]  # of each measure the sums of nodes, as if there were no limits, in the tree's order
    estimates: dict[str, Estimate]  # by measure


@dataclass(frozen=True, eq=False)
class Run:
    """What a run came to; `counts`, `before` and `truth` are NOT protected, all else is.

    Of several breakdowns, each of `breakdowns` is a run of its own; their figures agree wherever two of them meet.
    """

    plan: Plan
    counts: Counts  # of the period that was measured
    before: Counts | None  # of the period before, which is the prior
    parts: tuple[Simulated, ...]  # one for each breakdown
    confidence: float  # of the intervals in tables and on the page
    generated: bool  # whether the rows of the logs were generated
    losses: tuple[LevelLoss, ...] = ()  # of each level, where browsers' budgets run out

    @cached_property
    def breakdowns(self) -> "tuple[Run, ...]":
        """A run for each breakdown: the run itself, where there is one."""
        if len(self.parts) == 1:
            return (self,)
        before = self.before.breakdowns if self.before else [None] * len(self.parts)
        each = zip(self.plan.parts, self.counts.breakdowns, before, self.parts, strict=True)
        return tuple(Run(plan, now, past, (part,), self.confidence, self.generated) for plan, now, past, part in each)

    @property
    def names(self) -> tuple[str, ...]:
        """What the breakdowns are called; the only one has no name."""
        return self.plan.names

    @property
    def only(self) -> Simulated:
        """What the run of one breakdown came to; an InputError that names them if there are several."""
        self.plan.only  # noqa: B018
        return self.parts[0]

    @property
    def tree(self) -> Tree:
        return self.only.tree

    @property
    def prior(self) -> Prior:
        """The prior that the plan was made for."""
        return self.only.prior

    @property
    def truth(self) -> dict[str, Floats]:
        """The sums of nodes by measure, as if there were no limits, in the tree's order."""
        return self.only.truth

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The estimates by measure."""
        return self.only.estimates

    @property
    def not_private(self) -> str:
        """Why the estimates are not private; nothing if they are."""
        return together(*(est.not_private for part in self.parts for est in part.estimates.values()))

    @cached_property
    def impressions(self) -> Floats | None:
        """The impressions of each node, in the tree's order; None where no attribute is known to an impression.

        An impression has no unknown attributes: nodes have all impressions with their known ones.
        """
        tree, known = self.tree, [attribute.name for attribute in self.plan.spec.known]
        if not known and not tree.total:
            return None
        rows, seen = match(tree, self.counts.table), floats(self.counts.table, IMPRESSIONS, "the counts")
        first = np.bincount(rows.node[rows.leaf], np.nan_to_num(seen[rows.leaf]), len(tree))
        each: Floats = tree.in_level_order.sum_up(first)
        for level, number in enumerate(tree.numbered(known)):
            here = tree.slice(level)
            each[here] = np.bincount(number, each[here])[number]
        return tree.from_level_order(each)

    @property
    def errors(self) -> dict[str, float]:
        """The error of this draw, by breakdown and measure: RMSRE_τ of the tree, what limits cut off included."""
        metric, made = self.plan.spec.weigh, dict[str, float]()
        for name, plan, (tree, _, truths, estimates) in zip(self.names, self.plan.breakdowns, self.parts, strict=True):
            for part, truth, est in zip(plan.by_measure, truths.values(), estimates.values(), strict=True):
                words = [name] * bool(name) + [part.measure.name] * (not name or len(truths) > 1)
                squares = np.square(est.count - truth)
                made[": ".join(words)] = rmsre.tree(tree, truth, squares, part.tau, metric=metric)
        return made

    @cached_property
    def tables(self) -> dict[str, Arrow]:
        """The Arrow tables: estimates, ratios where there are counts and values, counts, and prior if there was one.

        Those of several breakdowns stand below each other, told apart by the column `breakdown`.
        """
        if len(self.parts) > 1:
            each = [run.tables for run in self.breakdowns]
            return {name: in_one_table(self.plan.spec, [tables[name] for tables in each]) for name in each[0]}
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
        """The page that shows plan and estimates, as HTML that needs nothing else; it names these files.

        Of several breakdowns, it has a switch.
        """
        from attributary.report import ReportInputs, page

        each = {name: replace(run.shown, files=files) for name, run in zip(self.names, self.breakdowns, strict=True)}
        if len(each) == 1:
            return page(each[""]).html
        return page(ReportInputs(not_private=self.not_private, generated=self.generated, breakdowns=each)).html

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
    so. `stage` is told what comes next. Of a spec with several breakdowns, `Run.breakdowns` has a run for each.
    """
    asked = Request.of(spec, folder, prior, prior_until, protected, plan, estimator)
    stage("counting")
    before = None
    if prior_until is not None:
        before = count(asked.spec, asked.folder, since=since, until=prior_until, engine=engine).refuse_no_match()
        since = prior_until
    counts = count(asked.spec, asked.folder, since=since, until=until, engine=engine).refuse_no_match()
    return asked.run(counts, before, method, confidence, rng, stage)


class Request(NamedTuple):
    """What a run is asked for, besides its periods and its engine."""

    spec: Spec
    folder: str
    prior: str | None
    protected: bool
    earlier: Any  # the table of the prior, if it is a file
    plan: Plan | None
    estimator: Estimator

    @classmethod
    def of(
        cls,
        spec: Spec | str,
        folder: str | None,
        prior: str | None,
        prior_until: Moment | None,
        protected: bool,
        plan: Plan | str | None,
        estimator: Estimator | str,
    ) -> "Request":
        """The files read, and refused where they do not go together."""
        refuse_two_priors(prior, prior_until, protected)
        if isinstance(spec, str):
            folder, spec = os.path.dirname(spec) if folder is None else folder, Spec.load(spec)
        chosen = Estimator(estimator) if isinstance(estimator, str) else estimator
        ready = Plan.load(plan) if isinstance(plan, str) else plan
        spec = spec if ready is None else spec_of(ready, spec)
        table = None if prior is None else prior_table(prior)  # before minutes of counting: it may not be there
        if len(spec.parts) > 1:
            refuse_estimator(chosen)
        return cls(spec, folder or ".", prior, protected, table, ready, chosen)

    @property
    def generated(self) -> bool:
        """Whether the rows of the logs were generated."""
        return self.spec.logs is not None and any(map(is_generated, all_files(self.spec.logs, self.folder)))

    def questions(
        self, engine: Engine, since: Moment | None, until: Moment | None, prior_until: Moment | None
    ) -> tuple[Question, ...]:
        """What is asked of the logs: of the period and, if these tell the prior, of the one before."""
        periods = [(since, until)] if prior_until is None else [(prior_until, until), (since, prior_until)]
        return tuple(Question.of(self.spec, self.folder, *period, engine) for period in periods)

    def known(self, counts: Counts, before: Counts | None) -> "list[Known]":
        """What is known of each breakdown before it is measured."""
        spec, parts = self.spec, len(self.spec.parts)
        earlier = [None] * parts if self.earlier is None else by_breakdown(spec, self.earlier, str(self.prior))
        each = zip(spec.parts, counts.breakdowns, before.breakdowns if before else [None] * parts, earlier, strict=True)
        return [Known.of(part, now, past, self.prior, self.protected, rows) for part, now, past, rows in each]

    def run(
        self,
        counts: Counts,
        before: Counts | None,
        method: str,
        confidence: float,
        rng: Entropy | None,
        stage: Callable[[str], None],
    ) -> Run:
        """Plan, report and estimates of these counts."""
        stage("planning")
        before = before and replace(before, devices=None)
        known = self.known(counts, before)
        made = self.plan or plan_for(self.spec, known, self.estimator, method)
        parts, losses = simulate(made, known, self.estimator, rng, self.prior is not None, stage)
        counts = replace(counts, devices=None)  # which may be large
        return Run(made, counts, before, parts, confidence, self.generated, losses)


def refuse_two_priors(prior: str | None, prior_until: Moment | None, protected: bool) -> None:
    """Refuses a prior from a file beside one from the logs, and words on one that there is not."""
    if protected and prior is None:
        raise InputError("`protected` describes the counts in `prior`; give those, or leave it out")
    if prior is not None and prior_until is not None:
        raise InputError("the prior is a file, or the impressions before a time; got both: leave one of them out")


def plan_for(spec: Spec, known: "Sequence[Known]", estimator: Estimator, method: str) -> Plan:
    """The plan that a method makes for what an estimator will make of its reports."""
    k = known[0]
    learn = estimator.kind.plan if not why_not_learned(spec, k.expected, method, k.profile) else False
    trees, priors, profiles = zip(*((k.tree, k.expected, k.profile) for k in known), strict=True)
    return make_plan(spec, trees, priors, method, profile=profiles, learn=learn)


def simulate(
    made: Plan,
    known: "Sequence[Known]",
    estimator: Estimator,
    rng: Entropy | None,
    from_file: bool,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[tuple[Simulated, ...], tuple[LevelLoss, ...]]:
    """What a summary report by a plan would say of these counts, and its estimates, of each breakdown."""
    stage("simulating a summary report")
    now = [profile(k.tree, k.spec, k.counts.table) for k in known]
    losses: tuple[LevelLoss, ...] = ()
    devices, first = known[0].counts.devices, known[0]
    if devices is not None and not made.parts:
        told, losses = reported(made, first.tree, devices)
        measures = [{p.measure.name: Measurements.simulate(p.plan, first.tree, told, rng) for p in made.by_measure}]
    else:
        measures = [
            {part.measure.name: measure(part, k.tree, sums, rng) for part in one.by_measure}
            for one, k, sums in zip(made.breakdowns, known, now, strict=True)
        ]
    stage("denoising")
    past = None if made.parts else first.under(made, from_file, estimator, rng)
    estimates = estimate_measures(made, [k.tree for k in known], measures, estimator, past, stage)
    parts = []
    for k, one, sums, est in zip(known, made.breakdowns, now, estimates, strict=True):
        truth = {part.measure.name: sums.full(part.measure) for part in one.by_measure}
        parts.append(Simulated(k.tree, k.expected, truth, est))
        if losses:
            (share,) = one.by_measure
            name, tau = share.measure.name, share.tau
            noise = rmsre.levels(k.tree, truth[name], est[name].variance, tau, metric=one.spec.weigh)
            errors = dict(zip(k.tree.level_names, noise.tolist(), strict=True))
            losses = tuple(loss._replace(noise=errors[loss.level]) for loss in losses)
    return tuple(parts), losses


class Known(NamedTuple):
    """One breakdown, and what is known of it before it is measured."""

    spec: Spec
    counts: Counts
    before: Counts | None
    tree: Tree
    expected: Prior

    @classmethod
    def of(
        cls, spec: Spec, counts: Counts, before: Counts | None, prior: str | None, protected: bool, table: Arrow
    ) -> "Known":
        tree, names = spec.tree(counts.table), [attribute.name for attribute in spec.known]
        if prior is not None:
            expected = read_prior(spec, tree, prior, protected, table)
        elif before is not None:
            expected = from_counts(tree, before.table, known=names, spec=spec)
            expected = replace(expected, lost=expected.lost + before.left_out)
        else:
            expected = none(tree)
        return cls(spec, counts, before, tree, expected)

    @property
    def profile(self) -> Profile | None:
        known: Profile | None = self.expected.profile
        return known

    def under(self, plan: Plan, from_file: bool, estimator: Estimator, rng: Entropy | None) -> Prior | None:
        """The prior as estimators see it: as the plan's limits count it, or measured by the plan."""
        expected, known = self.expected, self.profile
        if from_file and estimator.uses_prior:
            return under_plan(expected, plan, self.tree)
        if known is None or not estimator.uses_prior:
            return None
        simulated = {p.measure.name: measured_prior(p, self.tree, known, expected, rng) for p in plan.by_measure}
        return replace(expected, measures=simulated)


def spec_of(plan: Plan, spec: Spec) -> Spec:
    """The plan's own spec with the logs of another one, which must ask for the same tree and measures."""
    domains = {attribute.name: attribute.labels for attribute in plan.spec.unknown}
    spec = spec.with_values(lambda name: domains.get(name, ()))
    if [asked(part) for part in plan.spec.parts] != [asked(part) for part in spec.parts]:
        of_plan, of_spec = (" and ".join(" > ".join(part.levels) for part in s.parts) for s in (plan.spec, spec))
        both = f"the plan has {of_plan}, the spec has {of_spec}"
        differ = "their domains or measures differ" if of_plan == of_spec else both
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

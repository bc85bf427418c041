"""denoise_summary: summary reports, denoised by the plan that their reports were made by.

>>> measured = Measurements.from_summary(plan, "summary.avro", tree)         # one measure
>>> denoise_summary(plan, ["summary.avro"], tree).table                      # all of them, as a table of estimates
"""

from collections.abc import Callable, Sequence
from typing import Any

from attributary import api
from attributary.denoising import Estimate
from attributary.errors import InputError
from attributary.estimates import by_measure, estimates_table, noted
from attributary.estimators import Estimator
from attributary.pipeline.denoise_table import Denoised
from attributary.pipeline.level_columns import refused
from attributary.pipeline.read_prior import EarlierPeriod, past_of_parts
from attributary.plan import Plan
from attributary.tables.not_private import mark, together
from attributary.tree import Tree


def denoise_summary(
    plan: Plan,
    summaries: Sequence[str],
    tree: Tree,
    *,
    estimator: Estimator | None = None,
    prior: str | None = None,
    protected: bool = False,
    noise: str | None = None,
    confidence: float = 0.95,
    name: str = "the plan",
    stage: Callable[[str], None] = lambda _: None,
) -> Denoised:
    """What the reports say of each node that was queried, and the estimates: a table with a row per node and measure.

    `summaries` are files or folders; several reports hold different conversions, and add up. `prior` is the file of an
    earlier period, for the estimator `learned`; exact counts in it mark the result as not private, unless they were
    `protected` themselves. `noise`, as in "api:epsilon=4", is that of reports which do not state
    it, if it is not the plan's. `name` is what messages call the plan.
    """
    chosen = estimator or Estimator("unbiased" if prior is None else "learned")
    chosen.refuse_unused(prior, protected)
    answer = api.answer(plan, summaries, tree, None if noise is None else _rate(noise, plan), name)
    past = None if prior is None else past_of_parts(plan, tree, prior, protected)
    if past is not None:
        past.refuse_today(*answer.measures.values())
    stage("denoising")
    with refused(summaries[0]):
        estimates = estimate_measures(plan, tree, answer.measures, chosen, past, stage)
    notes = [*answer.notes, *([] if past is None else past.notes)]
    for number, (measure, est) in enumerate(estimates.items()):
        notes += [] if past is None else past.far(number, measure, tree, est.count)
    if chosen.kind.values and plan.spec.values:
        notes += [f"--estimator {chosen.name} is for counts; values are estimated by {chosen.kind.values}"]
    if chosen.whole and plan.spec.values:
        notes += ["whole numbers are for counts; values are left as they are"]
    table = by_measure({measure: estimates_table(est, confidence) for measure, est in estimates.items()})
    table = noted(table, largest=plan.largest)
    not_private = together(*(measured.not_private for measured in answer.measures.values()))
    marked = mark(table, not_private, "" if past is None else past.not_private)
    return Denoised(marked, estimates, notes, misfit="" if past is None else past.of[0].misfit(tree))


def estimate_measures(
    plan: Plan,
    tree: Tree,
    measures: Any,
    estimator: Estimator,
    past: EarlierPeriod | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> dict[str, Estimate]:
    """The estimate of each measure of a plan, from its Measurements by name; only counts are made whole."""
    estimates = {}
    for number, part in enumerate(plan.by_measure):
        chosen = estimator if part.measure.is_count else estimator.for_values
        estimates[part.measure.name] = chosen.denoise(
            tree,
            measures[part.measure.name],
            earlier=None if past is None else past.of[number],
            tau=part.tau,
            worth=part.share.worth,
            stage=stage,
        )
    return estimates


def _rate(noise: str, plan: Plan) -> tuple[float, int]:
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

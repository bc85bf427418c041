"""OpenDP answers each level of a tree with the budget that Attributary planned, and the answers are made to add up.

    python -m examples.opendp_levels        # needs opendp[polars] beside attributary; `make test-peers` runs it

The conversions are generated. OpenDP sees them, and nothing else does: the plan is made from an earlier period, which
is taken to be public here, and the estimates from OpenDP's answers.
"""

from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from attributary import Estimate, Measurements, Plan, Spec, denoise, make_plan
from attributary.prior import from_counts

SPEC = Spec.parse("""
epsilon = 0.5
tau = 1000           # errors of counts below are judged as if they were 1000
noise = "unit"       # discrete Laplace noise on whole counts, as OpenDP's dp.len() has
[[attribute]]
name = "campaign"
[[attribute]]
name = "city"
[[attribute]]
name = "day"
unknown = true
domain = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
""")
CITIES = [f"city {i}" for i in range(20)]
STATED = {"Integer Laplace": ("dlap:rate", lambda scale: 1 / scale)}  # as summarize() says it, as denoise takes it


def period(seed: int) -> pl.DataFrame:
    """Generated conversions of one period, a row for each."""
    rng = np.random.default_rng(seed)
    campaign = rng.choice(["autumn", "brand", "winter"], 40_000, p=[0.7, 0.25, 0.05])
    day = rng.choice(SPEC.attributes[2].labels, 40_000, p=[0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.3])
    return pl.DataFrame({"campaign": campaign, "city": rng.choice(CITIES, 40_000), "day": day})


def planned(earlier: pl.DataFrame) -> tuple[Any, Plan]:
    """The tree that is queried, and the split of the budget that is best if counts stay as they were."""
    attributes = [attribute.name for attribute in SPEC.attributes]
    counts = earlier.group_by(*attributes).len("conversions").sort(*attributes)
    tree = SPEC.tree(counts)
    return tree, make_plan(SPEC, tree, from_counts(tree, counts))


def answers(conversions: pl.DataFrame, tree: Any, plan: Plan) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """A table with a row for each node that is measured, and what OpenDP says of the noise of each level."""
    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=conversions.lazy(),
        privacy_unit=dp.unit_of(contributions=1),  # one conversion; plan and guarantee hold for that
        privacy_loss=dp.loss_of(epsilon=SPEC.epsilon),
        split_by_weights=[each for each in plan.epsilon() if each > 0],
    )
    nodes = pl.from_arrow(tree.table())
    tables, noise = [], []
    for level in _measured(plan):
        number = plan.levels.index(level)
        by = list(plan.levels[: number + 1])
        keys = nodes.filter(pl.col("level") == number).select(pl.col(by).cast(pl.String))
        query = context.query().group_by(*by).agg(dp.len(signed=True)).with_keys(keys.lazy())
        noise.append(query.summarize())
        tables.append(query.release().collect())
    return pl.concat(tables, how="diagonal").select(*plan.levels, "len"), noise


def consistent(table: pl.DataFrame, noise: list[pl.DataFrame], plan: Plan) -> Estimate:
    """The counts that add up, from the answers and the noise that OpenDP states."""
    (kind,) = {summary["distribution"][0] for summary in noise}
    name, parameter = STATED[kind]
    rates = {level: parameter(summary["scale"][0]) for level, summary in zip(_measured(plan), noise, strict=True)}
    each = ",".join(str(rates.get(level, 0.0)) for level in plan.levels)  # a rate of 0: not measured
    return denoise(Measurements.from_table(table, list(plan.levels), "len", noise=f"{name}={each}"))


def _measured(plan: Plan) -> list[str]:
    """The levels that have a part of the budget; others are summed from those below."""
    return [level for level, epsilon in zip(plan.levels, plan.epsilon(), strict=True) if epsilon > 0]


def main() -> None:
    tree, plan = planned(period(1))
    table, noise = answers(period(2), tree, plan)
    estimate = consistent(table, noise, plan)
    for level, epsilon in zip(plan.levels, plan.epsilon(), strict=True):
        print(f"{level}: ε = {epsilon:.3f}")
    print(estimate)
    print(estimate.frame().head(5))


if __name__ == "__main__":
    main()

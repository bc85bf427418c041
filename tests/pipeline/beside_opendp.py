"""OpenDP's Polars context answers a plan's levels. `make test-peers` runs it: OpenDP pins another polars than ours."""

import numpy as np
import polars as pl
from examples import opendp_levels as recipe

from attributary import denoise, make_plan


def test_opendp_answers_each_level_with_the_budget_that_was_planned() -> None:
    tree, plan = recipe.planned(recipe.period(1))
    conversions = recipe.period(2)
    table, noise = recipe.answers(conversions, tree, plan)
    assert all(epsilon > 0 for epsilon in plan.epsilon()) and len(noise) == len(plan.levels) == 3
    for epsilon, summary in zip(plan.epsilon(), noise, strict=True):
        assert summary["distribution"].to_list() == ["Integer Laplace"]
        np.testing.assert_allclose(summary["scale"][0], 1 / epsilon, rtol=1e-6)
    assert len(table) == len(tree)
    estimate = recipe.consistent(table, noise, plan)
    np.testing.assert_allclose(np.sort(estimate.measurements.variance), np.sort(plan.variance(tree)), rtol=1e-6)
    assert abs(estimate.fit.z) < 5

    truth = conversions.group_by("campaign", "city", "day").len("true")
    leaves = (
        estimate.frame().filter(pl.col("day").is_not_null()).join(truth, on=["campaign", "city", "day"], how="left")
    )
    off = (leaves["estimate"] - leaves["true"].fill_null(0)).to_numpy() / np.sqrt(leaves["variance"].to_numpy())
    assert abs(np.mean(off**2) - 1) < 0.5  # as stated
    sums = estimate.tree.roll_up(estimate.count[estimate.tree.leaves])
    np.testing.assert_allclose(sums, estimate.count, rtol=1e-9, atol=1e-9)
    assert (estimate.variance < estimate.measurements.variance).all()


def test_levels_without_a_budget_are_summed_from_those_below() -> None:
    tree, plan = recipe.planned(recipe.period(1))
    only_days = make_plan(plan.spec, tree, method="leaves")
    table, noise = recipe.answers(recipe.period(2), tree, only_days)
    assert len(noise) == 1 and set(table.columns) == {"campaign", "city", "day", "len"}
    estimate = recipe.consistent(table, noise, only_days)
    days = denoise(estimate.measurements).measurements.variance < np.inf
    assert days.sum() == len(table) < len(estimate.tree)

"""Suppressed cells: a bound is a measurement, so that what is not known is wide, and never infinite."""

import numpy as np
import pytest

from attributary import Measurements, denoise
from attributary.errors import InputError
from attributary.pipeline.denoise_table import denoise_table
from attributary.pipeline.table_form import recognise
from attributary.tables import Format
from attributary.tables.number_form import parse_suppression
from attributary.tree import Tree


@pytest.mark.parametrize(
    ("text", "cell", "low", "high"),
    [
        ("<5", "<5", 0, 4),
        (" < 10", "< 10", 0, 9),
        ("<=5", "<=5", 0, 5),
        ("≤5", "≤5", 0, 5),
        ("1-4", "1-4", 1, 4),
        ("1 – 4", "1 – 4", 1, 4),
        ("<5=1..4", "<5", 1, 4),
        ("*=0..9", "*", 0, 9),
        ("a=b=2-3", "a=b", 2, 3),
        ("<1", "<1", 0, 0),
        ("n/a", "n/a", None, None),
        ("-", "-", None, None),
        (">5", ">5", None, None),
    ],
)
def test_a_text_states_its_bound(text: str, cell: str, low: float | None, high: float | None) -> None:
    assert parse_suppression(text) == (cell, low, high)


@pytest.mark.parametrize(
    ("text", "reason"), [("  ", "has a text"), ("*=4..1", "from low to high"), ("<0", "not below")]
)
def test_other_bounds_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        parse_suppression(text)


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 4), (3, 3), (0, 99)])
def test_the_variance_is_that_of_a_uniform_choice(low: int, high: int) -> None:
    each = parse_suppression(f"*={low}..{high}")
    values = np.arange(low, high + 1)
    assert (each.middle, each.variance) == pytest.approx((values.mean(), values.var()))


def half_years(hidden: dict[int, str]) -> dict[str, list[str | None]]:
    """A store with a total and twelve months, some of them suppressed; its second half year less the first."""
    months = [hidden.get(i, str(20 + i)) for i in range(12)]
    return {"store": ["A"] * 13, "month": [None, *(f"{i:02}" for i in range(12))], "n": ["306", *months]}


def test_a_difference_over_two_suppressed_cells_is_finite() -> None:
    frame = half_years({2: "<5", 9: "<5"})
    weights = np.array([0.0, *([-1.0] * 6), *([1.0] * 6)])
    given = {"frame": frame, "levels": ["store", "month"], "value": "n", "noise": "laplace:scale=2"}
    est = denoise(Measurements.from_table(**given))
    change = est.total(weights)
    assert change.variance < 12 * 8 + 2 * 2 + 1e-9 and np.isfinite(change.interval()).all()
    low, high = est.interval()
    assert ((high - low) < 15).all()
    unknown = denoise(Measurements.from_table(**given, suppressed=["<5=0..4"])).total(weights)
    assert unknown == change
    hidden = {**given, "frame": half_years({2: "n/a", 9: "n/a"})}
    assert denoise(Measurements.from_table(**hidden, suppressed=["n/a"])).total(weights).variance == np.inf


def test_intervals_hold_the_counts_whose_noisy_figures_were_suppressed() -> None:
    rng = np.random.default_rng(5)
    tree = Tree.from_parents([-1] + [0] * 2000)
    count = np.append(0.0, rng.poisson(4, 2000))
    count[0] = count[1:].sum()
    noisy = count + np.rint(rng.laplace(0, 2, len(tree)))
    cells = ["<5" if i and x < 5 else f"{x:.0f}" for i, x in enumerate(noisy)]
    paths = {"a": ["x"] * 2001, "b": [None, *map(str, range(2000))], "n": cells}
    est = denoise(Measurements.from_table(paths, ["a", "b"], "n", noise="laplace:scale=2,rounded"))
    low, high = est.interval(0.95)
    hidden = np.array([cell == "<5" for cell in cells])
    assert hidden.sum() > 500 and ((low <= count) & (count <= high))[hidden].mean() > 0.93


def test_a_blank_variance_of_a_suppressed_cell_is_its_bound_alone() -> None:
    frame = {"a": ["x", "y"], "n": ["<5", "7"], "v": ["", "2"]}
    measured = Measurements.from_table(frame, ["a"], "n", variance="v")
    np.testing.assert_array_equal(measured.variance, [2.0, 2.0])
    np.testing.assert_array_equal(measured.noisy, [2.0, 7.0])


@pytest.mark.parametrize("given", [{"suppressed": ["<6"]}, {"suppressed": ["x"]}, {"empty": "none"}])
def test_what_is_not_there_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InputError, match="no cell of n is|empty cells are unmeasured or zero"):
        recognise({"a": ["x", "y"], "n": ["<5", "7"]}, ["a"], "n", **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no cell of n is|empty cells are unmeasured or zero"):
        recognise({"a": ["x", "y"], "n": [5.0, 7.0]}, ["a"], "n", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["noisy", "n"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_table_keeps_its_bounds_as_text_and_has_numbers_where_a_report_looks(value: str, format: Format) -> None:
    frame = {"a": ["x", "y", "z"], value: ["<5", "7", "1,5"]}
    made = denoise_table(frame, ["a"], value, variance=1.0, fill=True).written(format)
    assert made.column("noisy").to_pylist() == [2.0, 7.0, 1.5]
    assert made.column("noise_variance").to_pylist() == [3.0, 1.0, 1.0]
    plain = denoise_table({"a": ["x", "y"], "n": ["<5", "7"]}, ["a"], "n", variance=1.0).written(format)
    assert plain.column("n").to_pylist() == (["<5", "7"] if format == "csv" else [None, 7.0])

"""valued: the values of conversions as SQL: whole millionths, and the step that each is in.

Steps are there to tell what clipping does: all values of one are clipped, or none is. Where the spec says at what,
there are two; where the plan is to choose, twenty from one power of ten to the next.
"""

from math import ceil, floor, log10
from typing import NamedTuple

from attributary.logs.blanks import listed
from attributary.logs.column import Log, found, number, present
from attributary.spec import Measure, Spec
from attributary.spec.measure import MICRO, REPORTS

ABSENT, NOT_POSITIVE = -2, -1  # the steps of values that are missing, and of those that are 0 or less
PER_TEN = 20


class Valued(NamedTuple):
    """Blanks of the SQL files."""

    micros: dict[str, str]  # the values
    got: str  # values and steps, of conversions
    steps: str
    sums: str
    no_values: str
    all_sums: str
    no_sums: str


def valued(spec: Spec, log: Log, condition: str = "TRUE") -> Valued:
    """The values of all measures; where the condition does not hold, there are none."""
    names = {f"value_{k}": measure for k, measure in enumerate(spec.values)}
    micros = {name: _micros(_number(log, m.source)) for name, m in names.items()}
    got = [f"CASE WHEN {condition} THEN {name} END AS {name}" for name in names]
    got += [f"CASE WHEN {condition} THEN {_step(name, m)} END AS step_{name}" for name, m in names.items()]
    steps = [f"step_{name}" for name in names]
    return Valued(
        micros,
        listed(got),
        listed(steps),
        listed(f"CAST(SUM({name}) AS BIGINT) AS sum_{name}" for name in names),
        listed(f"NULL AS {step}" for step in steps),
        listed(f"sum_{name}" for name in names),
        listed(f"NULL AS sum_{name}" for name in names),
    )


def most(spec: Spec) -> int:
    """The last rank that is told apart."""
    limit = spec.conversions_per_impression
    return limit if isinstance(limit, int) else REPORTS


def step_of(measure: Measure, micro: int) -> int:
    """The step that a value of so many millionths is in."""
    if measure.limit is not None:
        return int(micro >= round(measure.limit * MICRO))
    return floor(PER_TEN * log10(micro))


def begins(measure: Measure, step: int) -> int:
    """The least value of a step, in millionths."""
    if step <= 0:
        return 0
    return round(measure.limit * MICRO) if measure.limit is not None else ceil(10 ** (step / PER_TEN))


def _number(log: Log, name: str) -> str:
    """The column as a number; nan is left to what comes after."""
    column, kind = found(log, name)
    return f"CAST({present(log, column, kind)} AS DOUBLE)" if kind in ("whole", "number") else number(log, name)


def _micros(value: str) -> str:
    """A number in whole millionths; nan, ∞ and what 64 bits cannot hold are missing.

    Without TRY_, DuckDB would fail on nan: Parquet's statistics do not tell of it, and a check for it is left out.
    """
    return f"TRY_CAST(ROUND({value} * {MICRO}) AS BIGINT)"


def _step(value: str, measure: Measure) -> str:
    if measure.limit is not None:
        inside = f"CASE WHEN {value} >= {round(measure.limit * MICRO)} THEN 1 ELSE 0 END"
    else:
        inside = f"CAST(FLOOR({PER_TEN} * LOG10(CAST({value} AS DOUBLE))) AS INT)"
    return f"CASE WHEN {value} IS NULL THEN {ABSENT} WHEN {value} <= 0 THEN {NOT_POSITIVE} ELSE {inside} END"

"""target: the error that is asked for, at an attribute, a measure or the total.

[[attribute]]
name = "campaign"
error = 0.02           # RMSRE of the level; "equal": no worse than under an equal split
half_width = 0.05      # instead: half of the 95 % interval, relative to the count, of counts of at least tau
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import Field, PlainValidator

from attributary.spec.mistakes import Mistake, Section

EQUAL, NONE = "equal", "none"
GUARD = 2.0  # times its error under an equal split: the most that a level may have, unless the spec says otherwise


def _error(value: Any) -> float | str:
    if value == EQUAL:
        return EQUAL
    return _part(value)


def _part(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError


def guard_of(value: Any) -> float | str:
    """A guard: a number, 1 or more, or none; a pydantic validator."""
    if value == NONE:
        return NONE
    if _part(value) >= 1:
        return float(value)
    raise ValueError


class Targets(Section):
    """A part of a spec that may ask for an error."""

    error: Annotated[float | str, PlainValidator(_error)] | None = Field(
        default=None,
        description='the error to keep within, above 0, as in error = 0.05 for 5 %; or "equal", that of an equal split',
    )
    half_width: Annotated[float, PlainValidator(_part)] | None = Field(
        default=None,
        description="half of the 95 % interval of counts of at least tau, relative to the count, above 0, as in 0.05",
    )

    @classmethod
    def mistakes(cls, given: dict[str, Any]) -> Iterator[Mistake]:
        if given.get("error") is not None and given.get("half_width") is not None:
            yield Mistake("half_width", "a target is an error or a half-width; got both: keep one of them")


class TotalTarget(Targets):
    """The section [total]: a node above the first attribute, with the error asked for."""


class Target(NamedTuple):
    """The error asked for at a level or of a measure."""

    name: str
    error: float | str | None  # RMSRE, or "equal"
    half_width: float | None


def targets_of(sections: Iterable[tuple[str, Targets]]) -> tuple[Target, ...]:
    """The targets of sections by name, those that have one."""
    each = (Target(name, section.error, section.half_width) for name, section in sections)
    return tuple(target for target in each if target.error is not None or target.half_width is not None)

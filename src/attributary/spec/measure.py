"""Measure: what is added up over conversions: their number, or a value of theirs, such as revenue."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, PlainValidator

from attributary import types
from attributary.spec.mistakes import Mistake, Section
from attributary.types import Record

# target: the error that is asked for, at an attribute, a measure or the total.
#
# [[attribute]]
# name = "campaign"
# error = 0.02           # RMSRE of the level; "equal": no worse than under an equal split
# half_width = 0.05      # instead: half of the 95 % interval, relative to the count, of counts of at least tau

EQUAL, NONE = "equal", "none"
GUARD = 2.0  # times its error under an equal split: the most that a level may have, unless the spec says otherwise


def _error(value: object) -> float | str:
    return EQUAL if value == EQUAL else _part(value)


def _part(value: object) -> float:
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
    def mistakes(cls, given: Record) -> Iterator[Mistake]:
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


COUNT = types.COUNT  # is 1 for every conversion
AUTO = "auto"
MICRO = 1_000_000  # values are added up in whole millionths, so that all engines agree
LARGEST = 1e9  # of what a value may be clipped at: sums in millionths stay within 64 bits
REPORTS = 20  # that a browser sends for one impression
OF_VALUES = ("column", "refunds", "clip", "unit", "tau")
BEYOND, FROM = "_beyond", "_from"  # what limits cut off a measure; where the values of a row begin
AT = "conversions_at_"  # columns of what is reported where an API's budgets pay for so many conversions
ADDED = {"measure", "rank", "conversions" + BEYOND}  # columns of our tables besides those of counts alone


def _clip(value: Any) -> int | float | str:
    """Where values are clipped: a number of millionths, 1 or more, or that the plan chooses."""
    if value == AUTO:
        return AUTO
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 1 <= value * MICRO <= LARGEST * MICRO:
        return value  # type: ignore[no-any-return]
    raise ValueError


def _name(text: str) -> str:
    if text != text.strip() or not text:
        raise ValueError
    return text


class Measure(Targets):
    """A sum over conversions: of 1 (`count`), or of a column's values, each clipped at `clip`."""

    name: Annotated[str, AfterValidator(_name)] = Field(description='"count", or a name for a value, as in "revenue"')
    column: str | None = Field(
        default=None, min_length=1, description="the column of the conversions that has the value, if not the name"
    )
    refunds: bool | None = Field(
        default=None, description="true adds up the values below 0, as positive numbers; all others add 0"
    )
    clip: Annotated[int | float | str, PlainValidator(_clip)] | None = Field(
        default=None,
        description='the most that one conversion counts, a number above 0 and up to 1e9, or "auto", as the plan says',
    )
    unit: str | None = Field(default=None, min_length=1, description='what the value is in, as in "EUR"')
    weight: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="how much its errors weigh beside other measures', above 0"
    )
    tau: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="the sum below which its errors stop being relative, above 0",
    )

    @classmethod
    def mistakes(cls, given: Record) -> Iterator[Mistake]:
        yield from super().mistakes(given)
        for key in OF_VALUES if given.get("name") == COUNT else ():
            if given.get(key) is not None:
                yield Mistake(key, f"is of a value; {COUNT!r} is the number of conversions: leave it out, or rename it")

    @property
    def is_count(self) -> bool:
        return self.name == COUNT

    @property
    def called(self) -> str:
        """Its name in a sentence."""
        return called(self.name)

    @property
    def source(self) -> str:
        """The column of its values."""
        return self.column or self.name

    @property
    def sign(self) -> int:
        """What its values are multiplied with: -1 for refunds, which are below 0 where they come from."""
        return -1 if self.refunds else 1

    @property
    def told_apart_by(self) -> tuple[str, ...]:
        """What decides how its sums are to be read, for the fingerprint of a plan."""
        return ("refunds",) * bool(self.refunds)

    @property
    def limit(self) -> float | None:
        """Where a value is clipped, 1 for counts; None where the plan chooses."""
        if self.is_count:
            return 1.0
        return None if self.clip in (None, AUTO) else float(self.clip)


def called(name: str) -> str:
    """A measure's name in a sentence: counts are of conversions."""
    return "conversions" if name == COUNT else name


def wrong_measures(
    measures: object, names: list[object], taken: set[str], values: bool, limited: bool
) -> Iterator[Mistake]:
    """What is wrong between measures, and between them and the rest of a spec."""
    listed = [_fields(measure) for measure in measures] if isinstance(measures, list | tuple) else []
    given = [field.get("name") for field in listed]
    clashing = ADDED | {f"{name}{end}" for name in given for end in (BEYOND, FROM)}
    for i, name in enumerate(given):
        if name in given[:i]:
            rule = f"measures are named once each; {name!r} is the name of measure[{given.index(name) + 1}] too"
            yield Mistake(("measure", i, "name"), rule)
        if name in names:
            yield Mistake(("measure", i, "name"), f"{name!r} is the name of an attribute; rename the measure")
        if isinstance(name, str) and (name in taken | ADDED or name == f"conversions{FROM}"):
            yield Mistake(("measure", i, "name"), f"{name!r} is the name of a column that our tables add; rename it")
    if listed or limited:
        for i, name in enumerate(names):
            if isinstance(name, str) and name in clashing:
                yield Mistake(
                    ("attribute", i, "name"), f"{name!r} is the name of a column that our tables add; rename it"
                )
    if not values and any(name != COUNT for name in given):
        yield Mistake("noise", 'values are scaled, as in the API; take noise = "api", or count conversions alone')


def _fields(measure: object) -> Record:
    if isinstance(measure, Measure):
        return {"name": measure.name}
    return measure if isinstance(measure, dict) else {}


def most(value: object) -> int | Literal["auto"]:
    """How many conversions of an impression count: from 1 to as many as a browser reports, or as the plan says."""
    if value == AUTO:
        return AUTO  # type: ignore[return-value]
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= REPORTS:
        return value
    raise ValueError

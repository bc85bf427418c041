"""Measure: what is added up over conversions: their number, or a value of theirs, such as revenue."""

from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, PlainValidator

from attributary import types
from attributary.spec.mistakes import Mistake, Name, Positive, Section, titled, twice
from attributary.types import Record

# target: the error that is asked for, at an attribute, a measure or the total.
#
# [[attribute]]
# name = "campaign"
# error = 0.02           # RMSRE of the level; "equal": no worse than under an equal split
# half_width = 0.05      # instead: half of the 95 % interval, relative to the count, of counts of at least tau

EQUAL, NONE, AUTO = "equal", "none", "auto"
GUARD = 2.0  # times its error under an equal split: the most that a level may have, unless the spec says otherwise


def number_or(word: str, least: float = 0.0, most: float = float("inf"), kind: type = float) -> PlainValidator:
    """A validator of a number above 0, from the least to the most that it may be, or of a word in its place.

    Numbers become floats; those of kind `int` are whole, and those of kind `object` stay as they are.
    """

    def checked(value: Any) -> Any:
        number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        if value == word or (number and 0 < value < float("inf") and least <= value <= most):
            return float(value) if number and kind is float else value
        raise ValueError

    return PlainValidator(checked)


class Targets(Section):
    """A part of a spec that may ask for an error."""

    error: Annotated[float | str, number_or(EQUAL)] | None = Field(
        default=None,
        description='the error to keep within, above 0, as in error = 0.05 for 5 %; or "equal", that of an equal split',
    )
    half_width: Positive | None = Field(
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
    return tuple(target for target in each if target[1:] != (None, None))


COUNT = types.COUNT  # is 1 for every conversion
MICRO = 1_000_000  # values are added up in whole millionths, so that all engines agree
LARGEST = 1e9  # of what a value may be clipped at: sums in millionths stay within 64 bits
REPORTS = 20  # that a browser sends for one impression
OF_VALUES = ("column", "refunds", "clip", "unit", "tau")
BEYOND, FROM = "_beyond", "_from"  # what limits cut off a measure; where the values of a row begin
AT = "conversions_at_"  # columns of what is reported where an API's budgets pay for so many conversions
OF = "_at_"  # and of the sum of a value that is reported where it is clipped there
ADDED = {"measure", "rank", "conversions" + BEYOND}  # columns of our tables besides those of counts alone


class Measure(Targets):
    """A sum over conversions: of 1 (`count`), or of a column's values, each clipped at `clip`."""

    name: Annotated[str, AfterValidator(titled)] = Field(description='"count", or a name for a value, as in "revenue"')
    column: Name | None = Field(
        default=None, description="the column of the conversions that has the value, if not the name"
    )
    refunds: bool | None = Field(
        default=None, description="true adds up the values below 0, as positive numbers; all others add 0"
    )
    clip: Annotated[int | float | str, number_or(AUTO, 1 / MICRO, LARGEST, object)] | None = Field(
        default=None,
        description='the most that one conversion counts, a number above 0 and up to 1e9, or "auto", as the plan says',
    )
    unit: Name | None = Field(default=None, description='what the value is in, as in "EUR"')
    weight: Positive = Field(default=1.0, description="how much its errors weigh beside other measures', above 0")
    tau: Positive | None = Field(
        default=None, description="the sum below which its errors stop being relative, above 0"
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
    measures: list[Any], attributes: list[Any], taken: Collection[str], values: bool, limited: bool
) -> Iterator[Mistake]:
    """What is wrong between the names of measures, and between them and the rest of a spec."""
    clashing = ADDED | {f"{name}{end}" for name in measures for end in (BEYOND, FROM)}
    yield from twice(measures, "measure", "measures")
    for i, name in enumerate(measures):
        if name in attributes:
            yield Mistake(("measure", i, "name"), f"{name!r} is the name of an attribute; rename the measure")
    named = [("measure", i, name, {*taken, *ADDED, f"conversions{FROM}"}) for i, name in enumerate(measures)]
    named += [("attribute", i, name, clashing) for i, name in enumerate(attributes) if measures or limited]
    for key, i, name, others in named:
        if isinstance(name, str) and name in others:
            yield Mistake((key, i, "name"), f"{name!r} is the name of a column that our tables add; rename it")
    if not values and any(name != COUNT for name in measures):
        yield Mistake("noise", 'values are scaled, as in the API; take noise = "api", or count conversions alone')

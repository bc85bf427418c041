"""Logs: where impressions and conversions are, and what their columns are called."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from attributary.spec.attribute import A_SPAN, span
from attributary.spec.mistakes import Mistake, Section

PAIR = ("impressions", "conversions", "user", "keys")  # keys of two logs that are yet to be joined
ROWS = ("attributed", "converted", "conversion_time", "delay")  # keys of one whose rows have their conversions
FILES = 'a file or a list of files, as in "logs/*.parquet"'
COLUMNS = 'a table of names, as in {campaign = "cmp_id"}: the name in the spec, then the name in the file'

Name = Annotated[str, Field(min_length=1)]


def _window(text: str) -> str:
    if span(text).number == 0:
        raise ValueError
    return text


def _listed(files: Any) -> Any:
    """One file as a list of one."""
    return (files,) if isinstance(files, str) else files


Files = Annotated[tuple[Name, ...], Field(strict=False, min_length=1), BeforeValidator(_listed)]


class Logs(Section):
    """The section [logs] of a spec: two logs to be joined, or one whose rows have their conversions.

    Files are relative to the spec's folder. Columns are called as the spec calls them, the attributes by their names;
    where a file calls one otherwise, `impression_columns` or `conversion_columns` says so.
    """

    impressions: Files | None = Field(default=None, description=FILES)
    conversions: Files | None = Field(default=None, description=FILES)
    attributed: Files | None = Field(default=None, description=FILES)
    user: Name | None = Field(default=None, description="the column that joins a conversion to its impressions")
    keys: tuple[Name, ...] = Field(
        default=(), strict=False, description='a list of further columns that both must agree in, as in ["advertiser"]'
    )
    time: Name | None = Field(default=None, description="the column that says when")
    window: Annotated[str, AfterValidator(_window)] | None = Field(default=None, description=A_SPAN)
    converted: Name | None = Field(default=None, description="the column that is 1 or true where there is a conversion")
    conversion_time: Name | None = Field(default=None, description="the column that says when the conversion was")
    delay: Name | None = Field(default=None, description="the column of the time from impression to conversion")
    time_unit: Literal["s", "ms", "us", "ns"] = Field(
        default="s", description='the unit of times that are numbers: "s", "ms", "us" or "ns"'
    )
    missing: tuple[str | int | float, ...] = Field(
        default=(), strict=False, description='a list of cells that mean a missing value, as in [-1, "NA"]'
    )
    other: tuple[Name, ...] = Field(
        default=(),
        strict=False,
        description='a list of attributes whose values outside of the domain count as its value "other", as in ["day"]',
    )
    header: tuple[Name, ...] | None = Field(
        default=None,
        strict=False,
        min_length=1,
        description="a list of the column names of a text file that does not begin with them",
    )
    impression_columns: dict[Name, Name] = Field(default={}, description=COLUMNS)
    conversion_columns: dict[Name, Name] = Field(default={}, description=COLUMNS)

    @classmethod
    def mistakes(cls, given: dict[str, Any]) -> Iterator[Mistake]:
        """What is wrong between the keys of the section, whatever else is wrong with them."""
        rows, pair = ([key for key in keys if key in given] for keys in (ROWS, PAIR[:2]))
        if rows and pair:
            yield Mistake(
                rows[0],
                f"is of a log whose rows have their conversions, and {pair[0]} of two that are yet to be joined; "
                "keep one",
            )
        if "delay" in given and "conversion_time" in given:
            yield Mistake("delay", "either says when a conversion was; got conversion_time too: keep one of them")
        if given.get("keys") and "user" not in given:
            yield Mistake("user", 'is missing; keys go with it, as in user = "user"')

    @property
    def is_attributed(self) -> bool:
        """Whether the rows have their conversions already."""
        return any(getattr(self, key) is not None for key in ROWS)

    @property
    def window_seconds(self) -> int | None:
        return None if self.window is None else span(self.window).seconds

"""schemes: how a hierarchy fits into the reports of W3C Attribution, and what one conversion may spend.

Known attributes are indexes of a histogram, unknown ones are batches of reports, in whatever order they stand; levels
that are in different batches are in reports of different kinds. A device grants a site `site_epsilon` in each epoch,
for all conversions that have an impression in it. Budgets are whole millionths of ε (µε), as browsers charge them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Literal

from pydantic import Field

from attributary.api.w3c.attribution_options import DAY
from attributary.noise.model import AggregatorCounts, AggregatorSums, TwoAggregatorCounts, TwoAggregatorSums
from attributary.spec import Spec
from attributary.spec.measure import COUNT, MICRO
from attributary.spec.mistakes import Mistake, tables_in
from attributary.spec.terms import ApiSection, Keys
from attributary.types import Record

LARGEST = 10_000  # ε
MONTH = 30  # days
FIELD = 16  # bytes of an element of Field128
SEED = 32  # bytes
STEPS = 255  # that a value is reported in: what a report of 8 bits for each index can hold


@dataclass(frozen=True)
class Scheme:
    """A way to measure all levels with what browsers report."""

    name: str
    words: str
    credits: int  # that a conversion may share among its levels; 0 where each level has reports with an ε of its own
    splits_by_root: bool  # whether impressions carry their root's split
    noise: tuple[str, str]  # of one aggregator, and of two

    @property
    def atomic(self) -> bool:
        """Whether levels of known attributes share a report: a conversion is measured at all of them or at none."""
        return self.credits > 0


COUNTS = (AggregatorCounts.name, TwoAggregatorCounts.name)
SUMS = (AggregatorSums.name, TwoAggregatorSums.name)
SCHEMES = (
    Scheme("A", "a report for each level", 0, False, COUNTS),
    Scheme("B", "levels of known attributes share a report, each with some of its credit", 15, False, SUMS),
    Scheme("C", "the same, by impressions that are saved several times: splits by root are possible", 10, True, SUMS),
)


class W3cSection(ApiSection):
    """What browsers and aggregators of W3C Attribution are set to."""

    site_epsilon: float = Field(
        gt=0, le=1000, description="ε that a browser grants a site per epoch, above 0 and at most 1000"
    )
    aggregators: Literal[1, 2] = Field(default=2, description="how many aggregators add noise, 1 or 2")
    conversions_per_epoch: int = Field(
        default=1, ge=1, le=10_000, description="how many conversions of a device one epoch pays for, 1 or more"
    )
    others: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="ε that other callers on the site use per epoch, 0 or more"
    )
    histogram: int = Field(
        default=1000, ge=1, le=1_000_000, description="the largest histogram that browsers take, 1 to 1,000,000"
    )
    minimum_batch: int = Field(
        default=20, ge=1, le=MICRO, description="how many reports a batch has at least, 1 or more"
    )
    scheme: Literal["A", "B", "C"] | None = Field(
        default=None, description='"A", "B" or "C"; leave it out, and the plan chooses'
    )
    site: str | None = Field(
        default=None, description="the first attribute's name, if its values are the sites where conversions happen"
    )

    impression_site: str | None = Field(
        default=None, min_length=1, description="the column of the impressions that says on which site one was saved"
    )
    conversion_site: str | None = Field(
        default=None, min_length=1, description="the column of the conversions that says on which site one happened"
    )
    global_epsilon: float | None = Field(
        default=None, gt=0, le=LARGEST, description="ε that a browser grants all sites together per epoch, above 0"
    )
    impression_epsilon: float | None = Field(
        default=None, gt=0, le=LARGEST, description="ε that conversions may use per epoch and impression site, above 0"
    )

    @property
    def paid(self) -> int:
        return self.conversions_per_epoch

    @property
    def granted(self) -> float:
        return self.site_epsilon

    @property
    def least_batch(self) -> int:
        return self.minimum_batch

    @property
    def told_apart_by(self) -> tuple[str | None, str | None]:
        return self.scheme, self.site

    @classmethod
    def derived(cls, section: Keys) -> Record:
        """ε, L1 and noise, of a section that may have mistakes."""
        scheme = next((each for each in SCHEMES if each.name == section.get("scheme")), SCHEMES[0])
        spend = max(one_conversion(section), 1)
        return {"epsilon": spend / MICRO, "l1": spend, "noise": scheme.noise[section.get("aggregators") != 1]}

    @classmethod
    def at(cls, section: Keys, epsilon: float) -> Record:
        return {**section, "site_epsilon": epsilon * section["conversions_per_epoch"] + section["others"]}

    @classmethod
    def against(cls, given: Keys, section: Keys) -> Iterator[Mistake]:
        """Keys that follow from the section, and say something else."""
        epsilon, l1, derived = given.get("epsilon"), given.get("l1"), cls.derived(section)
        if one_conversion(section) < 1:
            rule = "others leave nothing of site_epsilon; lower others or conversions_per_epoch"
            yield Mistake(("api", "others"), rule)
            return
        measures = [each.get("name") for each in tables_in(dict(given), "measure")]
        valued = any(name != COUNT for name in measures)
        if (
            isinstance(epsilon, int | float)
            and not abs(epsilon - derived["epsilon"]) <= (STEPS if valued else 16) / MICRO
        ):
            rule = "epsilon is that of one conversion, (site_epsilon − others) / conversions_per_epoch"
            yield Mistake("epsilon", f"{rule} = {derived['epsilon']:g}; got {epsilon:g}: leave it out")
        yield from _wrong_values(section, measures) if valued else ()
        credits = next((each.credits for each in SCHEMES if each.name == section.get("scheme")), 0)
        credits = STEPS if valued else credits
        if l1 != derived["l1"] and not (isinstance(l1, int) and 1 <= l1 <= credits):
            rule = f"is the number of credits of scheme B (up to 15) or C (up to 10); got {l1}: leave it out"
            yield Mistake("l1", rule)
        if given.get("noise") != derived["noise"]:
            rule = f"noise follows from scheme and aggregators ({derived['noise']})"
            yield Mistake("noise", f"{rule}; got {given.get('noise')!r:.60}: leave it out")
        if given.get("conversions_per_impression", 1) != 1:
            rule = "an impression gets as many conversions as the budgets pay for: conversions_per_epoch under [api]"
            yield Mistake("conversions_per_impression", f"{rule}; leave it out")
        if given.get("neighbours", "conversion") != "conversion":
            yield Mistake("neighbours", "conversions are public under the W3C Attribution API; leave it out")
        attributes = tables_in(dict(given), "attribute")
        name = attributes[0].get("name") if attributes else None
        unknown = [attribute.get("unknown") is True for attribute in attributes]
        if section.get("scheme") == "C" and unknown != sorted(unknown):
            rule = "C has no batches above attributes of the impression: use A or B, or move unknown attributes down"
            yield Mistake(("api", "scheme"), rule)
        site = section.get("site")
        if isinstance(site, str) and site == name and unknown[0]:
            rule = "names an attribute that impressions have, as only those of its own site match a conversion"
            yield Mistake(("api", "site"), f"{rule}; got {site!r:.60}, which is unknown to them: use conversion_site")
        if isinstance(site, str) and site != name:
            yield Mistake(("api", "site"), f"names the first attribute, {name!r:.60}; got {site!r:.60}")
        if isinstance(site, str) and given.get("total") is True:
            rule = "sites have budgets and reports of their own, and none for all of them; leave it out"
            yield Mistake("total", rule)


def _wrong_values(section: Keys, measures: Sequence[object]) -> Iterator[Mistake]:
    """What is wrong with a section under which values are measured."""
    if len(measures) > 1:
        rule = f"a conversion's value is charged for one measure at a time; got {', '.join(map(str, measures))}"
        yield Mistake("measure", f"{rule}: make a spec for each, and let others under [api] be what the other one uses")
    if section.get("scheme") != "B":
        rule = f'{measures[0]!r} is a value, and values are measured by scheme "B"; got {section.get("scheme")!r:.60}'
        yield Mistake(("api", "scheme"), f'{rule}: add scheme = "B" under [api]')
    if section.get("site") is not None:
        rule = f"values are measured on sites with indexes in common; got {section['site']!r:.60}"
        yield Mistake(("api", "site"), f"{rule}: leave it out, or name the column of conversions as conversion_site")


def one_conversion(section: Keys) -> int:
    """µε that one conversion may spend: what others leave of the site's budget, in equal parts; 1 of what is wrong."""
    site, others, times = (section.get(key) for key in ("site_epsilon", "others", "conversions_per_epoch"))
    numbers = all(isinstance(x, int | float) and 0 <= x <= 1e6 for x in (site, others, times))
    if not numbers or not isinstance(times, int) or times < 1:
        return MICRO
    return (round(site * MICRO) - round(others * MICRO)) // times  # type: ignore[operator]


def section_of(spec: Spec) -> W3cSection:
    assert isinstance(spec.api, W3cSection)
    return spec.api


@dataclass(frozen=True)
class ReportKind:
    """Reports of one kind: a conversion makes one of each."""

    name: str  # of its last level
    levels: tuple[int, ...]
    credit: tuple[int, ...]  # of each of these levels
    micro: int  # µε that it costs
    value: int  # which is its maxValue, too
    batch: int  # how many unknown attributes its batches are told apart by: those that all of its levels have


def report_kinds(spec: Spec, row: Sequence[int]) -> tuple[ReportKind, ...]:
    """The kinds of reports for contributions by level, top to bottom; levels without any are in none."""
    scheme = scheme_of(spec)
    asked = [(level, spec.held(level)[1]) for level, contribution in enumerate(row) if contribution > 0]
    groups = groupby(asked, key=lambda each: each[scheme.atomic])  # in one report, all levels of the same batches
    kinds = []
    for levels, batches in (zip(*group, strict=True) for _, group in groups):
        credit, batch = tuple(row[level] for level in levels), batches[0]
        value, micro = (sum(credit), sum(credit) * micro_of(spec) // spec.l1) if scheme.atomic else (1, credit[0])
        kinds.append(ReportKind(spec.levels[levels[-1]], levels, credit, micro, value, batch))
    return tuple(kinds)


def named_scheme(spec: Spec) -> Scheme | None:
    return next((each for each in SCHEMES if each.name == section_of(spec).scheme), None)


def scheme_of(spec: Spec) -> Scheme:
    scheme = named_scheme(spec)
    assert scheme is not None
    return scheme


def index_level(spec: Spec, level: int) -> int:
    """The level whose nodes are a level's indexes, counted as if there were known attributes alone; -1 for none."""
    return int(spec.total) + spec.held(level)[0] - 1


def micro_of(spec: Spec) -> int:
    """µε of all reports of a conversion together."""
    return round(float(spec.epsilon) * MICRO)


def lookback_days(spec: Spec) -> int:
    """How long an impression counts: as in the spec's logs, a month at most."""
    seconds = spec.logs.window_seconds if spec.logs is not None else None
    return MONTH if seconds is None else min(max(math.ceil(seconds / DAY), 1), MONTH)


@cache
def report_bytes(size: int, value: int) -> int:
    """The length of a report's input shares: a histogram of Prio3L1BoundSum, with the chunk that makes it shortest.

    16·((N + 1)·bits + 2·chunk + 2·(P − 1) + 1) + 32, where P is the power of two above the number of calls.
    """
    length = (size + 1) * value.bit_length()
    powers = (1 << k for k in range(1, length.bit_length() + 2))
    proof = min(2 * -(-length // (power - 1)) + 2 * (power - 1) + 1 for power in powers)
    return FIELD * (length + proof) + SEED

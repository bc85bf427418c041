"""terms: what a spec and its plan need to know of the attribution API that they are for.

    [api]
    kind = "ara"       # the default: the Attribution Reporting API; or "bigquery", or "w3c"

The facts of an API that planning goes by are one value, `Terms`; what else an API does (what clients are told, what is
queried, how an answer becomes measurements) is behind `attributary.api`, where an API is registered with its terms.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field

from attributary.noise import NoiseModel
from attributary.spec import w3c_schemes
from attributary.spec.mistakes import Mistake, Section
from attributary.spec.w3c_schemes import MICRO, Scheme

# Neighbours: the relations between datasets that ε may be asked to hide, and the privacy loss under each.
#
# A row is an impression with its counted conversion. Against none, it moves one key of every level: Σ ε_i. Changing the
# value of an unknown attribute moves two keys, the old and the new one, of every level at or below the first unknown
# attribute: 2·Σ ε_i over those. Definition 1 of the paper allows either, and its loss is the larger. With Gaussian
# noise it is μ² that adds up so. A logged purchase is another matter: without it, the next one may be counted instead.


class PrivacyLoss(NamedTuple):
    """In ε."""

    conversion: float  # of whether an impression has its counted conversions, all together
    change: float  # of changing their unknown attributes; 0 where there are none
    purchase: float | None  # of one logged purchase more or less; None where it may affect other impressions

    @classmethod
    def of(cls, path: float, unknown: float, purchase: float | None, noise: NoiseModel) -> Self:
        """From the largest parts of the budget: of counted conversions, at their unknown levels, of a purchase."""
        return cls(noise.loss(path), noise.loss(2 * unknown), None if purchase is None else noise.loss(purchase))

    def under(self, relation: str) -> float:
        """The loss under a relation, by its name."""
        return NEIGHBOURS[relation].loss(self)


@dataclass(frozen=True)
class Neighbours:
    """One relation between datasets."""

    name: str
    protects: str  # in words
    unknown_levels: int  # the levels of unknown attributes have 1/this of the budget together at most
    loss: Callable[[PrivacyLoss], float]

    def budget_of_unknown(self, budget: int) -> int:
        """What the contributions to unknown levels may sum to."""
        return budget // self.unknown_levels


COUNTED = "whether an impression has its counted conversion"
NEIGHBOURS = {
    relation.name: relation
    for relation in (
        Neighbours("conversion", COUNTED, 1, lambda loss: loss.conversion),
        Neighbours("definition-1", "also its unknown attributes", 2, lambda loss: max(loss.conversion, loss.change)),
    )
}


def known_relation(name: Any) -> str:
    """The name of a relation; a pydantic validator."""
    if not isinstance(name, str) or name not in NEIGHBOURS:
        raise ValueError(f"neighbours are one of {', '.join(NEIGHBOURS)}")
    return name


@dataclass(frozen=True)
class Terms:
    """What a conversion may contribute under an API, how its answers get their noise, and what its clients know."""

    kind: str  # as in a spec
    title: str
    l1: int  # what the contributions of one impression may sum to, all its conversions together
    noise: str  # the noise model of its answers, by name
    largest_epsilon: float  # of one answer
    conversions: int  # of one impression, at most
    answer: str = "an answer"  # what people call one
    client_knows_delay: bool = False  # whether clients can tell the time from impression to conversion
    settings: tuple[str, ...] = ()  # further keys of the section [api], all of them needed
    optional: Mapping[str, Any] = field(default_factory=dict)  # and others, with their defaults
    derived: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None  # ε, l1 and noise, where the section has them
    schemes: tuple[Scheme, ...] = ()  # ways to measure a hierarchy, of which the plan chooses
    unit: str = ""  # what ε is of, where that is not an impression's counted conversion; with keys of [api] in braces
    guarantee: tuple[str, ...] = ()  # what else is to be said of it
    one_impression: str = ""  # when a logged purchase can only affect the impression that it belongs to, if ever


ARA = Terms(
    kind="ara",
    title="Attribution Reporting API",
    l1=65_536,
    noise="api",
    largest_epsilon=64,
    conversions=20,  # reports that a browser sends for one impression
    answer="a summary report",
    client_knows_delay=True,  # a trigger's filters choose by the age of the source
    one_impression="all impressions have the same priority, window and destinations, and no browser limit is reached",
)
BIGQUERY = Terms(
    kind="bigquery",
    title="BigQuery API",
    l1=65_536,  # parts of ε
    noise="bigquery",
    largest_epsilon=1e20,  # which means no noise
    conversions=1,  # rows of a privacy unit
    answer="a result",
    settings=("table", "privacy_unit"),
    unit="whether the table has the rows of one {privacy_unit}",
)
W3C = Terms(
    kind="w3c",
    title="W3C Attribution API",
    l1=1000 * MICRO,  # µε
    noise=w3c_schemes.COUNTS[1],
    largest_epsilon=1000,
    conversions=1,
    answer="a conversion",
    settings=("site_epsilon",),
    optional={**w3c_schemes.DEFAULTS, "scheme": None, "site": None},
    derived=w3c_schemes.of_section,
    schemes=w3c_schemes.SCHEMES,
    unit="the reports of one conversion, of ε = {site_epsilon:g} per device, site and epoch",
    guarantee=w3c_schemes.GUARANTEE,
)
TERMS: dict[str, Terms] = {terms.kind: terms for terms in (ARA, BIGQUERY, W3C)}


class ApiSection(Section):
    """The section [api] of a spec: the API that clients and answers speak."""

    kind: str = Field(default=ARA.kind, description='the name of an attribution API, as in kind = "ara"')
    table: str | None = Field(default=None, description='the table of conversions, as in "project.dataset.conversions"')
    privacy_unit: str | None = Field(default=None, description='the column of whom ε protects, as in "user_id"')
    site_epsilon: float | None = Field(
        default=None, gt=0, le=1000, description="ε that a browser grants a site per epoch, above 0 and at most 1000"
    )
    aggregators: Literal[1, 2] | None = Field(default=None, description="how many aggregators add noise, 1 or 2")
    conversions_per_epoch: int | None = Field(
        default=None, ge=1, le=10_000, description="how many conversions of a device one epoch pays for, 1 or more"
    )
    others: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="ε that other callers on the site use per epoch, 0 or more"
    )
    histogram: int | None = Field(
        default=None, ge=1, le=1_000_000, description="the largest histogram that browsers take, 1 to 1,000,000"
    )
    minimum_batch: int | None = Field(
        default=None, ge=1, le=MICRO, description="how many reports a batch has at least, 1 or more"
    )
    scheme: Literal["A", "B", "C"] | None = Field(
        default=None, description='"A", "B" or "C"; leave it out, and the plan chooses'
    )
    site: str | None = Field(
        default=None, description="the first attribute's name, if its values are the sites where conversions happen"
    )


def terms_of(given: Mapping[str, Any]) -> Terms:
    """The terms of the API that a spec's keys name, which may have mistakes; the default's where they name none."""
    section = given.get("api")
    kind = (
        section.kind if isinstance(section, ApiSection) else section.get("kind") if isinstance(section, dict) else None
    )
    return TERMS.get(kind, ARA) if isinstance(kind, str) else ARA


def with_its_defaults(given: Any) -> Any:
    """A spec's keys with the l1, the noise and the settings of the API that they name, where they give none."""
    if not isinstance(given, dict) or "api" not in given:
        return given
    terms, section = terms_of(given), _section(given)
    if terms.derived is None or not isinstance(section, dict):
        return {"l1": terms.l1, "noise": terms.noise} | given
    section = {key: value for key, value in terms.optional.items() if value is not None} | section
    return terms.derived(section) | given | {"api": section}


def at_epsilon(given: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """A spec's keys under another budget; where it follows from that of a site, under another one of those."""
    terms, section = terms_of(given), _section(given)
    if terms.derived is None:
        return {**given, "epsilon": epsilon}
    grants = epsilon * section["conversions_per_epoch"] + section["others"]
    follows = [key for key, value in terms.derived(section).items() if given.get(key) == value]
    kept = {key: value for key, value in given.items() if key not in ("epsilon", *follows)}
    return {**kept, "api": {**section, "site_epsilon": grants}}


def _section(given: Mapping[str, Any]) -> Any:
    section = given.get("api")
    return section.model_dump(exclude_none=True) if isinstance(section, ApiSection) else section


def unknown_api(given: Mapping[str, Any]) -> Iterator[Mistake]:
    """What is wrong with the API that a spec names, and with its settings."""
    section = _section(given)
    kind = section.get("kind") if isinstance(section, dict) else None
    if isinstance(kind, str) and kind not in TERMS:
        known = " or ".join(f'"{name}" ({terms.title})' for name, terms in TERMS.items())
        yield Mistake(("api", "kind"), f"the attribution API is {known}; got {kind!r:.60}")
        return
    terms = terms_of(given)
    for key in ApiSection.model_fields:
        there = isinstance(section, dict) and key in section
        if there and key not in ("kind", *terms.settings, *terms.optional):
            yield Mistake(("api", key), f"is of no use for the {terms.title}; leave it out")
        if not there and key in terms.settings:
            yield Mistake(("api", key), "is missing; give it")
    if terms.derived is not None and isinstance(section, dict):
        yield from _against_the_section(given, section, terms.derived(section))


def _against_the_section(
    given: Mapping[str, Any], section: Mapping[str, Any], derived: Mapping[str, Any]
) -> Iterator[Mistake]:
    """Keys that follow from the section, and say something else."""
    epsilon, l1, scheme = given.get("epsilon"), given.get("l1"), section.get("scheme")
    if w3c_schemes.one_conversion(section) < 1:
        yield Mistake(("api", "others"), "others leave nothing of site_epsilon; lower others or conversions_per_epoch")
        return
    if isinstance(epsilon, int | float) and not abs(epsilon - derived["epsilon"]) <= 16 / MICRO:
        rule = "epsilon is that of one conversion, (site_epsilon − others) / conversions_per_epoch"
        yield Mistake("epsilon", f"{rule} = {derived['epsilon']:g}; got {epsilon:g}: leave it out")
    credits = next((each.credits for each in w3c_schemes.SCHEMES if each.name == scheme), 0)
    if l1 != derived["l1"] and not (isinstance(l1, int) and 1 <= l1 <= credits):
        yield Mistake("l1", f"is the number of credits of scheme B (up to 15) or C (up to 10); got {l1}: leave it out")
    if given.get("noise") != derived["noise"]:
        rule = f"noise follows from scheme and aggregators ({derived['noise']})"
        yield Mistake("noise", f"{rule}; got {given.get('noise')!r:.60}: leave it out")
    if given.get("neighbours", "conversion") != "conversion":
        yield Mistake("neighbours", "conversions are public under the W3C Attribution API; leave it out")
    attributes = given.get("attribute", given.get("attributes"))
    first = attributes[0] if isinstance(attributes, list | tuple) and attributes else None
    name = first.get("name") if isinstance(first, dict) else getattr(first, "name", None)
    if isinstance(section.get("site"), str) and section["site"] != name:
        yield Mistake(("api", "site"), f"names the first attribute, {name!r:.60}; got {section['site']!r:.60}")
    if isinstance(section.get("site"), str) and given.get("total") is True:
        yield Mistake("total", "sites have budgets and reports of their own, and none for all of them; leave it out")

"""terms: what a spec and its plan need to know of the attribution API that they are for.

    [api]
    kind = "ara"       # the default: the Attribution Reporting API

An API registers its `Terms`, and brings the section [api] if it has settings of its own; what else it does is behind
`attributary.api`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator

from attributary.spec.mistakes import Mistake, Section, all_at_once, with_rules
from attributary.types import Record

DEFAULT = "ara"
Keys = Mapping[str, Any]  # of a spec or a section, which may have mistakes


class ApiSection(Section):
    """The section [api] of a spec: the API that clients and answers speak. An API with settings has one of its own."""

    kind: str = Field(default=DEFAULT, description='the name of an attribution API, as in kind = "ara"')

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        section = terms_of({"api": given}).section if cls is ApiSection and isinstance(given, dict) else cls
        if section is cls:
            return all_at_once(given, handler, cls.mistakes)
        try:
            made: Any = section.model_validate(given)
        except ValidationError as error:
            raise with_rules(error, section) from None
        return made  # type: ignore[no-any-return]

    @property
    def told_apart_by(self) -> tuple[str | None, str | None]:
        """The settings by which plans are told apart, since their reports are read otherwise."""
        return None, None

    @property
    def paid(self) -> int | None:
        """How many conversions of a device its budgets pay for in turn; None where nothing runs out."""
        return None

    @property
    def granted(self) -> float | None:
        """ε of the unit that the API protects, where a conversion has only a part of it."""
        return None

    @property
    def least_batch(self) -> int | None:
        """How many reports are answered together at least, where those of each unknown value are apart."""
        return None

    @classmethod
    def derived(cls, section: Keys) -> Record:
        """The keys of the spec that follow from the section: ε, l1 or noise."""
        return {}

    @classmethod
    def at(cls, section: Keys, epsilon: float) -> Record:
        """The section with settings from which another ε follows."""
        return dict(section)

    @classmethod
    def against(cls, given: Keys, section: Keys) -> Iterator[Mistake]:
        """What is wrong between the section and the other keys of the spec."""
        yield from ()


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
    values_occur: bool = False  # whether unknown attributes may take the values that occur, without a domain
    any_order: bool = False  # whether unknown attributes may stand above known ones
    section: type[ApiSection] = ApiSection  # its settings
    proposals: Callable[[], object] | None = None  # makes `plan.proposals.Proposals`, where it has several ways
    devices: Callable[[], object] | None = None  # makes `logs.devices.DeviceRules`, where devices decide what to report
    protects: str = "impression"  # what an ε is of, in a word
    protected: str = "whether an impression has its counted conversion"  # and in a phrase
    unit: str = ""  # what ε is of, where that is not an impression's counted conversion; with keys of [api] in braces
    guarantee: tuple[str, ...] = ()  # what else is to be said of it
    one_impression: str = ""  # when a logged purchase can only affect the impression that it belongs to, if ever


TERMS: dict[str, Terms] = {}


def terms_named(kind: object) -> Terms | None:
    """The terms of the API of this name; None if there is none."""
    if isinstance(kind, str) and kind not in TERMS:
        import_module("attributary.api").load_terms(kind)
    return TERMS.get(kind) if isinstance(kind, str) else None


def terms_of(given: Keys) -> Terms:
    """The terms of the API that a spec's keys name, which may have mistakes; the default's where they name none."""
    terms = terms_named(_section(given).get("kind")) or terms_named(DEFAULT)
    assert terms is not None
    return terms


def _section(given: Keys) -> Record:
    """The keys of the section [api]; none of what is none."""
    section = given.get("api")
    if isinstance(section, ApiSection):
        return section.model_dump(exclude_none=True)
    return section if isinstance(section, dict) else {}


def _with_defaults(terms: Terms, section: Keys) -> Record:
    """The keys of a section, with those that it leaves out."""
    fields = terms.section.model_fields.items()
    defaults = {name: field.default for name, field in fields if not field.is_required() and field.default is not None}
    return defaults | dict(section)


def with_its_defaults(given: Record) -> Record:
    """A spec's keys with the ε, the l1 and the noise of the API that they name, where they give none."""
    if "api" not in given:
        return given
    terms = terms_of(given)
    follows = terms.section.derived(_with_defaults(terms, _section(given)))
    return {"l1": terms.l1, "noise": terms.noise} | follows | given


def at_epsilon(given: Record, epsilon: float) -> Record:
    """A spec's keys under another budget; where it follows from settings of the API, under others of these."""
    terms, section = terms_of(given), _section(given)
    follows = terms.section.derived(section)
    if "epsilon" not in follows:
        return {**given, "epsilon": epsilon}
    kept = {key: value for key, value in given.items() if key != "epsilon" and value != follows.get(key, ...)}
    return {**kept, "api": terms.section.at(section, epsilon)}


def at_settings(given: Record, settings: Keys, granted: float | None) -> Record:
    """A spec's keys under other settings of its API, from which ε, L1 and noise follow anew; or under another API.

    That has `granted` as its ε: what the first grants the unit that it protects.
    """
    kept = {key: value for key, value in given.items() if key not in ("epsilon", "l1", "noise", "api")}
    section = _section(given)
    if settings.get("kind", section.get("kind")) == section.get("kind"):
        return {**kept, "api": {**section, **settings}}
    return {**kept, "epsilon": given["epsilon"] if granted is None else granted, "api": dict(settings)}


def wrong_api(given: Keys) -> Iterator[Mistake]:
    """What is wrong with the API that a spec names, and between its settings and the other keys."""
    section, terms = _section(given), terms_of(given)
    kind = section.get("kind")
    if isinstance(kind, str) and terms_named(kind) is None:
        known = " or ".join(f'"{name}" ({terms.title})' for name, terms in sorted(TERMS.items()))
        yield Mistake(("api", "kind"), f"the attribution API is {known}; got {kind!r:.60}")
    elif section:
        yield from terms.section.against(given, _with_defaults(terms, section))

"""terms: what a spec and its plan need to know of the attribution API that they are for.

    [api]
    kind = "ara"       # the default: the Attribution Reporting API

The facts of an API that planning goes by are one value, `Terms`; what else an API does (what clients are told, what is
queried, how an answer becomes measurements) is behind `attributary.api`, where an API is registered with its terms.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from attributary.spec.mistakes import Mistake, Section


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


ARA = Terms(
    kind="ara",
    title="Attribution Reporting API",
    l1=65_536,
    noise="api",
    largest_epsilon=64,
    conversions=20,  # reports that a browser sends for one impression
    answer="a summary report",
    client_knows_delay=True,  # a trigger's filters choose by the age of the source
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
)
TERMS: dict[str, Terms] = {terms.kind: terms for terms in (ARA, BIGQUERY)}


class ApiSection(Section):
    """The section [api] of a spec: the API that clients and answers speak."""

    kind: str = Field(default=ARA.kind, description='the name of an attribution API, as in kind = "ara"')
    table: str | None = Field(default=None, description='the table of conversions, as in "project.dataset.conversions"')
    privacy_unit: str | None = Field(default=None, description='the column of whom ε protects, as in "user_id"')


def terms_of(given: Mapping[str, Any]) -> Terms:
    """The terms of the API that a spec's keys name, which may have mistakes; the default's where they name none."""
    section = given.get("api")
    kind = (
        section.kind if isinstance(section, ApiSection) else section.get("kind") if isinstance(section, dict) else None
    )
    return TERMS.get(kind, ARA) if isinstance(kind, str) else ARA


def with_its_defaults(given: Any) -> Any:
    """A spec's keys with the l1 and the noise of the API that they name, where they give none."""
    if not isinstance(given, dict) or "api" not in given:
        return given
    terms = terms_of(given)
    return {"l1": terms.l1, "noise": terms.noise} | given


def unknown_api(given: Mapping[str, Any]) -> Iterator[Mistake]:
    """What is wrong with the API that a spec names."""
    section = given.get("api")
    section = section.model_dump(exclude_none=True) if isinstance(section, ApiSection) else section
    kind = section.get("kind") if isinstance(section, dict) else None
    if isinstance(kind, str) and kind not in TERMS:
        known = " or ".join(f'"{name}" ({terms.title})' for name, terms in TERMS.items())
        yield Mistake(("api", "kind"), f"the attribution API is {known}; got {kind!r:.60}")
        return
    terms = terms_of(given)
    for key in ("table", "privacy_unit"):
        there = isinstance(section, dict) and key in section
        if there != (key in terms.settings):
            yield Mistake(
                ("api", key), f"is of no use for the {terms.title}; leave it out" if there else "is missing; give it"
            )

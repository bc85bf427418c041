"""AttributionApi: what an attribution API does for a plan, and the values that it speaks in.

An API is one value of a subclass. Planning knows nothing of it but its terms; commands and pipelines know
nothing of it but what is here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attributary.measurements import Measurements
from attributary.plan import Plan
from attributary.spec.terms import Terms
from attributary.tree import Tree


@dataclass(frozen=True)
class Message:
    """What a client is told of an impression or a conversion."""

    lines: tuple[str, ...]  # headers or calls, one per line
    notes: tuple[str, ...] = ()  # what to look at before it is used


@dataclass(frozen=True, eq=False)
class Query:
    """What is queried: a key for each node that has one."""

    size: int  # keys
    write: Callable[[str], None]  # to a path


@dataclass(frozen=True, eq=False)
class Answer:
    """What an answer says of the nodes of a tree: measurements of each measure, in its unit."""

    measures: Mapping[str, Measurements]
    notes: tuple[str, ...] = ()  # what did not fit together, and which noise was assumed, in words


@dataclass(frozen=True, eq=False)
class Clients(ABC):
    """A plan with its keys, from which clients are told what to contribute."""

    plan: Plan
    changed: bool = False  # whether the keys are new, so that the plan is to be saved
    table: Sequence[Sequence[str]] = ()  # how keys are laid out: heads and rows
    heading: str = ""  # of the table
    notes: tuple[str, ...] = ()  # what laying out the keys changed

    @property
    @abstractmethod
    def asks(self) -> tuple[str, ...]:
        """The attributes and values that a conversion has to tell."""

    @abstractmethod
    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        """What a client is told of an impression, from the values of its known attributes."""

    @abstractmethod
    def conversion(self, values: Mapping[str, Any], **options: Any) -> Message:
        """What a client is told of a conversion, from the values of its unknown attributes and of its measures."""

    @abstractmethod
    def query(self, tree: Tree) -> Query:
        """What is queried, for the tree of the impressions that occurred."""


class AttributionApi(ABC):
    """One attribution API: its terms, what clients are told, what is queried, and how an answer is measured."""

    terms: ClassVar[Terms]
    query_file: ClassVar[str]  # what the file of a query is called
    options: ClassVar[frozenset[str]] = frozenset()  # what `clients` and their messages may be asked for

    @abstractmethod
    def clients(self, plan: Plan, **wishes: Any) -> Clients:
        """The plan with its keys: those that it has, or new ones, made as wished."""

    @abstractmethod
    def answer(
        self,
        plan: Plan,
        files: Sequence[str],
        tree: Tree,
        rate: tuple[float, int] | None = None,
        name: str = "the plan",
    ) -> Answer:
        """What the files of an answer say of the nodes that were queried.

        `rate` is the ε and the L1 of an answer that does not state its noise, if it is not the plan's; `name` is what
        messages call the plan.
        """

"""AttributionApi: what an attribution API does for a plan, and the values it takes and gives.

An API is an instance of a subclass. Planning uses only its terms; commands and pipelines use only what is declared
here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.plan import Plan
from attributary.spec.terms import Terms
from attributary.tree import Tree
from attributary.types import Cells, Ints, Keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    unit: str = "keys"  # what people call them
    nodes: int | None = None  # that are measured, if not as many as there are keys


@dataclass(frozen=True, eq=False)
class Answer:
    """What an answer says of the nodes of a tree: measurements of each measure, in its unit."""

    measures: Mapping[str, Measurements]
    notes: tuple[str, ...] = ()  # what did not fit together, and which noise was assumed, in words
    own: int = 0  # keys that only this breakdown can have
    others: int = 0  # keys that may be those of other breakdowns


@dataclass(frozen=True)
class Tally:
    """What became of the reports; and of their contributions, where what is made of them is not private anyway."""

    reports: int = 0
    used: int = 0
    repeated: int = 0  # reports whose id had come before
    faulty: int = 0  # reports, or damaged blocks of them
    summed: int | None = None  # contributions; how many there are is what noise protects, so None in a private run
    nulls: int | None = None
    filtered: int | None = None  # of other filtering ids
    outside: int | None = None  # of keys that the domain does not have
    categories: Mapping[str, int] = field(default_factory=dict)  # faulty reports by the service's names of why
    oldest: int | None = None  # the second that the oldest report of those used was due
    skipped: int = 0  # reports of hours that were spent before


@dataclass(frozen=True, eq=False)
class Aggregation:
    """A summary report that was written, and what became of the reports and of the budget."""

    output: str  # the file of the summary report
    keys: Keys  # of the domain, each once, in its order
    sums: Ints  # the noisy sum of each key; none if the query had been answered before
    noise: str  # what was added, or why the sums are not private
    not_private: str  # why they are not, or ""
    tally: Tally
    faults: tuple[str, ...]  # what is wrong with the first few reports that could not be used
    shared_ids: int  # of the reports that were used
    ledger: str | None  # where these are spent; None if nothing is
    new_ledger: bool = False  # whether there was no ledger before
    debug_output: str | None = None  # the file of exact sums and noise side by side, which is NOT private
    answered: str = ""  # when the same query had been answered before; then nothing was drawn or spent
    restored: bool = False  # whether the output was lost, and written again from a copy of that answer


@dataclass(frozen=True, eq=False)
class Clients(ABC):
    """A plan with its keys, from which clients are told what to contribute."""

    plan: Plan
    changed: bool = False  # whether the keys are new, so that the plan is to be saved
    table: Sequence[Sequence[str]] = ()  # how keys are laid out: heads and rows
    heading: str = ""  # of the table
    notes: tuple[str, ...] = ()  # what laying out the keys changed
    lines: tuple[str, ...] = ()  # what is run for all events together, such as queries

    def with_tree(self, tree: Tree) -> Self:
        """The same for the tree of the impressions that occurred, where keys go by what occurs."""
        return self

    @property
    @abstractmethod
    def asks(self) -> tuple[str, ...]:
        """The attributes and values that a conversion must provide."""

    @abstractmethod
    def impression(self, values: Mapping[str, object], **options: object) -> Message:
        """What a client is told of an impression, from the values of its known attributes."""

    @abstractmethod
    def conversion(self, values: Mapping[str, object], **options: object) -> Message:
        """What a client is told of a conversion, from the values of its unknown attributes and of its measures."""

    @abstractmethod
    def query(self, *trees: Tree) -> Query:
        """What is queried, for the tree of the impressions that occurred, in each breakdown."""


class SparkAnswer(NamedTuple):
    """What an answer says, on the workers of a cluster."""

    sums: "DataFrame"  # the columns key and metric: the noisy sum of each key
    variance: float  # of a sum's noise
    told: Callable[[int, int], list[str]]  # what to say where so many nodes are measured, of so many with a key
    not_private: str


class SparkKeys(ABC):
    """A plan's keys on a cluster, whose workers make and write them, and read an answer."""

    @abstractmethod
    def of(self, tree: Tree, measure: int) -> Cells:
        """The key of each node, as binary cells."""

    @abstractmethod
    def refuse_collisions(self, labels: Sequence["DataFrame"]) -> None:
        """Refuses labels of an attribute, each in a frame of its own, that keys would not tell apart."""

    @abstractmethod
    def write(self, keys: "DataFrame", address: str, measure: int) -> int:
        """Writes keys to a folder, as a query; gives how many there are."""

    @abstractmethod
    def answer(
        self, session: "SparkSession", files: Sequence[str], rate: tuple[float, int] | None, name: str
    ) -> SparkAnswer:
        """What the files of an answer say, as `AttributionApi.answer` does of a tree on one machine."""


class AttributionApi(ABC):
    """One attribution API: its terms, what clients are told, what is queried, and how an answer is measured."""

    terms: ClassVar[Terms]
    query_file: ClassVar[str]  # what the file of a query is called
    options: ClassVar[frozenset[str]] = frozenset()  # what `clients` and their messages may be asked for

    several: ClassVar[bool] = False  # whether clients can be told of several breakdowns at once

    @abstractmethod
    def clients(self, plan: Plan, **wishes: object) -> Clients:
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

    def aggregate(self, *given: Any, **options: object) -> Aggregation:
        """What a local aggregation service makes of reports, given as in `api.aggregate`; an InputError without one."""
        raise InputError(f"there is no local aggregation service for the {self.terms.title}")

    def on_spark(self, plan: Plan) -> SparkKeys:
        """The plan's keys on a cluster; an InputError where no cluster makes them."""
        raise InputError(f"no cluster makes keys for the {self.terms.title}; leave out the engine spark")

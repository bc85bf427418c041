"""run_parts: what runs part by part have in common: root by root on one machine (run_by_root), or on a cluster."""

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.budget import METHODS
from attributary.budget.classes import CondensedTree
from attributary.logs.count import Question
from attributary.logs.counts import FATES, Counts, leaves, seen_fates, with_fates
from attributary.logs.labels import OF_PART, bucket_codes, label_codes
from attributary.logs.log_columns import Period
from attributary.logs.spark import PART
from attributary.noise.blocks import Codes, label_hashes, path_codes
from attributary.pipeline.run import Known, Request
from attributary.plan import Plan
from attributary.plan.condense import Condensed, condense, merged
from attributary.plan.make import why_not_learned
from attributary.prior import Prior
from attributary.spec import Logs, Spec
from attributary.spec.attribute import Attribute
from attributary.tables import write_table
from attributary.tables.table_columns import plain, with_column
from attributary.tree import Tree
from attributary.types import Arrow

if TYPE_CHECKING:
    from attributary.report import ReportInputs

BEFORE, PATH = "__before", "__path_"  # columns beside those of the SQL
ON_PAGE = 20_000  # nodes, at most
CLASSES = 200_000  # that are held before they are merged, at least


@dataclass(frozen=True, eq=False)
class RunInParts:
    """What a run came to whose tables are not held."""

    plan: Plan
    tree: Tree  # that the plan was made for, condensed or of some roots
    prior: Prior  # on that tree
    counts: Counts  # without their table
    before: Counts | None
    leaves: int
    rows: int  # of the estimates
    tables: tuple[str, ...]
    generated: bool


@dataclass(frozen=True, eq=False)
class CountTask:
    """What every worker needs to make leaves of groups of rows."""

    spec: Spec
    logs: Logs
    period: Period
    earlier: Period | None = None

    @classmethod
    def of(cls, spec: Spec, questions: Sequence[Question]) -> Self:
        """What is asked of a period, and of the one before if there is one."""
        now, *then = questions
        return cls(spec, now.logs, now.period, then[0].period if then else None)

    def counted(self, rows: Arrow) -> tuple[Counts, Counts | None] | None:
        """The counts of groups of rows, as an Arrow table, and those before; None where these alone have any."""
        now, then = (rows.filter(pc.equal(rows.column(BEFORE), earlier)) for earlier in (False, True))
        if not now.num_rows:
            return None
        earlier = leaves(self.spec, self.logs, then, self.earlier, OF_PART) if self.earlier and then.num_rows else None
        return leaves(self.spec, self.logs, now, self.period, OF_PART), earlier

    def tables(self, rows: Arrow) -> dict[str, Arrow]:
        """The table of counts of groups of rows, and that of those before, as a cluster writes them."""
        both = zip(("counts", "prior"), self.counted(rows) or (), strict=False)
        return {name: with_words(counts.table) for name, counts in both if counts is not None}

    def coded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of groups with a code for the path down to each known attribute, by labels as they will be."""
        for batch in batches:
            table = pa.Table.from_batches([batch])
            has = np.isin(table.column("fate").to_numpy(), self.fates)  # others have no path
            path, some, codes = np.zeros(int(has.sum()), np.uint64), table.filter(pa.array(has)), []
            for i, attribute in enumerate(self.spec.known):
                path = path_codes(path, self._hashes(some, f"known_{i}", attribute))
                codes.append(np.zeros(len(has), np.int64))
                codes[-1][has] = path.astype(np.int64)
            yield pa.RecordBatch.from_arrays([*batch.columns, *codes], [*batch.schema.names, *self.paths])

    def _hashes(self, table: Arrow, column: str, attribute: Attribute) -> Codes:
        by_label = attribute.calendar is None
        made = label_codes(table, column, attribute, self.logs) if by_label else bucket_codes(table, column, attribute)
        return label_hashes(made.labels.to_pylist())[made.code]

    def classes(self, counts: Counts, before: Counts | None, above: int = 0) -> Condensed:
        """What a plan needs of a part, whose nodes of levels before `above` are shared with others."""
        known = Known.of(self.spec, counts, before, part=True)
        prior = known.expected if self.spec.has_limits else replace(known.expected, profile=None)  # nothing is cut off
        if self.earlier and before is None:  # the period before had other parts alone
            prior = replace(prior, new=np.ones(len(known.tree), bool))
        return condense(known.tree, prior, self.spec.split_by is not None, above)

    def survey(self, rows: Arrow) -> Arrow:
        """The nodes of a part's levels, and its counts without their table: one row, or none."""
        counted, cells = self.counted(rows), []
        if counted is not None:
            told = [None if c is None else replace(c, table=None) for c in counted]
            number = np.diff(self.spec.tree(counted[0].table).offsets).tolist()
            cells = [(rows.column(PART)[0].as_py(), number, *map(pickle.dumps, told))]
        columns = zip(*cells, strict=True) if cells else [[]] * 4
        kinds = [pa.int64(), pa.list_(pa.int64()), pa.binary(), pa.binary()]
        arrays = [pa.array(list(c), kind) for c, kind in zip(columns, kinds, strict=True)]
        return pa.table(arrays, names=["part", "nodes", "counts", "before"])

    @property
    def fates(self) -> list[int]:
        """The fates of rows that are in a leaf."""
        return [*seen_fates(self.logs, self.period), FATES.index("conversion")]

    @property
    def paths(self) -> list[str]:
        return [f"{PATH}{i}" for i in range(len(self.spec.known))]

    @property
    def domain(self) -> int:
        """How many leaves a known path has."""
        return int(np.prod([len(attribute.labels) for attribute in self.spec.unknown], dtype=np.int64))


def plan_needs_nodes(asked: Request, method: str, sample: Known) -> bool:
    """Whether a plan takes nodes, not classes alone, and so is made of some roots: what is known of these tells.

    That is so for a prior from a file, for what is learned node by node, and for APIs that propose schemes.
    """
    learns = asked.estimator.kind.plan and not why_not_learned(asked.spec, sample.expected, method, sample.profile)
    return bool(learns) or asked.earlier is not None or METHODS[method].by_node or bool(asked.spec.terms.proposals)


def merged_as_they_come(parts: Iterable[Condensed]) -> tuple[CondensedTree, Prior]:
    """The tree of the classes of all parts, and its prior; no more are held than there are different ones, and some."""
    held = list[Condensed]()
    for part in parts:
        held.append(part)
        if sum(each.nodes.num_rows for each in held[1:]) > max(held[0].nodes.num_rows, CLASSES):
            held = [merged(held)]
    return merged(held).forest


def with_words(table: Arrow) -> Arrow:
    """A table as a cluster writes it: a column says why it is not private, and labels are text."""
    worded = with_column(table)
    columns = {name: plain(worded.column(name)) for name in worded.column_names}
    return pa.table(columns).replace_schema_metadata(worded.schema.metadata)


def with_other_rows(question: Question, counts: Counts, rows: Arrow, many: bool) -> Counts:
    """The counts of all parts of a period with what became of other rows, of which a table has the number by fate."""
    fate, number = (rows.column(name).to_numpy().astype(np.int64) for name in ("fate", "number"))
    made = with_fates(counts, question.logs, question.period, fate, number, many)
    return question.finished(made).refuse_no_match()


def numbered_from(table: Arrow, first: int) -> Arrow:
    """Rows of a part's nodes, numbered among those of all parts."""
    for column in ("node", "parent"):
        number = table.column(column).to_numpy().astype(np.int64)
        shifted = pa.array(np.where(number < 0, -1, number + first))
        table = table.set_column(table.column_names.index(column), column, shifted)
    return table


def upper_levels(plan: Plan, estimates: Arrow, depth: int, rows: int) -> "ReportInputs":
    """Plan and estimates of so many levels as a page shows them, where there are so many rows in all."""
    from attributary.report import read

    with tempfile.TemporaryDirectory() as place:
        files = [os.path.join(place, name) for name in ("plan.json", "estimates.parquet")]
        plan.save(files[0])
        write_table(estimates.drop_columns(["node", "parent", "level"]), files[1])
        shown = read(files)
    upper = f"{' > '.join(plan.levels[:depth])}, {estimates.num_rows:,} of {rows:,} rows"
    return shown if estimates.num_rows == rows else replace(shown, upper=upper)

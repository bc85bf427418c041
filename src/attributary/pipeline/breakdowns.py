"""breakdowns: tables of several breakdowns of the same conversions, in one and apart."""

from collections.abc import Sequence

from attributary.errors import InputError
from attributary.spec import Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import shown
from attributary.tables.table_columns import of_label, stacked
from attributary.types import Arrow


def in_one_table(spec: Spec, tables: Sequence[Arrow]) -> Arrow:
    """The tables of all breakdowns, one below the other; the table itself where there is one."""
    if len(tables) == 1:
        return tables[0]
    each = dict(zip(spec.called, tables, strict=True))
    return stacked(each, BREAKDOWN, [attribute.name for attribute in spec.attributes])


def by_breakdown(spec: Spec, table: Arrow, path: str) -> list[object]:
    """The tables of all breakdowns in one; the table itself of a spec that has one."""
    if len(spec.parts) == 1:
        return [table]
    if BREAKDOWN not in table.column_names:
        raise InputError(
            f"{shown(path)} has no column {BREAKDOWN!r}, which tells {', '.join(spec.called)} apart; make it by "
            "this spec"
        )
    there = set(table.column(BREAKDOWN).unique().to_pylist())
    lacking = [name for name in spec.called if name not in there]
    if lacking:
        raise InputError(f"{shown(path)} has no rows of the breakdown {lacking[0]!r}; make it by this spec")
    own = [{attribute.name for attribute in part.attributes} for part in spec.parts]
    names = [attribute.name for attribute in spec.attributes]
    return [
        of_label(table, BREAKDOWN, name, [label for label in names if label not in has])
        for name, has in zip(spec.called, own, strict=True)
    ]

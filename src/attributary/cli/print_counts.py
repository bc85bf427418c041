"""print_counts: what was counted in the logs, and what was not."""

from typing import TYPE_CHECKING

from attributary.cli.printing import say
from attributary.cli.summary_file import fact
from attributary.errors import one_line
from attributary.facts.losses import USED_UP, count_lines

if TYPE_CHECKING:
    from attributary.logs.counts import Counts, ValueTotals
    from attributary.logs.log_columns import OutsideDomain
    from attributary.spec import Spec


def print_counts(counts: "Counts", spec: "Spec", leaves: int | None = None) -> None:
    """Prints how many impressions and conversions were counted, and why others were not, to standard error.

    `leaves` is how many there are, where a cluster has their table.
    """
    window = spec.logs.window if spec.logs else None
    not_counted = [
        (counts.unattributed, "no impression before it"),
        (counts.late, f"not within the window of {window}"),
        (counts.exceeded, _exceeded(spec)),
        (counts.incomplete, "no user, key or time"),
        *((number, USED_UP.format(name)) for name, number in (counts.reported.lost if counts.reported else {}).items()),
        *((outside.conversions, _outside(outside)) for outside in counts.outside if not outside.kept),
    ]
    by_bin = leaves is None and "rank" in counts.table.column_names
    rows = f"{counts.table.num_rows if leaves is None else leaves:,}"
    what = f"{rows} rows: one per leaf, rank and value bin" if by_bin else f"{rows} leaves"
    lines = [f"{counts.impressions:,} impressions, {counts.conversions:,} conversions, {what}"]
    if any(number for number, _ in not_counted):
        lines += ["conversions not counted:"]
        lines += [f"{number:12,}  {reason}" for number, reason in not_counted if number]
    lines += [f"{name}: {number:,} rows do not meet the spec's conditions" for name, number in counts.filtered.items()]
    lines += [counts.clock] if counts.clock else []
    lines += count_lines(counts.reported, spec.paid) if counts.reported else []
    lines += [line for totals in counts.values for line in _value(totals)]
    lines += [
        f"{outside.conversions:,} conversions count as other: {_outside(outside)}"
        for outside in counts.outside
        if outside.kept
    ]
    if counts.undated:
        lines += [f"{counts.undated:,} impressions have no time: they get no conversion, and are in no period"]
    fact("counts", counts.summary())
    say("\n".join(map(one_line, lines)))


def _exceeded(spec: "Spec") -> str:
    limit = spec.conversions_per_impression
    if limit == 1:
        return "its impression has a conversion already"
    return f"its impression has {20 if limit == 'auto' else limit} conversions already"


def _value(totals: "ValueTotals") -> list[str]:
    unit = f" {totals.unit}" if totals.unit else ""
    lines = [f"{totals.measure}: {totals.total - totals.cut:,.2f}{unit} of {totals.total:,.2f}{unit} counted"]
    if totals.clip is None:
        lines = [f"{totals.measure}: {totals.total:,.2f}{unit}; the plan chooses the limit at which values are clipped"]
    if totals.clipped:
        lines += [f"{totals.clipped:12,}  values above {totals.clip:,g}{unit}, counted as {totals.clip:,g}{unit}"]
    if totals.missing:
        lines += [f"{totals.missing:12,}  conversions without a {totals.measure}, counted as 0"]
    if totals.not_positive:
        refunds = f" (sum {totals.refunded:,.2f}{unit})" if totals.refunded else ""
        lines += [f"{totals.not_positive:12,}  conversions with a {totals.measure} of 0 or less, counted as 0{refunds}"]
    return lines


def _outside(outside: "OutsideDomain") -> str:
    shown = ", ".join(f"{value} ({times:,})" for value, times in outside.values.items())
    more = ", …" if sum(outside.values.values()) < outside.conversions else ""
    return f"{outside.attribute} not in its domain: {shown}{more}"

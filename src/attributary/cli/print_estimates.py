"""print_estimates: what denoising did, for standard error and for --summary."""

from collections.abc import Sequence

from attributary.cli.printing import Out, console, plain, print_table
from attributary.cli.summary_file import fact
from attributary.errors import one_line
from attributary.facts import estimates as facts
from attributary.facts.quantity import Quantity

LISTED = 5
WARNING = "yellow"


def print_estimates(quantities: Sequence[Quantity], rows: int, output: str, notes: list[str]) -> None:
    """Prints what denoising did to each measure, and last where the rows went, to standard error."""
    out, several = console(), len(quantities) > 1
    for quantity in quantities:
        if several:
            out.print(one_line(f"{quantity.name}:"))
        _print(out, quantity)
        if several:
            out.print()
    where = "standard output" if output == "-" else output
    apart = ", one per node and measure" if several else ""
    fact("rows", rows)
    out.print("; ".join([f"{rows:,} rows written to {where}{apart}", *notes]))


def print_form(recognised: Sequence[str], doubts: Sequence[str]) -> None:
    """Prints what a table was taken for, and what its figures say against it."""
    from rich.text import Text

    out = console()
    fact("recognised", list(recognised))
    fact("doubts", list(doubts))
    for note in recognised:
        out.print(Text(one_line(f"recognised: {note}")))
    for doubt in doubts:
        out.print(Text(one_line(doubt), WARNING))


def _print(out: Out, quantity: Quantity) -> None:
    from rich.text import Text

    est, lines, gains = quantity.estimates, facts.lines(quantity), facts.level_gains(quantity)
    fact("estimates", facts.as_data(quantity))
    trouble = lines[0].subject == "noise" and lines[0].warning
    if trouble:
        out.print(Text(lines[0].full, WARNING))
    stated = "if the noise were as stated, " * trouble
    out.print(one_line(plain(f"{len(est):,} rows in {est.tree.depth} levels; {stated}{facts.sum_words(quantity)}")))
    if gains:
        table = facts.gains_table(gains)
        rows = [table.heads, *([one_line(row[0]), *row[1:]] for row in table.rows)]
        print_table(out, rows, table.together, space=False)
    for line in lines[trouble:]:
        out.print(Text(line.full, WARNING if line.warning else ""))
        if line.subject == "corrections" and line.warning:
            found, worst = facts.worst(quantity, LISTED)
            for name, noisy, estimate, correction in worst:
                out.print(Text(one_line(f"  {name}: noisy {noisy} → estimate {estimate} ({correction})"), WARNING))
            if found > len(worst):
                out.print(Text(f"  and {found - len(worst):,} more; see the column correction", WARNING))

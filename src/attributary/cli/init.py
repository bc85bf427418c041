"""attributary init: a first spec for logs, by what is in them."""

import os

import click

from attributary.cli.options import file_output, quiet
from attributary.cli.printing import fact, reading_bar, say
from attributary.errors import InputError, one_line
from attributary.whole_files import save

ABOUT = """Write a first spec for logs, from what their columns hold.

\b
    $ attributary init impressions.parquet conversions.parquet -o spec.toml
    $ attributary run spec.toml -o first

IMPRESSIONS and CONVERSIONS are CSV, TSV or Parquet: a file, a folder, or a pattern in quotes. Without CONVERSIONS, the
rows of IMPRESSIONS say whether they have a conversion (a column converted, conversion_time or delay).

What is not certain is marked "# guessed: …" in the spec and printed: check it, and edit. A spec is never overwritten.
More: docs/logs.md
"""


@click.command(help=ABOUT, short_help="Write a first spec for logs, from what their columns hold.")
@click.argument("impressions", metavar="IMPRESSIONS")
@click.argument("conversions", metavar="[CONVERSIONS]", required=False)
@file_output("spec.toml")
@quiet("Print no progress and no messages.")
def init(*, impressions: str, conversions: str | None, output: str, quiet: bool) -> None:
    from attributary.pipeline.draft_spec import draft_spec
    from attributary.tables import check_output

    if output != "-":
        if os.path.lexists(output):
            raise InputError(f"{output} is there already, and a spec is never overwritten; choose another name with -o")
        check_output(output, "csv")  # it could be written there
    with reading_bar(not quiet, lambda: 0) as bar:
        draft = draft_spec(impressions, conversions, "spec.toml" if output == "-" else output, report=bar)
    save(draft.text, output)
    if quiet:
        return
    for name, lines in (("recognised", draft.recognised), ("guessed", draft.guesses)):
        fact(**{name: list(lines)})
        for line in lines:
            say(one_line(f"{name}: {line}"))
    say(f"spec written to {output}: check what is guessed, then attributary run {output}" if output != "-" else "")

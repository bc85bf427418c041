"""attributary keys: a plan's keys, what to answer an impression and a conversion with, and the keys to query."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attributary.tree import Tree
    from attributary.types import Keys

TREE, DOMAIN = "tree.parquet", "domain.avro"
PLACEHOLDER = "https://shop.example"

ABOUT = """Turn a plan into the keys of the Attribution Reporting API.

\b
    $ attributary keys plan.json
    $ attributary keys plan.json --impression campaign=123,location=Paris \\
          --conversion day=Friday --destination https://shop.example
    $ attributary keys plan.json --impressions impressions.parquet -o query/

A KEY has 128 bits: a tag for the level, and a field for each attribute that the level has. Values of unknown attributes
are coded by their place in the domain; values of known ones are hashed, so that a campaign that is newer than the plan
has its key, too. Without other options the table of fields is shown. The first run writes the fields into the plan,
since keys that have been registered must not change: from then on they stay. Values with the same code are refused when
the tree is built; --bits and --values, given at the first run, are for that.

REGISTRATIONS: with --impression and --conversion, the two headers that a server answers with go to standard output, one
to a line. The source has the keys with the impression's part; the trigger has the conversion's part, which the browser
joins to them by OR, and what the conversion contributes to each level. The time from impression to conversion is not
given, as a server does not know it: the trigger has a piece for each of its buckets, and filters choose.

CLASSES: where campaigns, or nodes, have contributions of their own, the source says in its filter data which, and the
trigger lists them all. If there are more than --classes of them, similar ones are made the same; what that costs is
shown, and the plan is written so, as estimates need to know.

THE QUERY: with --impressions, the values that occurred (a table of impressions, CSV or Parquet, or of counts) make the
tree, with the full domain of unknown attributes. The folder -o then has tree.parquet, the nodes, and domain.avro, the
keys to query in the format of the aggregation service.
"""


@click.command(help=ABOUT, short_help="A plan's keys: registrations for an event, and the domain to query.")
@click.argument("plan", metavar="PLAN")
@click.option("--impression", metavar="A=X,B=Y", help="Known attributes of an impression: print its registration.")
@click.option("--conversion", metavar="C=Z", help="Unknown attributes of a conversion: print its registration.")
@click.option("--destination", metavar="SITE", multiple=True, help="Where conversions happen; up to 3 sites.")
@click.option(
    "--source-event-id", metavar="N", type=click.IntRange(0, 2**64 - 1), default=0, help="The impression's number."
)
@click.option(
    "--deduplication-key", metavar="N", type=click.IntRange(0, 2**64 - 1), help="The conversion's, as an order number."
)
@click.option("--impressions", metavar="FILE", multiple=True, help="Values that occurred: write tree and domain to -o.")
@click.option("--bits", "widths", multiple=True, metavar="A=N", help="At the first run: the bits of an attribute.")
@click.option("--values", multiple=True, metavar="A=X,Y", help="At the first run: all values of a known attribute.")
@click.option(
    "--classes", metavar="N", type=click.IntRange(2), help="At the first run: how many splits to tell apart. [50]"
)
@click.option(
    "-o", "--output", metavar="DIR", default="keys", show_default=True, help="The folder for tree and domain."
)
@click.option("-q", "--quiet", is_flag=True, help="No table, no words.")
def keys(
    *,
    plan: str,
    impression: str | None,
    conversion: str | None,
    destination: tuple[str, ...],
    source_event_id: int,
    deduplication_key: int | None,
    impressions: tuple[str, ...],
    output: str,
    quiet: bool,
    **wishes: Any,
) -> None:
    from attributary.api.ara.keys.domain import domain
    from attributary.api.ara.registration import registrations
    from attributary.cli.keyed import keyed, print_layout
    from attributary.cli.occurred import occurred
    from attributary.cli.outputs import check_folder, refuse_inputs
    from attributary.cli.progress import stages
    from attributary.cli.registered import assigned, checked, notes

    if impressions:
        check_folder(output)
        refuse_inputs([os.path.join(output, name) for name in (TREE, DOMAIN)], [plan, *impressions])
    made = keyed(plan, **wishes)
    ready = registrations(made.plan)
    headers = {}
    if impression is not None:
        seen = assigned("--impression", impression)
        sites = destination[0] if len(destination) == 1 else list(destination) or PLACEHOLDER
        headers["source"] = ready.source(seen, sites, event_id=source_event_id)
    if conversion is not None or (impression is not None and not ready.asks):
        done = assigned("--conversion", conversion or "")
        headers["trigger"] = ready.trigger(done, deduplication_key=deduplication_key)
    said = checked(headers)
    tree: Any = None
    with stages(not quiet) as stage:  # all of it before anything is written: keys that collide must not stay
        if impressions:
            stage("reading impressions")
            tree = occurred(made.plan.spec, impressions)
            stage(f"making the keys of {len(tree):,} nodes")
            wanted = domain(made.plan, tree)
            stage("writing")
            _write(tree, wanted, output, lambda: made.save(plan))
        else:
            made.save(plan)
    for line in said.headers:
        click.echo(line)
    if quiet:
        return
    if made.changed or not headers:
        print_layout(made, plan)
    for note in [*said.warnings, *notes(said.headers, ready, bool(destination), deduplication_key)]:
        click.echo(f"note: {note}", err=True)
    if impressions:
        without = f"; {len(tree) - len(wanted):,} nodes have none" if len(wanted) < len(tree) else ""
        nodes, asked = f"{len(tree):,} nodes written to {output}/tree.parquet", f"{len(wanted):,} keys"
        click.echo(f"{nodes}, {asked} to {output}/domain.avro{without}", err=True)


def _write(tree: "Tree", wanted: "Keys", folder: str, save_plan: Callable[[], None]) -> None:
    """Writes the tree and the domain to a folder, both or none, and before them the plan that they go with."""
    from attributary.api.ara.wire.avro import write_domain
    from attributary.tables import write_table
    from attributary.tables.whole_folder import whole_folder

    with whole_folder(folder, (TREE, DOMAIN)) as place:
        write_table(tree.table(), os.path.join(place, TREE))
        write_domain(os.path.join(place, DOMAIN), wanted)
        save_plan()

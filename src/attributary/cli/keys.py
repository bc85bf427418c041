"""attributary keys: a plan's keys, the headers for impressions and conversions, and the keys to query."""

import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import cluster_options, flag, on_cluster, option, quiet
from attributary.cli.printing import Out, fact, print_table, say, stages
from attributary.cli.reading import check_folder, refuse_inputs
from attributary.errors import InputError, brief
from attributary.types import Record
from attributary.whole_files import sole_writer, whole_folder

if TYPE_CHECKING:
    from attributary.api.attribution_api import AttributionApi, Clients, Message, Query
    from attributary.tree import Tree

TREE = "tree.parquet"
EVENT = click.IntRange(0, 2**64 - 1)
WISHES = ("bits", "values", "classes")  # for keys that are new; other options are for events

ABOUT = """Turn a plan into keys: headers for the server, and the domain to query.

\b
    $ attributary keys plan.json
    $ attributary keys plan.json --impressions impressions.parquet -o keys/
    $ attributary keys plan.json --impression campaign=123,location=Paris \\
          --conversion day=Friday --destination https://shop.example

The first run writes the layout of the keys into the plan, where it stays: keys that have been registered must not
change. If two values get the same code, make a new plan, and give --bits or --values at the first run.

With --impression and --conversion, the headers of a server's responses are written to standard output, one per line.

With --impressions, the folder -o gets tree.parquet (the nodes) and domain.avro (the keys to query). Give all
impressions whose conversions the reports can hold; if some are missing, say --partial.

Plans for BigQuery give SQL instead (queries.sql); plans for W3C Attribution give indexes (indexes.csv) and calls of a
page's script. With --engine spark, a cluster makes tree and domain, as folders of shards. More: docs/keys.md,
docs/cleanrooms.md, docs/w3c.md, docs/cluster.md
"""


@click.command(help=ABOUT, short_help="Turn a plan into keys: registrations, and the domain to query.")
@click.argument("plan", metavar="PLAN")
@option("--impression A=X,B=Y", "Known attributes of an impression: print its registration.")
@option("--conversion C=Z", "Unknown attributes of a conversion: print its registration.")
@option("--destination SITE", "Where conversions happen; up to 3 sites.", multiple=True)
@option("--source-event-id N", "Event id of the impression.", type=EVENT)
@option("--deduplication-key N", "Deduplication key of the conversion, such as an order number.", type=EVENT)
@option("--impressions FILE", "Impressions that occurred: write the query to -o.", multiple=True)
@flag("--partial", "State that --impressions lacks some of the impressions that reports can hold.")
@option("--bits A=N", "At the first run: bits of an attribute in a key.", multiple=True)
@option("--values A=X,Y", "At the first run: all values of a known attribute.", multiple=True)
@option(
    "--classes N",
    "At the first run: largest number of classes of contributions.  [default: 50]",
    type=click.IntRange(2, 10**9),
)
@cluster_options
@option("-o --output DIR", "Folder for tree and domain.", default="keys")
@quiet("Print no table and no messages.")
def keys(
    *,
    plan: str,
    impression: str | None,
    conversion: str | None,
    impressions: tuple[str, ...],
    partial: bool,
    engine: str,
    master: str | None,
    conf: tuple[str, ...],
    output: str,
    quiet: bool,
    **options: Any,
) -> None:
    from attributary import api
    from attributary.estimates import noted
    from attributary.pipeline.breakdowns import in_one_table
    from attributary.pipeline.read_prior import COVERS, read_tree
    from attributary.plan import Plan
    from attributary.tables import write_table

    loaded = Plan.load(plan)
    used = api.api_of(loaded.spec)
    wanted = _options(options, used)
    files = (TREE, used.query_file)
    if impressions:
        check_folder(output)
        click.get_current_context().with_resource(sole_writer(output))
        refuse_inputs([os.path.join(output, name) for name in files], [plan, *impressions])
    try:
        clients = api.clients(loaded, **{name: wanted.pop(name) for name in WISHES if name in wanted})
    except InputError as error:
        raise InputError(f"{plan}: {error}") from error
    cluster = on_cluster(engine, master, conf)
    if cluster is not None:
        _on_spark(cluster, clients, plan, impressions, partial, output, quiet)
        return
    messages: list[Message] = []
    trees: list[Tree] = []
    query: Query | None = None
    with stages(not quiet) as stage, ExitStack() as both:  # keys that collide must not stay: all is made before
        if impressions:
            stage("reading impressions")
            each = zip(loaded.spec.parts, loaded.names, strict=True)
            trees = [read_tree(part, impressions, name) for part, name in each]
            clients = clients.with_tree(trees[0])
        if impression is not None:
            messages += [clients.impression(_assigned("--impression", impression), **wanted)]
        if conversion is not None or (impression is not None and not clients.asks):
            messages += [clients.conversion(_assigned("--conversion", conversion or ""), **wanted)]
        nodes = sum(map(len, trees))
        if trees:
            stage(f"making the keys of {nodes:,} nodes")
            query = clients.query(*trees)
            stage("writing")
            place = both.enter_context(whole_folder(output, files))
            covers = {COVERS: "some" if partial else "all"}
            every = in_one_table(clients.plan.spec, [tree.table() for tree in trees])
            table = noted(every, plan=clients.plan.fingerprint, **covers)
            write_table(table, os.path.join(place, TREE))
            query.write(os.path.join(place, used.query_file))
        if clients.changed:  # before the folder takes its place
            clients.plan.save(plan)
    for message in messages:
        fact(registrations={"lines": message.lines, "notes": message.notes})
        for line in message.lines:
            click.echo(line)
    for line in clients.lines:
        click.echo(line)
    if quiet:
        return
    if clients.changed or not messages:
        _print_layout(clients, plan)
    for message in messages:
        for note in message.notes:
            say(f"note: {note}")
    if query is not None:
        lacking = nodes - (query.size if query.nodes is None else query.nodes)
        without = f"; {lacking:,} nodes are not measured" if query.nodes else f"; {lacking:,} nodes have none"
        written, keys_in_words = f"{nodes:,} nodes written to {output}/{TREE}", f"{query.size:,} {query.unit}"
        fact(nodes=nodes, keys=query.size)
        say(f"{written}, {keys_in_words} to {output}/{files[1]}{without if lacking else ''}")


def _on_spark(
    cluster: Any, clients: "Clients", path: str, impressions: tuple[str, ...], partial: bool, output: str, quiet: bool
) -> None:
    """Makes tree and domain on a cluster, and prints what they came to."""
    from attributary import api
    from attributary.pipeline.spark_nodes import keys_spark

    if not impressions:
        raise InputError("a cluster makes tree and domain of --impressions; give them, or leave --engine spark out")
    api.on_spark(clients.plan)  # refuses early what no cluster makes
    with cluster as engine, stages(not quiet) as stage:
        made = keys_spark(clients.plan, impressions, output, engine=engine, partial=partial, stage=stage)
        if clients.changed:
            clients.plan.save(path)
    fact(nodes=made.nodes, keys=made.keys)
    if not quiet:
        _print_layout(clients, path)
        query = api.api_of(clients.plan.spec).query_file
        say(f"{made.nodes:,} nodes written to {output}/{TREE}, {made.keys:,} keys to {output}/{query}")


def _options(options: Record, api: "AttributionApi") -> Record:
    """The options that were given, as values; refuses those that the plan's API does not have."""
    bits, values = (dict(_pairs(f"--{name}", options[name])) for name in ("bits", "values"))
    wrong = next((text for text in bits.values() if not (text.isascii() and text.isdigit())), None)
    if wrong is not None:
        raise InputError(f"--bits takes a whole number, as in --bits campaign=40; got {wrong!r}")
    read = {
        **options,
        "bits": {name: int(text) for name, text in bits.items()},
        "values": {name: tuple(text.split(",")) for name, text in values.items()},
        "destination": options["destination"][0] if len(options["destination"]) == 1 else list(options["destination"]),
    }
    wanted = {name: value for name, value in read.items() if value not in (None, {}, [])}
    for name in wanted:
        if name not in api.options:
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is not an option of the {api.terms.title}, which the plan is for; leave it out")
    return wanted


def _assigned(option: str, text: str) -> dict[str, str]:
    """The values in a=x,b=y; a comma is part of a value unless another name follows it."""
    values: dict[str, str] = {}
    for part in re.split(r",(?=[^,=]+=)", text) if text else []:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{option} takes values by name, as in campaign=123,location=Paris; got {brief(part)}")
        if name.strip() in values:
            raise InputError(f"{option} has {brief(name.strip())} twice; give it once")
        values[name.strip()] = value
    return values


def _pairs(option: str, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise InputError(f"{option} takes an attribute and its value, as in {option} campaign=…; got {name!r}")
    return [(name, value) for name, _, value in pairs]


def _print_layout(clients: "Clients", path: str) -> None:
    """Prints how keys are laid out, and whether they are new."""
    out = Out()
    out.print(f"{path}: {clients.heading}")
    if clients.table:
        print_table(out, [list(row) for row in clients.table])
    out.print()
    for note in clients.notes:
        out.print(note)
    first = clients.plan.breakdowns[0]
    what = "keys" if first.keys is not None else "indexes" if first.layout is not None else ""
    if what:
        stay = f"{path} has these {what} already; they stay as they are"
        out.print(f"{what} written to {path}" if clients.changed else stay)

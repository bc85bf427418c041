"""attributary plan: how much of the budget each level gets, and the error that each will have."""

from collections.abc import Callable
from typing import Any

import click

from attributary.cli.options import ESTIMATOR, chosen_estimator, method_option

ROUNDINGS = ["largest-remainder", "floor"]

ABOUT = """Split a privacy budget where it does most good.

SPEC is a TOML file that says what is asked: the attributes from top to bottom, and the budget.

\b
    epsilon = 4
    [[attribute]]
    name = "campaign"
    [[attribute]]
    name = "day"
    unknown = true          # only a conversion has it
    domain = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
\b
    $ attributary plan spec.toml --prior last_month.csv -o plan.json

THE PRIOR says which counts to expect. It is a table with a column for each attribute: either counts of an earlier
period (one row per leaf, a column conversions), or an earlier report, as `attributary denoise` wrote it (columns
estimate and variance), or a folder of earlier reports, of which older ones count less. Counts that were not protected
make a plan that gives a little of them away; it says so. Without a prior, --tree alone plans by the structure of the
tree.

THE TREE that is queried has the values of known attributes that occur in the table --tree, or else in the prior, and
the whole domain of unknown ones below each.

THE PLAN gives whole-number contributions for each level, which sum to L1 = 65,536. What is printed are the errors to
expect: the root mean squared error of a level's counts, each relative to its count, or to tau if that is larger.

\b
    $ attributary plan spec.toml --prior counts.csv --method all
    $ attributary plan spec.toml --prior counts.csv --what-if epsilon=1,2,4 \\
          --prior-period 14d --what-if period=7d,28d --what-if day=
    $ attributary plan spec.toml --prior estimates.csv --last plan.json \\
          -o next.json

WHAT IF something else were asked? --what-if, as often as you like, makes one table of it: other budgets (epsilon=1,2),
guards (guard=1.1,none), a shorter or longer period (period=7d,28d, with --prior-period: how long the prior's was), a
coarser attribute (location=country, a column of the prior, or location=map.csv:country, a column of a table beside
location), or one less (location=). What is to be changed together goes into one text: "period=28d; location=country".

TARGETS say what is needed: error = 0.02 at an attribute keeps its level's error within 2 %, and the rest of the budget
goes to the average; epsilon = "auto" finds the least budget that meets all of them. Unless the spec says otherwise
(guard = 2), no level has more than twice its error under an equal split.

\b
    $ attributary plan spec.toml --prior counts.csv --target campaign=5%

WITH --estimator learned or posterior, the plan and the errors it prints assume `attributary denoise --prior`. Should
the prior then be worth nothing, unbiased estimates have an error at most 25 % above that of the best plan for them. For
--estimator nonnegative the plan is the same, and the errors are those of unbiased estimates, which are larger. Without
an earlier period all of them are planned for as unbiased ones.
"""


@click.command(help=ABOUT, short_help="Split a privacy budget where it does most good.")
@click.argument("spec", metavar="SPEC")
@click.option(
    "--prior",
    "prior_path",
    metavar="FILE|DIR",
    help="Counts of an earlier period, an earlier report, or a folder of them.",
)
@click.option("--protected", is_flag=True, help="The counts in --prior were protected themselves.")
@click.option(
    "--tree", "tree_path", metavar="FILE", help="Tables of the values to query; patterns are fine. [the prior's]"
)
@method_option("all")
@ESTIMATOR
@click.option(
    "--target", multiple=True, metavar="LEVEL=ERROR", help="Keep a level's error within this, as in campaign=5%."
)
@click.option("--share", multiple=True, metavar="LEVEL=PART", help="Fix a level's part of epsilon; 0 leaves it out.")
@click.option("--keep", multiple=True, metavar="LEVEL", help="Give this level at least half of an equal share.")
@click.option("--phases", type=click.IntRange(1, 1000), default=20, show_default=True, help="Of the greedy method.")
@click.option(
    "--rounding",
    type=click.Choice(ROUNDINGS),
    default="largest-remainder",
    show_default=True,
    help="floor may leave a little of L1.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="epsilon=1,2,4",
    help="Also print the errors under other budgets, periods (period=7d,28d) or levels (location=country).",
)
@click.option(
    "--prior-period", metavar="SPAN", help="How long the prior's period was, as in 14d: for --what-if period."
)
@click.option("--last", metavar="PLAN", help="Also compare with an earlier plan.")
@click.option("-o", "--output", metavar="FILE", help="Where to write the plan, as JSON; - is standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No table, no words.")
def plan(
    *,
    spec: str,
    prior_path: str | None,
    protected: bool,
    tree_path: str | None,
    method: str,
    estimator: str | None,
    target: tuple[str, ...],
    share: tuple[str, ...],
    keep: tuple[str, ...],
    what_if: tuple[str, ...],
    prior_period: str | None,
    last: str | None,
    output: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    from attributary.cli.print_plan import Earlier, print_methods, print_plan, print_what_if
    from attributary.cli.printing import say, warn_first
    from attributary.cli.progress import stages
    from attributary.cli.reading import refuse_inputs
    from attributary.pipeline.read_changes import read_changes
    from attributary.pipeline.read_prior import profiled
    from attributary.pipeline.read_tree import read_tree_and_prior
    from attributary.plan import Plan, make_plan
    from attributary.plan import what_if as variants
    from attributary.plan.make import methods_for, why_not_learned
    from attributary.spec import Spec
    from attributary.whole_files import save

    kind = chosen_estimator(estimator, joint=False, whole=False).kind
    by_node = _check(method, output, estimator if kind.plan is True else None)
    refuse_inputs(_files(output, by_node), [spec, prior_path, tree_path, last])
    asks = Spec.load(spec)
    first = asks.levels[0]
    errors = _by_level(target, _error, f"--target takes a level and an error, as in {first}=5%")
    shares = _by_level(share, float, f"--share takes a level and its part of epsilon, as in {first}=0.25")
    asks = asks.with_targets(errors) if errors else asks
    options |= {"share": shares, "keep": keep}
    changes = read_changes(what_if, asks, prior_path, prior_period)
    earlier = Plan.load(last).under(asks) if last else None
    with stages(not quiet) as stage:
        stage("reading")
        tree, prior, table = read_tree_and_prior(asks, tree_path, prior_path, protected)
        options["profile"] = profiled(asks, tree, prior_path, table)
        plans = {}
        methods = methods_for(asks) if method == "all" else [method]
        why_not = {name: why_not_learned(asks, prior, name, options["profile"]) for name in methods if kind.plan}
        for name in methods:
            stage(f"splitting the budget of {len(tree):,} nodes, {name}")
            learn = False if why_not.get(name) else kind.plan
            plans[name] = make_plan(asks, tree, prior, name, learn=learn, **options)
        chosen = plans["optimal" if method == "all" else method]
        others = []
        for variant in variants(chosen, tree, prior, changes, **options):
            stage(f"tried {variant.change.words}")
            others.append(variant)
        beside = None if earlier is None else Earlier.of(last or "", earlier, chosen, tree, prior, options["profile"])
        if output:
            stage("writing")
            if output == "-":
                save(chosen.to_json(), output)
            else:
                chosen.save(output)
    if quiet:
        return
    warn_first(prior.misfit(tree))
    if method == "all":
        print_methods(plans, beside)
    else:
        print_plan(chosen, tree, prior, prior_path, beside)
    if others:
        print_what_if(chosen, others)
    if kind.plan is True and not chosen.learn:
        say(f"planned as for unbiased estimates: {why_not[chosen.method]}")
    where = "standard output" if output == "-" else output
    say(f"plan written to {where}" if output else "nothing written; -o plan.json keeps a plan")


def _files(path: str | None, by_node: bool) -> list[str]:
    """A plan's files: the plan and, if it goes by node, its nodes."""
    from attributary.plan.plan_file import beside

    return [] if path is None else [path, beside(path)] if by_node and path != "-" else [path]


def _check(method: str, output: str | None, estimator: str | None) -> bool:
    """Refuses early what could not be made or written; gives whether the plan goes by node."""
    from attributary.budget import METHODS
    from attributary.errors import InputError
    from attributary.tables import check_output

    by_node = method in METHODS and METHODS[method].by_node
    if estimator and not (method in METHODS and METHODS[method].learns):
        wanted = " or ".join(name for name, each in METHODS.items() if each.learns)
        raise InputError(f"--estimator {estimator} goes with --method {wanted}; got {method}: leave one of them out")
    if output and method not in METHODS:
        raise InputError(f"a plan is of one method; got --method {method} and -o: compare first, then write one")
    if output == "-" and by_node:
        raise InputError("a plan by node has two files, the plan and its nodes; give -o a name, as in plan.json")
    if output:
        check_output(output, "csv")  # it could be written there; as what is ours to say
    return by_node


def _error(text: str) -> float | str:
    """The error in 5%, 0.05 or equal."""
    number = text.strip().removesuffix("%")
    return text if text == "equal" else float(number) / (1 if number == text.strip() else 100)


def _by_level(texts: tuple[str, ...], read: Callable[[str], Any], rule: str) -> dict[str, Any]:
    """What stands behind the = in each text, by what stands before it."""
    from attributary.errors import InputError

    values = {}
    for given in texts:
        level, _, text = given.rpartition("=")
        try:
            values[level] = read(text)
        except ValueError:
            raise InputError(f"{rule}; got {given}") from None
    return values

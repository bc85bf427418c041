"""attributary plan: split the budget among levels, and print the expected errors."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import ESTIMATOR, choice, chosen_estimator, method_option, option, prior_options, quiet
from attributary.cli.printing import place_of, say, stages, warn_first
from attributary.cli.reading import refuse_inputs
from attributary.errors import InputError
from attributary.types import Record
from attributary.whole_files import save

if TYPE_CHECKING:
    from attributary.spec import Spec

ROUNDINGS = ["largest-remainder", "floor"]

ABOUT = """Split a privacy budget where it does the most good.

\b
    $ attributary plan spec.toml --prior counts.parquet -o plan.json
    $ attributary plan spec.toml --prior counts.parquet --method all
    $ attributary plan spec.toml --prior counts.parquet --target campaign=20%
    $ attributary plan spec.toml --prior counts.parquet \\
          --what-if epsilon=1,2,4 --what-if day=

SPEC is a TOML file with the attributes from top to bottom, and the budget:

\b
    epsilon = 4
    [[attribute]]
    name = "campaign"
    [[attribute]]
    name = "day"
    unknown = true          # known only at conversion time
    domain = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

THE PRIOR says which counts to expect: counts of an earlier period, a report of `attributary denoise`, or a folder of
earlier reports. A plan reveals a little about counts that were not protected, and says so. Without a prior, --tree
plans by the structure of the tree.

THE PLAN has whole-number contributions for each level. The errors that are printed are root mean square errors, each
relative to the count, or to tau if that is larger. With --estimator learned or posterior, plan and errors assume
`attributary denoise --prior`.

--what-if compares other budgets (epsilon=1,2), guards (guard=1.1,none), periods (period=7d,28d, with --prior-period),
coarser attributes (location=country) or fewer (location=). Join changes by a semicolon. More: docs/plan.md
"""


@click.command(help=ABOUT, short_help="Split a privacy budget where it does the most good.")
@click.argument("spec", metavar="SPEC")
@prior_options
@option("--tree FILE", "Tables or patterns with the values to query.  [default: the prior's]", "tree_path")
@method_option("all")
@ESTIMATOR
@option("--target LEVEL=ERROR", "Keep a level's error within this, as in campaign=5%.", multiple=True)
@option("--share LEVEL=PART", "Fix a level's part of epsilon; 0 leaves it out.", multiple=True)
@option("--keep LEVEL", "Give this level at least half of an equal share.", multiple=True)
@option("--phases", "Phases of the greedy method.", type=click.IntRange(1, 1000), default=20)
@choice(
    "--rounding",
    ROUNDINGS,
    "Rounding of contributions; floor may leave a little of L1 unused.",
    default="largest-remainder",
)
@option(
    "--what-if epsilon=1,2,4",
    "Also print the errors under other budgets, periods (period=7d,28d) or levels (location=country).",
    multiple=True,
)
@option("--prior-period SPAN", "How long the prior's period was, as in 14d: for --what-if period.")
@option("--last PLAN", "Also compare with an earlier plan.")
@option("-o --output FILE", "Where to write the plan, as JSON; - is standard output.")
@quiet("Print nothing.")
def plan(
    *,
    spec: str,
    prior: str | None,
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
    from attributary.cli.print_results import print_methods, print_plan, print_what_if
    from attributary.facts.plan import Earlier
    from attributary.pipeline.read_changes import read_changes
    from attributary.pipeline.read_prior import read_tree_and_prior
    from attributary.plan import Plan, make_plan
    from attributary.plan import file as plan_file
    from attributary.plan import what_if as variants
    from attributary.plan.make import methods_for, why_not_learned
    from attributary.plan.variants import of_noise
    from attributary.spec import Spec

    kind = chosen_estimator(estimator, joint=False, whole=False).kind
    by_node = _check(method, output, estimator if kind.plan is True else None)
    nodes = plan_file.beside(output) if output and by_node else None
    refuse_inputs([output, nodes], [spec, prior, tree_path, last])
    asks = Spec.load(spec)
    if asks.breakdowns is not None:
        given = {"--target": target, "--share": share, "--keep": keep, "--what-if": what_if, "--last": last}
        _plan_breakdowns(asks, [prior, tree_path, output], protected, method, given, quiet, options)
        return
    first = asks.levels[0]
    errors = _by_level(target, _error, f"--target takes a level and an error, as in {first}=5%")
    shares = _by_level(share, float, f"--share takes a level and its part of epsilon, as in {first}=0.25")
    asks = asks.with_targets(errors) if errors else asks
    options |= {"share": shares, "keep": keep}
    changes = read_changes(what_if, asks, prior, prior_period)
    earlier = Plan.load(last).under(asks) if last else None
    with stages(not quiet) as stage:
        stage("reading")
        tree, known = read_tree_and_prior(asks, tree_path, prior, protected)
        options["profile"] = known.profile
        plans = {}
        methods = methods_for(asks) if method == "all" else [method]
        why_not = {name: why_not_learned(asks, known, name, options["profile"]) for name in methods if kind.plan}
        for name in methods:
            stage(f"splitting the budget of {len(tree):,} nodes, {name}")
            learn = False if why_not.get(name) else kind.plan
            plans[name] = make_plan(asks, tree, known, name, learn=learn, **options)
        chosen = plans["optimal" if method == "all" else method]
        others = []
        for variant in variants(chosen, tree, known, changes, **options):
            stage(f"tried {variant.change.words}")
            others.append(variant)
        beside = None if earlier is None else Earlier.of(last or "", earlier, chosen, tree, known, options["profile"])
        if output:
            stage("writing")
            chosen.save(output)
    if quiet:
        return
    warn_first(known.misfit(tree))
    if method == "all":
        print_methods(plans, beside)
    else:
        print_plan(chosen, tree, known, prior, beside)
    if others:
        print_what_if(chosen, others, of_noise(chosen, tree, known, options["profile"]))
    if kind.plan is True and not chosen.learn:
        say(f"planned as for unbiased estimates: {why_not[chosen.method]}")
    say(f"plan written to {place_of(output)}" if output else "nothing written; -o plan.json keeps a plan")


def _plan_breakdowns(
    asks: "Spec",
    paths: list[str | None],
    protected: bool,
    method: str,
    of_one: Record,
    quiet: bool,
    options: Record,
) -> None:
    """Plans a spec of several breakdowns; `paths` are of the prior, the tree and the output."""
    from attributary.cli.print_results import print_joint_plan
    from attributary.pipeline.breakdowns import trees_and_priors
    from attributary.plan import make_joint_plan

    option = next((name for name, value in of_one.items() if value), "")
    if option or method == "all":
        raise InputError(
            f"{option or '--method all'} is of one tree, and this spec has several breakdowns; leave it out"
        )
    prior_path, tree_path, output = paths
    with stages(not quiet) as stage:
        stage("reading")
        known = trees_and_priors(asks, tree_path, prior_path, protected)
        trees, priors = [one.tree for one in known], [one.prior for one in known]
        stage(f"splitting the budget of {sum(map(len, trees)):,} nodes in {len(trees)} breakdowns, {method}")
        profiles = [prior.profile for prior in priors]
        plan = make_joint_plan(asks, trees, priors, method, profiles=profiles, **options)
        if output:
            stage("writing")
            save(plan.to_json(), output)
    if quiet:
        return
    for tree, prior in zip(trees, priors, strict=True):
        warn_first(prior.misfit(tree))
    print_joint_plan(plan, trees, priors, prior_path)
    say(f"plan written to {place_of(output)}" if output else "nothing written; -o plan.json keeps a plan")


def _check(method: str, output: str | None, estimator: str | None) -> bool:
    """Refuses early what could not be made or written; gives whether the plan goes by node."""
    from attributary.budget import METHODS
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
        check_output(output, "csv")  # only checks that the place is writable
    return by_node


def _error(text: str) -> float | str:
    """The error in 5%, 0.05 or equal."""
    number = text.strip().removesuffix("%")
    return text if text == "equal" else float(number) / (1 if number == text.strip() else 100)


def _by_level(texts: tuple[str, ...], read: Callable[[str], object], rule: str) -> Record:
    """What stands behind the = in each text, by what stands before it."""
    values = {}
    for given in texts:
        level, _, text = given.rpartition("=")
        try:
            values[level] = read(text)
        except ValueError:
            raise InputError(f"{rule}; got {given}") from None
    return values

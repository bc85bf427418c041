"""attributary plan: split the budget among levels, and print the expected errors."""

from collections.abc import Callable
from typing import Any

import click

from attributary.cli.options import ESTIMATOR, choice, chosen_estimator, method_option, option, prior_options, quiet
from attributary.cli.printing import place_of, say, stages, warn_first
from attributary.cli.reading import refuse_inputs
from attributary.errors import InputError
from attributary.types import Record

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
    from attributary.cli.print_results import print_methods, print_plans, print_what_if
    from attributary.estimators import FIT, refuse_estimator
    from attributary.facts.plan import Earlier
    from attributary.pipeline.read_changes import read_changes
    from attributary.pipeline.read_prior import trees_and_priors
    from attributary.plan import Plan, make_plan
    from attributary.plan import file as plan_file
    from attributary.plan import what_if as variants
    from attributary.plan.make import methods_for, why_not_learned
    from attributary.plan.variants import of_noise
    from attributary.spec import Spec

    chosen_one = chosen_estimator(estimator, joint=False, whole=False)
    kind = chosen_one.kind
    by_node = _check(method, output, estimator if kind.plan is True else None)
    nodes = plan_file.beside(output) if output and by_node else None
    refuse_inputs([output, nodes], [spec, prior, tree_path, last])
    asks = Spec.load(spec)
    several = len(asks.parts) > 1
    if several:
        refuse_estimator(FIT if kind is FIT.kind else chosen_one)
        _refuse_of_one(target=target, share=share, keep=keep, what_if=what_if, last=last, method=method == "all")
    first = asks.levels[0]
    errors = _by_level(target, _error, f"--target takes a level and an error, as in {first}=5%")
    shares = _by_level(share, float, f"--share takes a level and its part of epsilon, as in {first}=0.25")
    asks = asks.with_targets(errors) if errors else asks
    options |= {"share": shares, "keep": keep}
    changes = read_changes(what_if, asks, prior, prior_period)
    earlier = Plan.load(last).under(asks) if last else None
    with stages(not quiet) as stage:
        stage("reading")
        trees, priors = zip(*trees_and_priors(asks, tree_path, prior, protected), strict=True)
        profiles = [known.profile for known in priors]
        of_one = (trees[0], priors[0], profiles[0])  # what looks at one breakdown
        plans = {}
        methods = methods_for(asks) if method == "all" else [method]
        why_not = {name: why_not_learned(asks, priors[0], name, profiles[0]) for name in methods if kind.plan}
        nodes = f"{sum(map(len, trees)):,} nodes" + f" in {len(trees)} breakdowns" * several
        for name in methods:
            stage(f"splitting the budget of {nodes}, {name}")
            learn = False if several or why_not.get(name) else kind.plan
            plans[name] = make_plan(asks, trees, priors, name, learn=learn, profile=profiles, **options)
        chosen = plans["optimal" if method == "all" else method]
        others = []
        for variant in variants(chosen, *of_one[:2], changes, profile=profiles[0], **options):
            stage(f"tried {variant.change.words}")
            others.append(variant)
        beside = None if earlier is None else Earlier.of(last or "", earlier, chosen, *of_one)
        if output:
            stage("writing")
            chosen.save(output)
    if quiet:
        return
    for tree, known in zip(trees, priors, strict=True):
        warn_first(known.misfit(tree))
    if method == "all":
        print_methods(plans, beside)
    else:
        print_plans(chosen, list(zip(trees, priors, strict=True)), prior, beside)
    if others:
        print_what_if(chosen, others, of_noise(chosen, *of_one))
    if kind.plan is True and not chosen.learn and not several:
        say(f"planned as for unbiased estimates: {why_not[chosen.method]}")
    say(f"plan written to {place_of(output)}" if output else "nothing written; -o plan.json keeps a plan")


def _refuse_of_one(**given: object) -> None:
    """Refuses options that are of one tree, where there are several breakdowns."""
    option = next((name for name, value in given.items() if value), "").replace("_", "-")
    if option:
        words = f"--{option}" + " all" * (option == "method")
        raise InputError(f"{words} is of one tree, and this spec has several breakdowns; leave it out")


def _check(method: str, output: str | None, estimator: str | None) -> bool:
    """Refuses early what could not be made or written; gives whether the plan goes by node."""
    from attributary.budget import METHODS
    from attributary.tables import check_output

    by_node = method in METHODS and METHODS[method].by_node
    if estimator and not (method in METHODS and METHODS[method].learns):
        wanted = " or ".join(name for name, each in METHODS.items() if each.learns)
        raise InputError(f"--estimator {estimator} goes with --method {wanted}; got {method}: leave one of them out")
    if output and method not in METHODS:
        raise InputError(f"a plan has one method; got --method {method} and -o: compare first, then write one")
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

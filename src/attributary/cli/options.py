"""options: options that mean the same in several commands."""

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from attributary.kernel import limit_threads

if TYPE_CHECKING:
    from attributary.estimators import Estimator

MOST_AT_ONCE = 1024  # threads or processes
BETWEEN_0_AND_1 = click.FloatRange(0, 1, min_open=True, max_open=True)


class TextOrFile(click.types.StringParamType):
    """Text that a shell may complete by the names of files: most arguments are such."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class NameOf(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name in a registry, which is imported when a name is to be looked up."""

    name = "name"

    def __init__(self, registry: Callable[[], Iterable[str]]) -> None:
        self.registry = registry

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.registry())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return click.Choice(list(self.registry())).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return click.Choice(list(self.registry())).shell_complete(ctx, param, incomplete)


def _estimators() -> Iterable[str]:
    from attributary.estimators import offered

    return offered()


class EstimatorOption(click.Option):
    """The option --estimator, whose help says what each of them gives."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from attributary.estimators import ESTIMATORS, offered

        each = "; ".join(f"{name}: {ESTIMATORS[name].words}" for name in offered())
        default = "unbiased, or learned with a prior" if ctx.command.name == "denoise" else "unbiased"
        self.help = f"{each}.  [default: {default}]"
        return super().get_help_record(ctx)


def method_option(*more: str) -> Callable[[Any], Any]:
    """--method; `more` are words beside the names of methods, as "all", which compares them."""

    def names() -> Iterable[str]:
        from attributary.budget import METHODS

        return [*METHODS, *more]

    words = "How the budget is split" + "".join(f"; {name} compares them" for name in more) + "."
    return click.option("--method", type=NameOf(names), default="optimal", show_default=True, help=words)


Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Option) -> Option:
    """Options that several commands have, as one: they add them all, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def threads(command: Callable[..., Any]) -> Callable[..., Any]:
    """--threads: for DuckDB, to which the command hands it, and for the compiled passes, which have it from here."""
    help_ = "Threads of DuckDB and of the compiled passes.  [default: all cores]"

    @wraps(command)
    def limited(*, threads: int | None, **params: Any) -> Any:
        with limit_threads(threads):
            return command(threads=threads, **params)

    return click.option("--threads", type=click.IntRange(1, MOST_AT_ONCE), metavar="NUMBER", help=help_)(limited)


duckdb_limits = together(
    click.option("--memory", metavar="SIZE", help="Memory limit of DuckDB, as in 4GB.  [default: 80 % of RAM]"),
    click.option(
        "--temp", metavar="DIR", help="Folder for what does not fit into memory.  [default: the temporary folder]"
    ),
    threads,
)
engine_options = together(
    click.option(
        "--engine",
        type=click.Choice(["duckdb", "spark"]),
        default="duckdb",
        show_default=True,
        help="Engine to run on.",
    ),
    duckdb_limits,
    click.option("--master", metavar="URL", help="Spark master.  [default: the running session, or this machine]"),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."),
)
period_options = together(  # the impressions that count, by their time
    click.option("--from", "--since", "since", metavar="TIME", help="Count impressions from this time on."),
    click.option("--until", metavar="TIME", help="Count impressions before this time."),
)
ESTIMATOR = click.option("--estimator", cls=EstimatorOption, type=NameOf(_estimators))
estimator_options = together(
    ESTIMATOR,
    click.option("--joint", is_flag=True, help="With nonnegative: fit all counts at once, not family by family."),
    click.option("--whole", is_flag=True, help="Round the estimates to whole numbers that add up."),
    click.option(
        "--confidence", type=BETWEEN_0_AND_1, default=0.95, show_default=True, help="Confidence level of the intervals."
    ),
)
amount_options = together(  # the figures of a table, and their noise
    click.option("--value", metavar="COLUMN", help="Column of noisy figures.  [default: recognised]"),
    click.option("--variance", metavar="AMOUNT", help="Variance of the noise."),
    click.option("--std", metavar="AMOUNT", help="Standard deviation of the noise, instead of --variance."),
)
form_options = together(  # how a table is read
    click.option(
        "--total", "totals", multiple=True, metavar="LABEL", help="A label that marks totals, as in --total ALL."
    ),
    click.option("--no-totals", is_flag=True, help="Treat labels such as ALL as ordinary ones."),
    click.option(
        "--suppressed", multiple=True, metavar="TEXT", help="Text of a suppressed cell, as in '<5' or '*=1..4'."
    ),
    click.option("--empty", type=click.Choice(["unmeasured", "zero"]), help="What empty figures mean."),
    click.option(
        "--missing",
        type=click.Choice(["unmeasured", "zero"]),
        help="What missing rows mean.  [default: unmeasured where labels or sums show that some are missing]",
    ),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal separator, if it cannot be detected."),
    click.option("--separator", metavar="CHARACTER", help="Field delimiter, if it cannot be detected: ';' or tab."),
    click.option("--sheet", metavar="NAME", help="Sheet of a spreadsheet.  [default: the only one with a table]"),
    click.option("--wide", metavar="LEVEL", help="Level that a pivot's columns are the labels of, as in day."),
)


def chosen_estimator(name: str | None, joint: bool, whole: bool, prior: str | None = None) -> "Estimator":
    """The chosen estimator; a prior without a name means `learned`."""
    from attributary.estimators import Estimator

    chosen = Estimator(name or ("learned" if prior else "nonnegative" if joint else "unbiased"), joint, whole)
    chosen.refuse_unused(prior)
    return chosen

"""options: options that mean the same in several commands."""

from collections.abc import Callable, Iterable
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from attributary.errors import InputError
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

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
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


Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(words: str, about: str, to: str = "", **how: Any) -> Option:
    """An option by its flags and what it takes, as in `-o --output FILE`; its help shows what it is by default.

    `to` is the parameter that gets it, where that has another name.
    """
    flags = words.split()
    if not flags[-1].startswith("-"):
        how["metavar"] = flags.pop()
    how["show_default"] = how.get("default") not in (None, "") and "[default" not in about
    return click.option(*flags, *filter(None, [to]), help=about, **how)


def flag(words: str, about: str) -> Option:
    """An option that is on or off."""
    return option(words, about, is_flag=True)


def choice(words: str, values: Iterable[str], about: str, default: str | None = None, to: str = "") -> Option:
    """An option with a few values."""
    return option(words, about, to, type=click.Choice(list(values)), default=default)


def quiet(about: str = "Print nothing but privacy warnings.") -> Option:
    return flag("-q --quiet", about)


def file_output(default: str = "-", about: str = "File to write; - is standard output.") -> Option:
    return option("-o --output FILE", about, default=default)


def format_option(formats: Iterable[str], about: str = "Output format.  [default: by the file's ending]") -> Option:
    return choice("--format", formats, about, to="format_")


def method_option(*more: str) -> Option:
    """--method; `more` are words beside the names of methods, as "all", which compares them."""

    def names() -> Iterable[str]:
        from attributary.budget import METHODS

        return [*METHODS, *more]

    words = "How the budget is split" + "".join(f"; {name} compares them" for name in more) + "."
    return option("--method", words, type=NameOf(names), default="optimal")


def together(*options: Option) -> Option:
    """Options that several commands have, as one: they add them all, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def threads(command: Callable[..., object]) -> Callable[..., Any]:
    """--threads: for DuckDB, to which the command hands it, and for the compiled passes, which have it from here."""
    about = "Threads of DuckDB and of the compiled passes.  [default: all cores]"

    @wraps(command)
    def limited(*, threads: int | None, **params: object) -> object:
        with limit_threads(threads):
            return command(threads=threads, **params)

    return option("--threads NUMBER", about, type=click.IntRange(1, MOST_AT_ONCE))(limited)


spark_options = together(
    option("--master URL", "Spark master.  [default: the running session, or this machine]"),
    option("--conf KEY=VALUE", "A setting of Spark; repeatable.", multiple=True),
)
engine_options = together(
    choice("--engine", ["duckdb", "spark"], "Engine to run on.", "duckdb"),
    option("--memory SIZE", "Memory limit of DuckDB, as in 4GB.  [default: 80 % of RAM]"),
    option("--temp DIR", "Folder for what does not fit into memory.  [default: the temporary folder]"),
    threads,
    spark_options,
)
cluster_options = together(choice("--engine", ["duckdb", "spark"], "Engine to run on.", "duckdb"), spark_options)
period_options = together(  # the impressions that count, by their time
    option("--from --since TIME", "Count impressions from this time on.", "since"),
    option("--until TIME", "Count impressions before this time."),
)
prior_options = together(
    option("--prior FILE|DIR", "Counts of an earlier period, an earlier report, or a folder of them."),
    flag("--protected", "The counts in --prior were protected."),
)
ESTIMATOR = click.option("--estimator", cls=EstimatorOption, type=NameOf(_estimators))
estimator_options = together(
    ESTIMATOR,
    flag("--joint", "With nonnegative: fit all counts at once, not family by family."),
    flag("--whole", "Round the estimates to whole numbers that add up."),
    option("--confidence", "Confidence level of the intervals.", type=BETWEEN_0_AND_1, default=0.95),
)
noise_seed = option("--seed", "Seed of the noise, for tests: NOT private.", type=click.IntRange(0))
row_count = click.IntRange(1, 10**10)
tau_option = option(
    "--tau", "Errors are relative to the count, or to this if larger.  [default: the plan's, 10]", type=float
)


def levels_option(when: str) -> Option:
    """--levels as a list of columns, with when it is needed."""

    def listed(ctx: click.Context, param: click.Parameter, text: str | None) -> list[str] | None:
        return [name.strip() for name in text.split(",")] if text else None

    return option("--levels A,B,C", f"Columns of the hierarchy, top to bottom, {when}", callback=listed)


amount_options = together(  # the figures of a table, and their noise
    option("--value COLUMN", "Column of noisy figures.  [default: recognised]"),
    option("--variance AMOUNT", "Variance of the noise."),
    option("--std AMOUNT", "Standard deviation of the noise, instead of --variance."),
)
UNTOLD = ["unmeasured", "zero"]
form_options = together(  # how a table is read
    option("--total LABEL", "A label that marks totals, as in --total ALL.", "totals", multiple=True),
    flag("--no-totals", "Treat labels such as ALL as ordinary ones."),
    option("--suppressed TEXT", "Text of a suppressed cell, as in '<5' or '*=1..4'.", multiple=True),
    choice("--empty", UNTOLD, "What empty figures mean."),
    choice(
        "--missing",
        UNTOLD,
        "What missing rows mean.  [default: unmeasured where labels or sums show that some are missing]",
    ),
    choice("--decimal", ".,", "Decimal separator, if it cannot be detected."),
    option("--separator CHARACTER", "Field delimiter, if it cannot be detected: ';' or tab."),
    option("--sheet NAME", "Sheet of a spreadsheet.  [default: the only one with a table]"),
    option("--wide LEVEL", "Level whose labels are the columns of a pivot table, as in day."),
)


def on_cluster(engine: str, master: str | None, conf: tuple[str, ...]) -> Any:
    """The engine of a cluster for a `with` statement; None on this machine, where a command needs no engine."""
    if engine == "spark":
        from attributary.logs.count import make_engine

        return make_engine(engine, master=master, conf=conf)
    for name, value in (("master", master), ("conf", conf)):
        if value:
            raise InputError(f"--{name} is an option of Spark; add --engine spark, or leave it out")
    return None


def chosen_estimator(name: str | None, joint: bool, whole: bool, prior: str | None = None) -> "Estimator":
    """The chosen estimator; a prior without a name means `learned`."""
    from attributary.estimators import Estimator

    chosen = Estimator(name or ("learned" if prior else "nonnegative" if joint else "unbiased"), joint, whole)
    chosen.refuse_unused(prior)
    return chosen

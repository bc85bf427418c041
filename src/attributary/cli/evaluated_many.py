"""evaluated_many: cases of measures, or of several conversions to an impression, and what is told of their errors."""

from typing import Any

import click

from attributary.cli.asked import asked
from attributary.cli.printing import console, percent, print_table
from attributary.errors import InputError
from attributary.evaluate.comparison import tree_errors
from attributary.evaluate.measure_cases import MeasureCase
from attributary.pipeline.level_columns import refused
from attributary.pipeline.read_prior import earlier, of_measure, profiled
from attributary.prior import from_counts
from attributary.profile import profile
from attributary.spec import Spec
from attributary.spec.measure import COUNT
from attributary.tables import read_table, shown


def many_cases(
    spec: Spec, name: str, logs: tuple[Any, Any, bool] | None, counts: str | None, prior: str | None, noises: Any
) -> list[MeasureCase]:
    """The cases of the logs' counts, or of a file of counts; the prior is a file, earlier rows, or the counts."""
    known = [attribute.name for attribute in spec.known]
    after, before, made = logs or (None, None, False)
    path = prior or counts
    if counts is not None and path is not None:
        _refuse_report(counts)
        tree, said = asked(spec, counts, path, False)
        measured = profiled(spec, tree, counts)
    else:
        with refused(name):
            tree = spec.tree(after)
            measured = profile(tree, spec, after)
        if path is not None:
            said = earlier(tree, known, of_measure(read_table(path), spec, path), path)
    if path is not None:
        told = profiled(spec, tree, path)
    else:
        with refused(name):
            table = after if before is None else before
            said, told = from_counts(tree, table, known=known), profile(tree, spec, table)
    if measured is None or told is None:
        raise InputError(f"{name}: one conversion to an impression, and nothing but counts: there is no limit to try")
    return MeasureCase.cases(name, spec, tree, measured, said, told, noises, made)


def _refuse_report(path: str) -> None:
    if "estimate" in read_table(path).column_names:
        raise InputError(
            f"{shown(path)} is a report, which does not tell what limits cut off; give counts, as `attributary count` "
            "writes them for this spec"
        )


def refuse_options(given: click.Context) -> None:
    """Refuses what is for counts of one conversion to an impression."""
    from click.core import ParameterSource

    if given.get_parameter_source("prior_epsilon") == ParameterSource.COMMANDLINE:
        raise InputError(
            "--prior-epsilon is for counts of one conversion to an impression: limits are chosen from the prior's "
            "counts as they are; leave it out"
        )


def print_limits(table: Any) -> None:
    """Prints the method of least error over all measures for all limits, and its errors of each, to standard error."""
    panels: dict[Any, dict[str, list[dict[str, Any]]]] = {}
    for row in tree_errors(table):
        panel = panels.setdefault(tuple(row[name] for name in ("dataset", "tree", "noise", "tau", "epsilon")), {})
        panel.setdefault(row["limits"], []).append(row)
    out = console()
    for (dataset, tree, noise, tau, epsilon), limits in panels.items():
        names = list(dict.fromkeys(row["measure"] for rows in limits.values() for row in rows if row["measure"]))
        values = [name for name in names if name != COUNT]
        heads = ["limits", "by", *(["together"] if len(names) > 1 else [])]
        heads += [head for name in names for head in (name, "cut off")]
        more = ["m", *(f"{name} clip" if len(values) > 1 else "clip" for name in values)]
        lines = [_line(rows, names, values) for rows in limits.values()]
        out.print(f"{dataset}, {tree}: tree error under {noise} noise, tau = {tau:g}, epsilon = {epsilon:g}")
        print_table(out, [[*heads, *more], *lines], len(heads))
        out.print()


def _line(rows: list[dict[str, Any]], names: list[str], values: list[str]) -> list[str]:
    whole = None if len(names) > 1 else names[0]
    best = min((row for row in rows if row["measure"] == whole), key=lambda row: row["rmsre"])
    own = {row["measure"]: row for row in rows if row["method"] == best["method"]}
    line = [best["limits"], best["method"], *([percent(best["rmsre"])] if whole is None else [])]
    line += [percent(own[name][column]) for name in names for column in ("rmsre", "bias")]
    return [*line, f"{best['conversions_per_impression']:.3g}", *(f"{own[name]['clip']:,.2f}" for name in values)]

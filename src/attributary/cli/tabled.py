"""tabled: the user's table of noisy figures, denoised."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attributary.cli.estimates import estimates, filled, kept_names, measured_names, with_numbers
from attributary.cli.labels import labels, refuse_sums, without
from attributary.cli.learned import past_of_table
from attributary.cli.reading import refused
from attributary.cli.variances import Noise, measurements
from attributary.denoising import Estimate, denoise
from attributary.measurements import Measurements
from attributary.prior import learn as shares
from attributary.tables import is_text, read_table
from attributary.tables.not_private import mark, words_of
from attributary.tree import Tree

TOTALS = "say that it marks totals with --total, or that it is an ordinary label with --no-totals"


class Denoised(NamedTuple):
    """A table to write, the estimate that it is of, and what to say beside it."""

    table: Any
    estimate: Estimate
    notes: list[str]
    measures: dict[str, Estimate] | None = None  # of each, where there are several


def denoised_table(
    path: str,
    levels: str,
    value: str,
    confidence: float,
    format_: Any,
    stage: Callable[[str], None],
    /,
    *,
    fill: bool,
    prefix: str,
    shape: Any,
    nonnegative: Any,
    whole: bool,
    prior: str | None = None,
    learn: bool = False,
    total: tuple[str, ...] = (),
    no_totals: bool = False,
    **noise: Any,
) -> Denoised:
    """The table as it is, with the estimates beside it."""
    given = Noise(**noise)
    stage("reading")
    table = read_table(path)
    names = kept_names(table, given.variance, prefix, path, prior is not None or learn, value)
    measured = measured_names(table, names, given.variance, value)
    stage("building the tree")
    table = without(table, labels(table, levels, path).column_names, total, path)
    paths = labels(table, levels, path)
    with refused(path):
        tree = Tree.from_paths(paths, paths.column_names, fill=fill, totals=None if no_totals else ())
    noisy, variance = measurements(table, value, given, tree, path)
    if not no_totals:
        refuse_sums(tree, np.where(variance < np.inf, noisy, np.nan), path, TOTALS)
    stage("denoising")
    past = None if prior is None else past_of_table(tree, prior)
    with refused(path):
        before = None if past is None else past.of[0]
        expected = shares(tree, noisy, variance, before) if learn or past is not None else None
        figures_of = Measurements.of(tree, noisy, variance, shape, words_of(table))
        est = denoise(tree, figures_of, prior=expected, nonnegative=nonnegative, whole=whole)
    figures = [value, given.variance, given.std, given.contribution]
    result = filled(table, tree) if fill else table
    result = result if is_text(format_) else with_numbers(result, figures)
    renamed = names != table.column_names
    notes = [f"your column {given.variance} is called noise_variance there"] if renamed else []
    made = estimates(result, names, est, confidence, prefix, measured)
    if past is None:
        return Denoised(made, est, notes)
    return Denoised(mark(made, past.not_private), est, notes + past.notes)

"""The paper's experiment, on a published file or on a look-alike that is generated for it."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from attributary.datasets import VERSION, generate
from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.counts_cache import Tables, cached, identity
from attributary.evaluate.paper_counts import Choices, Periods, leaf_counts, paper_counts
from attributary.evaluate.paper_trees import PAPER, PaperDataset
from attributary.evaluate.user_cases import EPSILON, private_prior
from attributary.logs.duckdb import print_no_progress
from attributary.logs.log_files import is_generated
from attributary.prior import from_counts


def paper_cases(
    of: PaperDataset,
    periods: Periods,
    noises: Sequence[str] = ("api",),
    *,
    prior_epsilon: float = EPSILON,
    seed: int = 0,
    generated: bool = False,
) -> list[Case]:
    """A case for each tree and noise model: later days are measured, and the prior is a private one of the first."""
    cases = []
    for tree in of.trees:
        before, after = (leaf_counts(period, tree) for period in (periods.before, periods.after))
        queried = tree.spec.tree(after)
        count = from_counts(queried, after).mean
        for noise in noises:
            spec = tree.at(noise)
            key = (crc32(f"{of.name}/{tree.name}/prior".encode()),)
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
            try:
                prior = private_prior(spec, queried, before, rng, prior_epsilon)
            except ValueError as error:  # nothing of the first days is there later
                rule = f"{of.name}: the first days cannot be a prior for the later ones"
                raise InputError(f"{rule} ({error}); take more rows") from error
            cases.append(Case.of(of.name, tree.name, spec, queried, count, prior, generated))
    return cases


NOISES = ("api", "unit")  # on sums of contributions, and on counts


class PaperLog(NamedTuple):
    """The rows of the experiment: a file, or so many rows to be generated."""

    path: str | None = None
    rows: int | None = None  # None: as many as published
    seed: int = 0
    expect: str = "published"  # or "any": a part of the file, or a file like it


class LeftOut(NamedTuple):
    """Rows that are in no count, or whose conversions are not."""

    why: str
    rows: int
    conversions: int


class Experiment(NamedTuple):
    cases: list[Case]
    left_out: list[LeftOut]
    generated: bool


def paper(
    dataset: str,
    log: PaperLog,
    noises: Sequence[str] = NOISES,
    choices: Choices | None = None,
    *,
    prior_epsilon: float = EPSILON,
    seed: int = 0,
    cache: str | None = None,
    threads: int | None = None,
) -> Experiment:
    """The paper's experiment: both trees of a dataset, under each noise model.

    The rows are counted once, with so many threads (by default all cores); with a folder as `cache`, once for all.
    """
    if dataset not in PAPER:
        raise InputError(f"the paper's datasets are {' and '.join(PAPER)}; got {dataset!r}")
    if not prior_epsilon > 0:
        raise InputError(f"the prior's epsilon is a positive number; got {prior_epsilon}")
    of, chosen = PAPER[dataset], choices or Choices()
    if log.path is None:
        key = identity((), dataset, "generated", VERSION, log.rows, log.seed, chosen)
        generated = True
    else:
        key = identity([log.path], dataset, log.expect, chosen)
        generated = is_generated(log.path)
    tables = cached(cache, key, Periods._fields, lambda: _count(of, log, chosen, cache, threads))
    periods = Periods(**tables)
    cases = paper_cases(of, periods, noises, prior_epsilon=prior_epsilon, seed=seed, generated=generated)
    return Experiment(cases, [LeftOut(**row) for row in periods.left.to_pylist() if row["rows"]], generated)


def _count(of: PaperDataset, log: PaperLog, choices: Choices, cache: str | None, threads: int | None) -> Tables:
    import duckdb

    with duckdb.connect() as connection:
        print_no_progress(connection)
        if threads is not None:
            connection.execute(f"SET threads = {int(threads)}")
        if log.path is not None:
            expect: Any = "any" if is_generated(log.path) else log.expect
            return paper_counts(connection, log.path, of, choices, expect)._asdict()
        with tempfile.TemporaryDirectory(prefix="attributary-", dir=cache) as folder:
            path = os.path.join(folder, f"{of.name}.parquet")
            generate(of.name, path, log.rows, log.seed)
            return paper_counts(connection, path, of, choices, "any")._asdict()

"""Cases from a user's own counts or logs: what `attributary evaluate` tries methods on."""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from attributary import __version__
from attributary.budget import equal
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.estimators import KnownProcess
from attributary.evaluate.case import Case, all_limits, refuse_no_cut
from attributary.generated import ForestProcess
from attributary.logs.count import count
from attributary.logs.counts import Counts
from attributary.logs.duckdb import DuckDB
from attributary.logs.log_files import Engine, all_files, is_generated
from attributary.noise import Entropy, model, page_of
from attributary.pipeline.breakdowns import by_breakdown
from attributary.pipeline.level_columns import level_columns
from attributary.pipeline.read_prior import COUNTS, ESTIMATES, count_rows, of_measure, read_prior
from attributary.plan.make import make_plan, refuse_unknown_limits
from attributary.plan.proposals import proposals_of
from attributary.prior import Prior, from_counts, from_estimates
from attributary.prior.earlier import Profile, profile
from attributary.spec import Spec
from attributary.tables import read_table, shown, write_table
from attributary.tables.table_columns import arrow_table, floats, together, words_of
from attributary.tree import Tree
from attributary.tree.paths import refused
from attributary.types import Arrow, Record

EPSILON = 1.0  # of a private prior, in the paper


def user_cases(
    spec: Spec,
    counts: Arrow,
    before: Arrow = None,
    noises: Sequence[str] = (),
    *,
    name: str = "counts",
    prior_epsilon: float | None = None,
    seed: int | Sequence[int] = 0,
    generated: bool = False,
    counts_from: str = "the counts",
    before_from: str = "the prior",
) -> list[Case]:
    """A case for each noise model (by default the spec's) and each way to come to limits, if the spec has any.

    `counts` is a table with a row for each leaf and a column conversions, as `attributary count` writes it, or an
    earlier report with a column estimate, of which those below 0 are taken as 0. `before` is such a table of an earlier
    period; without it, the prior is made of the counts themselves, as if the earlier period had been just like this.

    Of counts alone, a private prior is made: counts are measured with `prior_epsilon` (by default 1), split equally,
    and denoised; estimates are private already. With values or several conversions per impression, limits are chosen
    from what the table has without noise, so that `prior_epsilon` is refused, and the prior is not protected.
    `counts_from` and `before_from` are what messages call the tables, as the paths of their files.
    """
    counts = arrow_table(counts)
    before, before_from = (counts, counts_from) if before is None else (arrow_table(before), before_from)
    warning = together(words_of(counts), words_of(before))
    if not spec.has_limits:
        epsilon = EPSILON if prior_epsilon is None else prior_epsilon
        if not epsilon > 0:
            raise InputError(f"the prior's epsilon is a positive number; got {epsilon}")
        truth = _as_counts(_figures(spec, counts, counts_from))
        past = truth if before is counts else _figures(spec, before, before_from)
        with refused(counts_from):
            tree = spec.tree(truth if spec.known else None)
            count = from_counts(tree, truth).mean
        cases = []
        for noise in noises or (spec.noise,):
            asks = spec.with_noise(noise)
            with refused(before_from):
                prior = with_process(tree, _private(asks, tree, past, seed, epsilon), counts, before)
            case = Case.of(name, " > ".join(spec.levels), asks, tree, count, prior, generated)
            cases.append(replace(case, not_private=warning))
        return cases
    if prior_epsilon is not None:
        raise InputError(
            "`prior_epsilon` is for counts of one conversion per impression: limits are chosen from the prior's "
            "counts as they are; leave it out"
        )
    if ESTIMATES[0] in counts.column_names:
        raise InputError(
            f"{shown(counts_from)} is a report, which does not show what limits cut off; give counts, as `attributary "
            "count` writes them for this spec"
        )
    names = [attribute.name for attribute in spec.attributes if not attribute.unknown or attribute.occurs]
    rows = level_columns(counts, names, counts_from) if names else None
    with refused(counts_from):
        tree = spec.tree(rows)
    prior = read_prior(spec, tree, before_from, table=before)
    with refused(counts_from):
        measured = profile(tree, spec, count_rows(spec, tree, counts, counts_from))
    assert prior.profile is not None  # the spec has limits
    cases = limited_cases(name, spec, tree, measured, prior, prior.profile, noises, generated)
    return [replace(case, not_private=warning) for case in cases]


def joint_cases(
    spec: Spec, counts: Arrow, before: Arrow = None, noises: Sequence[str] = (), **options: Any
) -> list[Case]:
    """The cases of a spec with several breakdowns, for each noise model; a private prior's ε is divided equally."""
    path, counts = str(options.get("counts_from", "the counts")), arrow_table(counts)
    if spec.has_limits or COUNTS[0] not in counts.column_names:
        raise InputError(
            f"{shown(path)}: several breakdowns are evaluated on counts of one conversion per impression; leave out "
            "values, take conversions_per_impression = 1, and give counts, not a report"
        )
    now, several = by_breakdown(spec, counts, path), len(spec.parts)
    past = [None] * several if before is None else by_breakdown(spec, arrow_table(before), options["before_from"])
    epsilon, made = EPSILON if options.get("prior_epsilon") is None else options["prior_epsilon"], list[Case]()
    for asks in [spec.with_noise(noise) for noise in noises or (spec.noise,)]:
        cases: list[Case] = []
        for i, (part, table, earlier) in enumerate(zip(asks.parts, now, past, strict=True)):
            own = options | {"prior_epsilon": epsilon / several, "seed": [options.get("seed", 0), i]}
            tree = part.tree(level_columns(table, [each.name for each in part.attributes], path))
            (one,) = user_cases(part, table, earlier, **own)
            cases.append(replace(one, name=spec.called[i], labelled=tree))
        made.append(replace(cases[0], name="all breakdowns", spec=asks, breakdowns=tuple(cases), labelled=None))
    return made


def limited_cases(
    name: str,
    spec: Spec,
    tree: Tree,
    measured: Profile,
    prior: Prior,
    earlier_profile: Profile,
    noises: Sequence[str] = (),
    generated: bool = False,
) -> list[Case]:
    """A case for each noise model and each way to come to limits; profiles are of the tree."""
    noises = noises or (spec.noise,)
    if spec.values and not all(page_of(noise).values for noise in noises):
        raise InputError('sums of values need noise = "api"; use it, or measure counts alone')
    refuse_no_cut(spec, measured)
    refuse_unknown_limits(spec, earlier_profile)
    proposals = proposals_of(spec)
    if proposals is not None and not proposals.decided(spec):  # as a plan decides
        made = make_plan(spec, tree, prior, profile=earlier_profile).spec
        spec, noises = spec.model_copy(update={"api": made.api, "noise": made.noise}), (made.noise,)
    count = measured.full(next((m for m in spec.asked if m.is_count), spec.asked[0]))
    cases: list[Case] = []
    for noise in noises:
        asks = spec.with_noise(noise)
        one = Case.of(name, " > ".join(spec.levels), asks, tree, count, prior, generated)
        here, then = (replace(profile, tree=one.tree) for profile in (measured, earlier_profile))
        cases += [replace(one, limits=limits, measured=here, earlier=then) for limits in all_limits(spec)]
    return cases


def private_prior(spec: Spec, tree: Tree, before: Arrow, rng: Entropy | None, epsilon: float = EPSILON) -> Prior:
    """What a table of counts of an earlier period says of a tree's counts, measured with ε split equally and denoised.

    The noise is the spec's model.
    """
    earlier = spec.tree(before)
    names = [attribute.name for attribute in spec.known]
    count = from_counts(earlier, before, known=names).mean
    noise = model(spec.noise, epsilon, spec.l1, spec.delta or 0.0)
    split = equal(earlier, count, epsilon, spec.tau, noise=noise)
    noisy = noise.measure(count, split.nodes(), rng)
    est = denoise(earlier, noisy, split.variance())
    table = earlier.table().append_column("estimate", [est.count]).append_column("variance", [est.variance])
    return from_estimates(tree, table, known=names)


def _private(spec: Spec, tree: Tree, past: Any, seed: int | Sequence[int], epsilon: float) -> Prior:
    """A prior that gives nothing away: estimates as they are, or counts measured and denoised."""
    if ESTIMATES[0] in past.column_names and COUNTS[0] not in past.column_names:
        return from_estimates(tree, past, known=[attribute.name for attribute in spec.known])
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    return private_prior(spec, tree, past, rng, epsilon)


def _figures(spec: Spec, table: Arrow, path: str) -> Arrow:
    """The counts or estimates in a table, with the columns that name their nodes."""
    table = of_measure(table, spec, path)
    needed = ESTIMATES if ESTIMATES[0] in table.column_names else COUNTS
    if needed[0] not in table.column_names:
        raise InputError(
            f"{shown(path)} has neither conversions (counts) nor estimate and variance (a report); its columns are "
            f"{', '.join(table.column_names)}"
        )
    rows = level_columns(table, [attribute.name for attribute in spec.attributes], path)
    for name in needed:
        rows = rows.append_column(name, [floats(table, name, path)])
    return rows


def _as_counts(table: Arrow) -> Arrow:
    import pyarrow as pa
    import pyarrow.compute as pc

    if ESTIMATES[0] not in table.column_names:
        return table
    return table.append_column(COUNTS[0], pc.max_element_wise(table.column(ESTIMATES[0]), pa.scalar(0.0)))


class LogPeriods(NamedTuple):
    """The counts of logs: of the period that is measured and, if there is one, of the earlier one."""

    measured: Arrow  # a table
    earlier: Arrow  # a table, or None
    generated: bool  # whether the rows of the logs were generated
    counted: dict[str, Counts]  # by period, what was counted and what was not; empty if it was counted before


def log_periods(
    spec: Spec,
    folder: str = ".",
    prior_until: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    cache: str | None = None,
    engine: Callable[[], AbstractContextManager[Engine]] = DuckDB,
) -> LogPeriods:
    """Counts the spec's logs, whose files are relative to `folder`; impressions before `prior_until` come earlier.

    Impressions from `since` on and before `until` count, in either period. With a folder as `cache`, files that did not
    change are counted once.
    """
    if spec.logs is None:
        raise InputError("the spec has no section [logs]; add it, or give `counts`")
    paths = all_files(spec.logs, folder)
    remote = any("://" in path for path in paths)
    key = "" if remote else identity(paths, spec.identity("tau", "noise"), prior_until, since, until)
    counted: dict[str, Counts] = {}

    def make() -> Record:
        with engine() as running:
            measured = count(spec, folder, since=prior_until or since, until=until, engine=running)
            counted["measured"] = measured.refuse_no_match()
            if prior_until is not None:
                earlier_counts = count(spec, folder, since=since, until=prior_until, engine=running)
                counted["earlier"] = earlier_counts.refuse_no_match()
        return {period: counts.table for period, counts in counted.items()}

    names = ("measured",) if prior_until is None else ("measured", "earlier")
    tables = cached(None if remote else cache, key, names, make)
    return LogPeriods(tables["measured"], tables.get("earlier"), any(map(is_generated, paths)), counted)


def with_process(tree: Tree, prior: Prior, counts: Arrow, before: Arrow) -> Prior:
    """The prior with the process that the counts say they were drawn by, if they do; `before` is a table of counts."""
    of = ForestProcess.read(counts)
    if of is None:
        return prior
    alpha = np.full(len(tree), of.shape)
    for level, (kappa, share) in enumerate(zip(of.kappa, of.share, strict=True), 1):
        place = [int(name.rpartition(" ")[2]) - 1 for name in tree.labels[level].to_pylist()]
        alpha[tree.slice(level)] = kappa * np.array(share)[place]
    alpha, rate = tree.from_level_order(alpha), of.shape / of.mean
    same = ForestProcess.read(before) == of and before is not counts
    past = alpha + from_counts(tree, before).mean if same else None
    values = {field.name: getattr(prior, field.name) for field in fields(prior)}
    return KnownProcess(
        **values, alpha=alpha, alpha_with_past=past, tilt=-np.log1p(rate), tilt_with_past=-np.log(2 + rate)
    )


PIECE = 2**16
PIECES = 64


def identity(paths: Sequence[str], *options: object) -> str:
    """A name that changes whenever one of the files does, one of the options, or the version of Attributary.

    Of each file it takes the size, the time of its last change, and 64 pieces of 64 kB spread evenly over it, so that a
    file of 6 GB is known at once; where it lies and what it is called do not matter. A change that keeps size and time
    and misses every piece would go unseen.
    """
    digest = hashlib.blake2b(repr((__version__, *options)).encode(), digest_size=16)
    for path in paths:
        try:
            with open(path, "rb") as file:
                about = os.fstat(file.fileno())
                last, all_of_it = about.st_size - PIECE, range(0, about.st_size, PIECE)
                few = [last * i // (PIECES - 1) for i in range(PIECES)]  # the last ends with the file
                places = all_of_it if about.st_size <= PIECES * PIECE else few
                digest.update(f"{about.st_size} {about.st_mtime_ns} ".encode())
                for place in places:
                    file.seek(place)
                    digest.update(file.read(PIECE))
        except FileNotFoundError:
            raise InputError(f"there is no file {path}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


Tables = dict[str, Arrow]


def cached(where: str | None, key: str, names: tuple[str, ...], make: Callable[[], Tables]) -> Tables:
    """The tables of these names from the folder, or else as they are made, which are then put there."""
    if where is None:
        return make()
    try:
        os.makedirs(where, exist_ok=True)
    except OSError as error:
        raise InputError(f"{where} cannot be made: {error.strerror}; choose another folder") from None
    paths = {name: os.path.join(where, f"counts-{key}-{name}.parquet") for name in names}
    if all(map(os.path.exists, paths.values())):
        try:
            return {name: read_table(path) for name, path in paths.items()}
        except InputError:  # damaged: made anew
            pass
    tables = make()
    for name, path in paths.items():
        write_table(tables[name], path)
    return tables

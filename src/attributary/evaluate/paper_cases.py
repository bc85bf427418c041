"""paper_cases: the cases of the paper's experiment, from the counts of both periods."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.paper_counts import Periods, leaf_counts
from attributary.evaluate.paper_trees import PaperDataset
from attributary.evaluate.private import EPSILON, private_prior
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
                rule = f"{of.name}: the first days are no prior for the later ones"
                raise InputError(f"{rule} ({error}); take more rows") from error
            cases.append(Case.of(of.name, tree.name, spec, queried, count, prior, generated))
    return cases

"""own: cases from a user's own counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.private import EPSILON, private_prior
from attributary.prior import from_counts, from_estimates
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats


def own_cases(
    dataset: str,
    spec: Spec,
    counts: Any,
    before: Any = None,
    noises: Sequence[str] | None = None,
    *,
    prior_epsilon: float = EPSILON,
    seed: int = 0,
    generated: bool = False,
) -> list[Case]:
    """A case for each noise model: a table of counts (or of estimates, those below 0 taken as 0) is the truth.

    `before` are counts of an earlier period, of which a private prior is made, or an earlier report's estimates, which
    are private already. Without it, the prior is a private one of the counts themselves, as if the earlier period had
    been just like this one.
    """
    if not prior_epsilon > 0:
        raise InputError(f"the prior's epsilon is a positive number; got {prior_epsilon}")
    tree, count = own_truth(spec, counts)
    known = [attribute.name for attribute in spec.known]
    cases = []
    for noise in noises or (spec.noise,):
        asks = spec.model_copy(update={"noise": noise})
        if before is not None and "estimate" in before.column_names:
            prior = from_estimates(tree, before, known=known)
        else:
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
            earlier = _as_counts(counts) if before is None else before
            prior = private_prior(asks, tree, earlier, rng, prior_epsilon)
        cases.append(Case.of(dataset, " > ".join(spec.levels), asks, tree, count, prior, generated))
    return cases


def own_truth(spec: Spec, counts: Any) -> tuple[Tree, Floats]:
    """The tree that is queried and its true counts, in the tree's order."""
    table = _as_counts(counts)
    tree = spec.tree(table if spec.known else None)
    return tree, from_counts(tree, table).mean


def _as_counts(table: Any) -> Any:
    """A table of estimates as counts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "estimate" not in table.column_names:
        return table
    return table.append_column("conversions", pc.max_element_wise(table.column("estimate"), pa.scalar(0.0)))

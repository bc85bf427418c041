"""forest: counts of two periods drawn by a known process, so that the best possible estimates are known, too.

Each campaign has a rate (gamma), and each family its shares (Dirichlet around those of its children's labels, κ at a
level). Counts of both periods are Poisson and multinomial, given these: children are Dirichlet-multinomial with
α = κ·share, and once the earlier period is known, with α = κ·share + its counts.
"""

import json
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from attributary.generated import PROCESS, VERSION, ForestProcess, check_size, label
from attributary.types import Arrow, Values

ATTRIBUTES = ("campaign", "location", "product", "day")
FANS = (6, 5, 7)  # children of each node of a level
ROWS = 40 * int(np.prod(FANS))
DRAWS = 5  # the key of these draws


class GeneratedForest(NamedTuple):
    """Arrow tables of counts, one row per leaf."""

    counts: Arrow
    earlier: Arrow


def forest(
    rows: int = ROWS, seed: int = 0, fans: tuple[int, ...] = FANS, of: ForestProcess | None = None
) -> GeneratedForest:
    """Counts of campaigns with at least so many leaves together, and of the same campaigns before."""
    check_size(rows, seed)
    draw = np.random.RandomState(np.random.MT19937(np.random.SeedSequence((VERSION, DRAWS, seed))))  # draws are frozen
    of = of or ForestProcess()
    of = of._replace(share=tuple(tuple(draw.dirichlet(np.ones(fan)).tolist()) for fan in fans))
    number = -(-rows // int(np.prod(fans)))
    rate = draw.gamma(of.shape, of.mean / of.shape, number)
    counts = draw.poisson(rate, (2, number))
    for kappa, share in zip(of.kappa, of.share, strict=True):
        weight = np.maximum(draw.gamma(kappa * np.array(share), size=(counts.shape[1], len(share))), 1e-300)
        counts = np.stack([_shared(draw, count, weight) for count in counts])
    place = np.indices((number, *fans)).reshape(1 + len(fans), -1)
    return GeneratedForest(*(_table(place, count, rows, seed, of) for count in counts[::-1]))


def _shared(draw: np.random.RandomState, count: Values, weight: Values) -> Values:
    """The counts of all children, family by family: multinomial, as binomials of what is left."""
    left, each = count.copy(), np.zeros(weight.shape, np.int64)
    below = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    for k in range(weight.shape[1] - 1):
        each[:, k] = draw.binomial(left, np.minimum(weight[:, k] / below[:, k], 1.0))
        left -= each[:, k]
    each[:, -1] = left
    return each.ravel()


def _table(place: Values, count: Values, rows: int, seed: int, of: ForestProcess) -> Arrow:
    names = (f"{name} {{}}" for name in ATTRIBUTES[: len(place)])
    columns = [
        pa.array([name.format(i + 1) for i in values]) for name, values in zip(names, place.tolist(), strict=True)
    ]
    metadata = {**label("forest", rows, seed), PROCESS: json.dumps(of._asdict())}
    table = pa.table([*columns, pa.array(count)], [*ATTRIBUTES[: len(place)], "conversions"])
    return table.replace_schema_metadata(metadata)


SPEC = """\
# Generated counts of a known process: conversions by campaign > location > product > day.
epsilon = 1
tau = 5
split_by = "campaign"
guard = "none"                 # the least error, whatever a level has to give up for it

[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "product"

[[attribute]]
name = "day"
"""

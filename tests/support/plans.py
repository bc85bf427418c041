"""Small questions that every plan must answer: specs of all kinds, tables of counts, trees and priors."""

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from attributary import Tree, prior
from attributary.prior import Prior
from attributary.spec import Spec

DAYS = ["mon", "tue", "wed"]
UNKNOWN = {"name": "day", "unknown": True, "domain": DAYS}
HOURS = {"name": "hour", "unknown": True, "range": [0, 1]}


def spec(*, unknown: tuple[dict[str, Any], ...] = (UNKNOWN,), known: str = "ab", **options: Any) -> Spec:
    return Spec(**{"epsilon": 4, **options, "attributes": [*({"name": name} for name in known), *unknown]})


def counts(seed: int = 0, campaigns: int = 4) -> dict[str, list[Any]]:
    """Conversions by a, b and day: roots of all sizes, most days empty."""
    rng = np.random.default_rng(seed)
    rows = [(f"r{i}", f"l{j}", d) for i in range(campaigns) for j in range(rng.integers(1, 6)) for d in DAYS]
    return {
        **{name: [row[k] for row in rows] for k, name in enumerate(("a", "b", "day"))},
        "hour": rng.integers(0, 2, len(rows)).tolist(),
        "conversions": rng.poisson(rng.lognormal(1.0, 2.0, len(rows))).tolist(),
    }


def asked(given: Spec, seed: int = 0, campaigns: int = 4, seen: int = 4) -> tuple[Tree, Prior]:
    """The tree and the prior of such counts; roots from number `seen` on are new."""
    table = counts(seed, campaigns)
    tree = given.tree(table)
    rows = [i for i, label in enumerate(table["a"]) if int(label[1:]) < seen]
    for attribute in given.unknown:  # a prior has no values outside a domain
        rows = [i for i in rows if str(table[attribute.name][i]) in map(str, attribute.labels)]
    earlier = {name: [column[i] for i in rows] for name, column in table.items()}
    return tree, prior.from_counts(tree, earlier, known=[a.name for a in given.known])


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A spec over a, b, day and hour, of any kind; at least one level."""
    unknown = draw(st.sampled_from([(), (UNKNOWN,), (UNKNOWN, HOURS)]))
    known = draw(st.sampled_from(["ab", "a", ""])) if unknown else "ab"
    return spec(
        unknown=unknown,
        known=known,
        epsilon=draw(st.sampled_from([0.5, 1, 4.0, 10])),
        l1=draw(st.sampled_from([65536, 65536, 1000, 7])),
        **draw(st.sampled_from([{"noise": "api"}, {"noise": "unit"}, {"noise": "gaussian", "delta": 1e-6}])),
        total=draw(st.booleans()),
        weights=draw(st.sampled_from(["nodes", "counts"])),
        neighbours=draw(st.sampled_from(["conversion", "definition-1"])),
        **({"split_by": "a"} if known and draw(st.booleans()) else {}),
    )


def of_values(most: Any = "auto", clip: Any = "auto", measures: int = 2, **options: Any) -> Spec:
    """A spec over a and day that measures values."""
    asked = [{"name": "count"}, {"name": "revenue", "clip": clip}, {"name": "items", "clip": clip}]
    return Spec(
        **{"epsilon": 4, "split_by": "a", "conversions_per_impression": most, **options},
        measures=asked[:measures] if measures > 1 else asked[1:2],
        attributes=[{"name": "a"}, {"name": "day", "unknown": True, "domain": DAYS}],
    )


def value_rows(seed: int = 0, roots: int = 3, repeat: float = 0.3, size: float = 300) -> pa.Table:
    """Conversions by root, day, rank and step of values, as they are counted: some impressions have several."""
    rng = np.random.default_rng(seed)
    made = []
    for root, day in product(range(roots), DAYS):
        for _ in range(rng.poisson(size / (root + 1))):
            value = float(np.round(np.exp(rng.normal(4, 1.2)), 2))
            step = int(np.floor(20 * np.log10(value * 1e6)))
            begin = np.ceil(10 ** (step / 20)) / 1e6
            made.append(
                (f"r{root}", day, min(int(rng.geometric(1 - repeat)), 21), value, begin, float(rng.integers(1, 4)))
            )
    names = ("a", "day", "rank", "revenue", "revenue_from", "items")
    table = {name: [row[i] for row in made] for i, name in enumerate(names)}
    steps = np.floor(20 * np.log10(np.array(table["items"]) * 1e6))
    return pa.table({**table, "items_from": np.ceil(10 ** (steps / 20)) / 1e6, "conversions": [1] * len(made)})

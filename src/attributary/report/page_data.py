"""Page data: the nodes that a page has room for, as typed columns that its script unpacks in no time."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.estimates import EXTRAS, Estimates
from attributary.facts import numerals
from attributary.facts.numerals import rounded
from attributary.facts.quantity import Quantity
from attributary.report.charts import BOUNDS, NAMES
from attributary.tree import Tree
from attributary.types import Bools, Record, Values


class Cut(NamedTuple):
    keep: Bools  # of each node in level order; a kept node's parent is kept
    left: NDArray[np.int64]  # how many children of each kept node are not

    @property
    def nodes(self) -> int:
        return int(self.keep.sum())


def cut(tree: Tree, count: NDArray[np.float64], marked: Bools, most: int) -> Cut:
    """The nodes to show: those marked first, then the largest counts, with all that stands above them; `most` in all.

    Arrays are in level order. Where even the roots are too many, the largest of them are kept.
    """
    if most < 1:
        raise ValueError(f"a page shows at least one node; got {most}")
    nodes = len(tree)
    if nodes <= most:
        return Cut(np.ones(nodes, bool), np.zeros(nodes, np.int64))
    rank = np.lexsort((tree.in_level_order.level, -count, ~marked))
    low, high = 0, most  # how many of the ranked nodes fit together with what stands above them
    while low < high:
        middle = (low + high + 1) // 2
        if int(_closed(tree, rank[:middle]).sum()) <= most:
            low = middle
        else:
            high = middle - 1
    keep = _closed(tree, rank[:low])
    children = np.diff(tree.first).astype(np.int64)
    kept = np.bincount(tree.family[keep][tree.family[keep] >= 0], minlength=nodes)
    return Cut(keep, np.where(keep, children - kept, 0)[keep])


def _closed(tree: Tree, chosen: NDArray[np.int64]) -> Bools:
    """The chosen nodes and all that stands above them."""
    keep = np.zeros(len(tree), bool)
    keep[chosen] = True
    return tree.in_level_order.sum_up(keep, np.logical_or)


ALIGNED = 8  # typed arrays begin at multiples of their width
LARGE = 2.0**31
IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}  # nothing in a script ends its element or begins a comment


class Packed(NamedTuple):
    about: Record  # what is where
    data: str  # base64


def pack(quantities: Sequence[Quantity], cut: Cut) -> Packed:
    """The kept nodes in level order: how many children each has, their labels and their figures.

    Those of further quantities have the same names with a number behind them.
    """
    est, keep = quantities[0].estimates, cut.keep
    tree = est.tree
    family = tree.family[keep]
    place = np.cumsum(keep) - 1
    children = np.bincount(place[family[family >= 0]], minlength=cut.nodes)
    parts: Record = {"children": _least(children)} | ({"left": _least(cut.left)} if cut.left.any() else {})
    for k, quantity in enumerate(quantities):
        figures = {"flag": quantity.doubt.implausible[keep].astype(np.uint8)}
        figures |= _figures(quantity.estimates, keep, quantity.digits)
        figures |= {} if quantity.size is None else {"size": quantity.size[keep].astype("<f4")}
        parts |= {f"{name}.{k}" if k else name: values for name, values in figures.items()}
    for i in range(tree.depth):
        parts[f"code{i}"], words = _labels(est, i, keep[tree.slice(i)])
        parts[f"words{i}"] = json.dumps(words, ensure_ascii=False).encode()
    columns, block = [], bytearray()
    for name, values in parts.items():
        kind, content = ("json", values) if isinstance(values, bytes) else (values.dtype.str[1:], values.tobytes())
        columns.append([name, kind, len(block), len(content)])
        block += content + bytes(-len(content) % ALIGNED)
    sizes = [int(keep[tree.slice(i)].sum()) for i in range(tree.depth)]
    data = base64.b64encode(zlib.compress(bytes(block), 6)).decode()
    return Packed({"sizes": sizes, "columns": columns, "part": 10 ** quantities[0].digits}, data)


def _figures(est: Estimates, keep: NDArray[np.bool_], digits: int) -> dict[str, Values]:
    """The figures as they are shown; those around the estimate as they differ from it, which takes fewer bytes."""
    estimate, low, high, noisy = (rounded(x[keep], digits) for x in (est.estimate, est.low, est.high, est.noisy))
    figures = {
        "estimate": estimate,
        "moved": np.where(est.measured[keep], noisy - estimate, np.nan),
        "below": estimate - low,
        "above": high - estimate,
        "correction": est.correction[keep],
    }
    figures |= {EXTRAS[name].key: 100 * values[keep] for name, values in est.extras.items()}  # to a tenth of a percent
    parts = {name: _parts(values, 10**digits) for name, values in figures.items()}
    seen = {} if est.impressions is None else {"seen": est.impressions[keep].astype("<f8")}
    return parts | {"variance": est.variance[keep].astype("<f4"), **seen}


def _parts(values: NDArray[np.float64], part: int) -> Values:
    """Whole parts of one in the fewest bytes, nan as the least number there is; floats where they are too large."""
    known = np.isfinite(values)
    most = float(np.max(np.abs(values), initial=0.0, where=known))
    if most * part >= LARGE or not (known | np.isnan(values)).all():
        return values.astype("<f8")
    scaled = np.round(np.where(known, values, 0.0) * part)
    kind = "<i1" if most * part < 127 else "<i2" if most * part < 2**15 - 1 else "<i4"
    return np.where(known, scaled, np.iinfo(kind).min).astype(kind)


def _least(values: Values) -> Values:
    """Whole numbers in the fewest bytes."""
    most = int(values.max(initial=0))
    return values.astype("<u1" if most < 2**8 else "<u2" if most < 2**16 else "<u4")


def _labels(est: Estimates, level: int, keep: NDArray[np.bool_]) -> tuple[Values, list[str]]:
    """The labels of a level's kept nodes, as codes into a list of words."""
    tree = est.tree
    if not tree.attributes:
        numbers = np.flatnonzero(keep) + int(tree.offsets[level])
        numbers = numbers if tree.order is None else tree.order[numbers]
        return _least(np.arange(len(numbers))), [f"node {v}" for v in numbers.tolist()]
    if level < tree.total:
        return _least(np.zeros(int(keep.sum()), np.int64)), ["total"]
    labels = tree.labels[level - tree.total]
    used, codes = np.unique(labels.indices.to_numpy()[keep], return_inverse=True)
    return _least(codes), [str(labels.dictionary[int(i)].as_py()) for i in used]


def kept_nodes(quantities: list[Quantity], most: int) -> Cut:
    """The nodes that the page has room for: those of implausible corrections, then the largest of any measure."""
    tree = quantities[0].estimates.tree
    sums, roots = [q.estimates.estimate for q in quantities if q.kind != "ratio"], slice(0, int(tree.first[0]))
    parts: list[NDArray[np.float64]] = [each / max(float(each[roots].sum()), 1e-12) for each in sums]
    marked = np.any([quantity.doubt.implausible for quantity in quantities], axis=0)
    return cut(tree, np.max(parts, axis=0), marked, most)


def stored(quantities: list[Quantity], kept: Cut) -> Record:
    """What the template puts into the page for its script, and how much that is."""
    first, doubt = quantities[0], quantities[0].doubt
    est = first.estimates
    packed = pack(quantities, kept)
    about = {
        **packed.about,
        "levels": list(est.tree.level_names),
        "tau": first.tau,
        "limit": doubt.threshold,
        "flags": doubt.nodes,
        "roots": int(est.tree.first[0]),
        "whole": est.whole,
        "bounds": BOUNDS,
        "names": NAMES,
        "extras": [(column.key, column.head.lower()) for column in EXTRAS.values()],
    }
    if len(quantities) > 1 or first.kind != "count":
        about["measures"] = [
            {
                "name": q.called,
                "head": q.head,
                "unit": q.unit,
                "ratio": q.kind == "ratio",
                "digits": q.digits,
                "part": 10**q.digits,
                "whole": q.estimates.whole,
                "tau": q.tau,
            }
            for q in quantities
        ]
    return {
        "left": f"{len(est) - kept.nodes:,}" if kept.nodes < len(est) else "",
        "kept": f"{kept.nodes:,}",
        "about": json.dumps(about).translate(IN_SCRIPT),
        "data": packed.data,
        "bins": NAMES,
        "level_names": numerals.few(est.tree.level_names),
        "nodes": len(est),
    }

"""Stored: the nodes of a page and all that its script has to know of them."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.report.cut import Cut, cut
from attributary.report.icicle import BOUNDS, NAMES
from attributary.report.pack import Layer, pack
from attributary.report.quantity import Quantity
from attributary.report.suspicion import Suspicion
from attributary.report.words import few


def kept_nodes(quantities: list[Quantity], doubts: list[Suspicion], most: int) -> Cut:
    """The nodes that the page has room for: those of implausible corrections, then the largest of any measure."""
    first = quantities[0].estimates
    if len(quantities) == 1:
        return cut(first.tree, first.estimate, doubts[0].implausible, most)
    sums = [q.estimates.estimate for q in quantities if q.kind != "ratio"]
    roots = slice(0, int(first.tree.first[0]))
    parts: list[NDArray[np.float64]] = [each / max(float(each[roots].sum()), 1e-12) for each in sums]
    marked = np.any([doubt.implausible for doubt in doubts], axis=0)
    return cut(first.tree, np.max(parts, axis=0), marked, most)


def stored(quantities: list[Quantity], doubts: list[Suspicion], kept: Cut) -> dict[str, Any]:
    """What the template puts into the page for its script, and how much that is."""
    first, doubt = quantities[0], doubts[0]
    est = first.estimates
    more = [
        Layer(q.estimates, d.implausible, q.digits, q.size) for q, d in zip(quantities[1:], doubts[1:], strict=True)
    ]
    packed = pack(est, doubt.implausible, kept, first.digits, more)
    about = {
        **packed.about,
        "levels": list(est.tree.level_names),
        "tau": first.tau,
        "limit": doubt.limit,
        "flags": doubt.nodes,
        "roots": int(est.tree.first[0]),
        "whole": est.whole,
        "bounds": BOUNDS,
        "names": NAMES,
    }
    if len(quantities) > 1 or first.kind != "count":
        about["measures"] = [_about(q) for q in quantities]
    return {
        "left": f"{len(est) - kept.nodes:,}" if kept.nodes < len(est) else "",
        "kept": f"{kept.nodes:,}",
        "about": _in_script(about),
        "data": packed.data,
        "bins": NAMES,
        "level_names": few(est.tree.level_names),
        "nodes": len(est),
    }


def _about(quantity: Quantity) -> dict[str, Any]:
    return {
        "name": quantity.called,
        "head": quantity.head,
        "unit": quantity.unit,
        "ratio": quantity.kind == "ratio",
        "digits": quantity.digits,
        "part": 10**quantity.digits,
        "whole": quantity.estimates.whole,
        "tau": quantity.tau,
    }


def _in_script(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

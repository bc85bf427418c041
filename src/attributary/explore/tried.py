"""Tried: the answer to one position of the Plan tab's sliders."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.explore.trial import Errors, Trial
from attributary.plan.neighbours import costs
from attributary.spec import Spec
from attributary.types import Floats, Ints

MOST_DIGITS = 30


def tried(trial: Trial, asked: Mapping[str, str]) -> dict[str, Any]:
    """What comes of the shares that were asked for, beside an equal split and the leaves alone."""
    spec = asked_spec(trial, asked)
    rows = [trial.contribution(spec, share) for share in (asked_shares(trial, spec, asked), *_simple(trial, spec))]
    mine, equal, leaves = trial.errors(spec, rows)
    chosen, unknown = rows[0], rows[0][spec.first_unknown :]
    cost = costs(chosen.sum(keepdims=True), unknown.sum(keepdims=True), spec.epsilon, spec.l1)
    sizes = np.diff(trial.start.tree.offsets).tolist()
    levels = [
        {
            "level": name,
            "nodes": sizes[i],
            "unknown": i >= spec.first_unknown,
            **_level(spec, chosen, mine, i),
            "equal": _finite(equal.levels[i]),
            "leaves": _finite(leaves.levels[i]),
        }
        for i, name in enumerate(spec.levels[: len(sizes)])
    ]
    return {
        "levels": levels,
        "tree": {"error": _finite(mine.tree), "equal": _finite(equal.tree), "leaves": _finite(leaves.tree)},
        "epsilon": spec.epsilon,
        "tau": spec.tau,
        "l1": spec.l1,
        "spent": int(chosen.sum()),
        "noise": spec.noise,
        "neighbours": spec.neighbours,
        "cost": {"conversion": cost.conversion, "change": cost.change},
        "unknown": [attribute.name for attribute in spec.unknown],
        "notes": list(spec.notes),
    }


def best(trial: Trial, asked: Mapping[str, str]) -> dict[str, Any]:
    """The split of least error, and what comes of it."""
    spec = asked_spec(trial, asked)
    row = trial.contribution(spec, trial.best(spec))
    (errors,) = trial.errors(spec, [row])
    levels = [_level(spec, row, errors, i) for i in range(trial.forest.depth)]
    return {"levels": levels, "tree": _finite(errors.tree)}


def asked_spec(trial: Trial, asked: Mapping[str, str]) -> Spec:
    """The spec of the start with what was moved; whatever it cannot be is refused by the spec itself."""
    start = trial.start.spec
    given: dict[str, Any] = start.model_dump(by_alias=True, exclude_none=True)
    for name in ("epsilon", "tau"):
        if asked.get(name):
            given[name] = _number(asked[name], name)
    for name in ("noise", "neighbours"):
        if asked.get(name):
            given[name] = asked[name]
    return Spec(**given)


def asked_shares(trial: Trial, spec: Spec, asked: Mapping[str, str]) -> Floats:
    """The part of ε that each level gets, made to sum to 1; without any, those of the start, or the best."""
    text = asked.get("share", "")
    if not text and trial.start.share is None:
        return trial.best(spec)
    given = [_number(part, "share") for part in text.split(",")] if text else list(trial.start.share or ())
    share, depth = np.array(given, np.float64), len(spec.levels)
    if share.shape != (depth,) or not (share >= 0).all() or not 0 < share.sum() < np.inf:
        raise InputError(f"shares are {depth} numbers, 0 or more and not all 0; got {text[:60]}")
    if not share[trial.forest.depth - 1 :].sum() > 0:
        raise InputError(f"{spec.levels[-1]!r} cannot be told without a key; give it a share")
    normal: Floats = share / share.sum()
    return normal


def asked_seed(asked: Mapping[str, str]) -> int:
    text = asked.get("seed") or "1"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"a seed is a whole number below 10⁹; got {text[:40]!r}")
    return int(text)


def _simple(trial: Trial, spec: Spec) -> list[Floats]:
    return [trial.shares(spec, "equal"), trial.shares(spec, "leaves")]


def _level(spec: Spec, row: Ints, errors: Errors, i: int) -> dict[str, Any]:
    return {
        "contribution": int(row[i]),
        "share": int(row[i]) / spec.budget,
        "epsilon": spec.epsilon * int(row[i]) / spec.l1,
        "error": _finite(errors.levels[i]),
        "raw": _finite(errors.raw[i]),
    }


def _finite(x: float) -> float | str | None:
    """A number that JSON knows; nan is nothing, and ∞ is a word."""
    return float(x) if isfinite(x) else None if np.isnan(x) else "inf"


def _number(text: str, name: str) -> float:
    try:
        found = float(text) if len(text) <= MOST_DIGITS and "_" not in text else float("nan")
    except ValueError:
        found = float("nan")
    if not isfinite(found):
        raise InputError(f"{name} is a number; got {text[:40]!r}")
    return found

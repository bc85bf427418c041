"""Plans of classes beside those of nodes: equal, but for rounding and for which of nodes that are alike is named."""

import json
from typing import Any

import pytest

from attributary.plan import Plan


def check_same_plan(one: Plan, other: Plan) -> None:
    check_same(json.loads(one.to_json()), json.loads(other.to_json()))


def check_same(one: Any, other: Any, where: str = "") -> None:
    """Equal, numbers but for rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one.keys() - {"largest"} - ({"node", "count"} if where.endswith("worst") else set()):
            check_same(one[key], other[key], f"{where}.{key}")  # of nodes that are alike, another one may be named
        for few, all_ in zip(one.get("largest", [])[:1], other.get("largest", []), strict=False):
            assert few["count"] == all_["count"], where
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for i, pair in enumerate(zip(one, other, strict=True)):
            check_same(*pair, f"{where}[{i}]")
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=1e-9), where
    else:
        assert one == other, where

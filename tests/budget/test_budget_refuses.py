"""Bad input is refused at the door: rule, value, remedy."""

from typing import Any

import numpy as np
import pytest

from attributary import Tree, budget
from support.budgets import METHODS

TREE = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
GOOD: dict[str, Any] = {"prior_count": np.ones(7), "epsilon": 4, "tau": 5}
BAD = [
    ({"epsilon": 0}, "epsilon is a positive number; got 0"),
    ({"epsilon": -1.5}, "epsilon is a positive number; got -1.5"),
    ({"epsilon": np.nan}, "epsilon is a positive number; got nan"),
    ({"epsilon": np.inf}, "epsilon is a positive number; got inf"),
    ({"tau": 0}, "tau is a positive number; got 0"),
    ({"tau": np.nan}, "tau is a positive number; got nan"),
    ({"phases": 0}, "phases are a whole number, 1 or more; got 0"),
    ({"phases": 2.5}, "phases are a whole number, 1 or more; got 2.5"),
    ({"phases": np.nan}, "phases are a whole number, 1 or more; got nan"),
    ({"noise": "laplace"}, "got 'laplace'"),
    ({"l1": 0}, "l1 is a whole number, 1 or more; got 0"),
    ({"l1": np.nan}, "l1 is a whole number, 1 or more; got nan"),
    ({"prior_count": np.ones(6)}, r"one prior count for each of the 7 nodes is needed.*got shape \(6,\)"),
    ({"prior_count": [1, 2, 3, np.nan, 5, 6, 7]}, "prior counts are finite numbers; got nan"),
    ({"prior_count": np.inf}, "prior counts are finite numbers; got inf"),
    ({"weights": np.ones(3)}, "weights are one number, 0 or more, for each of the 7 nodes"),
    ({"weights": -np.ones(7)}, "weights are one number, 0 or more.*sum to -7"),
    ({"weights": np.full(7, np.nan)}, "weights are one number, 0 or more.*sum to nan"),
    ({"weights": np.zeros(7)}, "not all 0; got 7 numbers that sum to 0"),
    ({"levels": {"day": 1.0}}, "levels are named level 0, level 1, level 2; got 'day'"),
    ({"levels": {"level 1": -1.0}}, "the epsilon of a level is 0 or more; 'level 1' has -1.0"),
    ({"levels": {"level 1": np.nan}}, "the epsilon of a level is 0 or more; 'level 1' has nan"),
    ({"levels": [1.0, 2.0]}, "levels are one epsilon, 0 or more, for each of the 3 levels"),
    ({"levels": [1.0, 2.0, -1.0]}, "levels are one epsilon, 0 or more, for each of the 3 levels"),
    ({"levels": [3.0, 2.0, np.nan]}, "sum to at most epsilon = 4; got 5.0"),
    ({"levels": [np.inf, np.nan, np.nan]}, "sum to at most epsilon = 4; got inf"),
    ({"levels": [np.nan, np.nan, 0.0]}, "without budget: level 2"),
    ({"levels": [4.0, np.nan, np.nan]}, "without budget: level 1, level 2"),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("options", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_is_refused(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        METHODS[method](TREE, **{**GOOD, **options})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("parent", [[-1], [-1, -1], [-1, -1, 0, 1]])
def test_a_total_is_one_node_above_the_heads(method: str, parent: list[int]) -> None:
    with pytest.raises(ValueError, match="a total is one node above the heads; this tree has"):
        METHODS[method](Tree.from_parents(parent), 1, epsilon=1, tau=1, total=True)


def test_per_node_is_not_for_all_roots_alike() -> None:
    with pytest.raises(ValueError, match="got by_root=False: take optimal"):
        budget.per_node(TREE, 1, epsilon=1, tau=1, by_root=False)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        budget.greedy(TREE, 1, epsilon=1, tau=1, colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("epsilon", "total", "message"),
    [
        (np.ones(3), None, r"a split is of shape \(1, 3\), by level, or \(7,\), by node; got \(3,\)"),
        (np.ones((2, 3)), None, r"got \(2, 3\)"),
        (np.ones((1, 3)), 1.0, r"a split is of shape \(2, 2\)"),
        (np.array([[1.0, 2.0, 1.5]]), None, "no path spends more than 4.*spends 4.5"),
        (np.array([[1.0, 1.0], [1.0, 1.0]]), 2.5, "no path spends more than 4.*spends 4.5"),
        (np.array([[5.0, -2.0, 1.0]]), None, "budgets are 0 or more.*got -2.0 as the least"),
        (np.array([[1.0, np.nan, 1.0]]), None, "budgets are 0 or more"),
        (np.array([1.0, 1, 1, 1, 1, 3, 1]), None, "no path spends more than 4.*spends 5"),
    ],
)
def test_no_split_spends_more_than_the_budget(epsilon: np.ndarray, total: float | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        budget.Split(TREE, epsilon, 4.0, total=total)


def test_expectations_need_a_variance_for_each_node() -> None:
    with pytest.raises(ValueError, match=r"one noise variance for each of the 7 nodes is needed; got shape \(3,\)"):
        budget.expected(TREE, 1, [1.0, 2.0, 3.0], 5)


def test_a_split_of_another_tree_is_refused() -> None:
    split = budget.equal(Tree.from_parents([-1, 0, 0]), 1, epsilon=1, tau=1)
    with pytest.raises(ValueError, match="one noise variance for each of the 7 nodes is needed"):
        budget.expected(TREE, 1, split, 5)

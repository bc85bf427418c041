"""Measurements: a noisy value and its variance for each node, from wherever they come."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.tables.not_private import together
from attributary.tree import Tree

Floats = NDArray[np.float64]
Shape = Literal["laplace", "normal", "dlap"]


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy values and variances, one per node.

    A variance of inf means not measured, of 0 known exactly. `shape` is the noise's: "laplace" (also discrete
    Laplace that was scaled down, as the API's), "dlap" (discrete Laplace on whole counts) or "normal".
    """

    noisy: Floats
    variance: Floats
    shape: Shape = "laplace"
    not_private: str = ""  # why what is made of them is not private, if it is not

    def __post_init__(self) -> None:
        if self.shape not in get_args(Shape):
            raise ValueError(f"the noise's shape is one of {', '.join(get_args(Shape))}; got {self.shape!r}")
        if np.shape(self.noisy) != np.shape(self.variance):
            raise ValueError(
                f"noisy values and variances go in pairs; got {np.size(self.noisy)} and {np.size(self.variance)}"
            )

    @classmethod
    def of(
        cls, tree: Tree, noisy: ArrayLike, variance: ArrayLike, shape: Shape = "laplace", not_private: str = ""
    ) -> Self:
        """The measurements of a tree's nodes; one number as variance holds for all of them."""
        x, var = _numbers(noisy, "noisy values"), _numbers(variance, "variances")
        var = np.full(len(tree), float(var)) if var.ndim == 0 else var
        for name, values in (("noisy value", x), ("variance", var)):
            if values.shape != (len(tree),):
                raise ValueError(f"one {name} for each of the {len(tree)} nodes is needed; got shape {values.shape}")
        return cls(x, var, shape, not_private)

    def excess(self) -> Floats:
        """The excess kurtosis of each node's noise: 0 if normal, 3 if Laplace, 3 + 1/variance if discrete Laplace."""
        if self.shape == "normal":
            return np.zeros_like(self.variance)
        if self.shape == "laplace":
            return np.full_like(self.variance, 3.0)
        return 3.0 + 1.0 / np.where(self.variance > 0, self.variance, np.inf)

    def again(self, other: "Measurements") -> "Measurements":
        """Both measured the *same* conversions (a query repeated): combined by inverse variance."""
        x, y = (np.where(m.variance == np.inf, 0.0, m.noisy) for m in (self, other))
        exact = (self.variance == 0) & (other.variance == 0) & (x != y)
        if exact.any():
            v = int(np.argmax(exact))
            raise ValueError(f"exact figures (variance 0) must agree; node {v} is both {x[v]} and {y[v]}")
        noisy, variance = combine(x, self.variance, y, other.variance)
        return Measurements(noisy, variance, self.shape, together(self.not_private, other.not_private))

    def plus(self, other: "Measurements") -> "Measurements":
        """They measured *different* conversions (batches, periods): values add, and so do variances."""
        words = together(self.not_private, other.not_private)
        return Measurements(self.noisy + other.noisy, self.variance + other.variance, self.shape, words)


def combine(x: Floats, var_x: Floats, y: Floats, var_y: Floats) -> tuple[Floats, Floats]:
    """Two independent estimates of the same figures made one (Algorithm 1, CombineEstimates)."""
    with np.errstate(invalid="ignore"):
        both = var_x + var_y
        trust_x, trust_y = var_y / both, var_x / both
    exact = both == 0
    trust_x[exact | (var_y == np.inf)], trust_y[exact] = 1.0, 0.0
    trust_x[var_x == np.inf], trust_y[var_x == np.inf] = 0.0, 1.0
    with np.errstate(invalid="ignore"):
        combined = np.where(var_x == np.inf, var_y, np.where(var_y == np.inf, var_x, trust_y * var_y))
    return trust_x * x + trust_y * y, combined


def _numbers(values: ArrayLike, what: str) -> Floats:
    given = np.asarray(values)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{what} are numbers; got {given.dtype}")
    return np.ascontiguousarray(given, np.float64) if given.ndim else np.asarray(given, np.float64)

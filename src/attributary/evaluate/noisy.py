"""noisy: figures as a summary report would give them, drawn for experiments; nothing here is for release.

A draw is two exponential numbers for each node. ⌊E/a⌋ is geometric, and the difference of two such is DLap(a) for any
rate a: so all methods, budgets and noise models of a tree are tried on the same luck, and differ by what they do.
"""

from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from attributary.measurements import Shape
from attributary.noise import dlap_variance

Floats = NDArray[np.float64]


class Luck(NamedTuple):
    plus: Floats
    minus: Floats

    def dlap(self, rate: float | Floats) -> Floats:
        """Draws of DLap(rate)."""
        drawn: Floats = np.floor(self.plus / rate)
        drawn -= np.floor(self.minus / rate)
        return drawn

    @property
    def even(self) -> Floats:
        """Draws with mean 0 and variance 1, of whatever shape: for what is too small for its shape to matter."""
        drawn: Floats = (self.plus - self.minus) / np.sqrt(2)
        return drawn


def luck(seed: int, name: str, batch: int, size: int) -> Luck:
    """A batch of draws for the tree of this name; the same whoever asks, and when."""
    key = (crc32(name.encode()), batch)
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))
    return Luck(rng.standard_exponential(size), rng.standard_exponential(size))


class Noise(NamedTuple):
    """The noise of nodes that have some shares of a budget ε; a node without a share is not measured."""

    model: str
    epsilon: float
    l1: int
    share: Floats

    @property
    def shape(self) -> Shape:
        return "laplace" if self.model == "api" else "dlap"

    @property
    def scale(self) -> float:
        """What all variances are proportional to, whatever ε is: under the API's noise var(DLap(ε/L1)), else 1."""
        return dlap_variance(self.epsilon / self.l1) if self.model == "api" else 1.0

    @property
    def variance(self) -> Floats:
        some = self.share > 0
        found = np.full(len(self.share), np.inf)
        if self.model == "api":
            found[some] = self.scale / (self.l1 * self.share[some]) ** 2
        else:
            found[some] = dlap_variance(self.epsilon * self.share[some])
        return found

    def added(self, count: Floats, luck: Luck) -> Floats:
        """The counts with noise; 0 where nothing is measured, so that nothing is given away."""
        some = self.share > 0
        if self.model == "api":
            noise = luck.dlap(self.epsilon / self.l1) / (self.l1 * np.where(some, self.share, 1.0))
        else:
            noise = luck.dlap(self.epsilon * np.where(some, self.share, 1.0))
        return np.where(some, count + noise, 0.0)

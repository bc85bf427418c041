"""noisy: figures as a summary report would give them, drawn for experiments; nothing here is for release.

A draw is two exponential numbers for each node, of which each noise model makes its noise: so all methods, budgets and
noise models of a tree are tried on the same luck, and differ by what they do.
"""

from typing import NamedTuple
from zlib import crc32

import numpy as np

from attributary.noise import NoiseModel, model
from attributary.types import Floats


class Luck(NamedTuple):
    plus: Floats
    minus: Floats

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
    def page(self) -> NoiseModel:
        return model(self.model, self.epsilon, self.l1)

    @property
    def shape(self) -> str:
        return self.page.shape.name

    @property
    def scale(self) -> float:
        """What all variances are proportional to, whatever ε is."""
        return self.page.factor

    @property
    def variance(self) -> Floats:
        return self.page.variance(self.epsilon * self.share)

    def added(self, count: Floats, luck: Luck) -> Floats:
        """The counts with noise; 0 where nothing is measured, so that nothing is given away."""
        page, budget = self.page, self.epsilon * self.share
        return np.where(budget > 0, count + page.replay(budget, *luck) / page.steps(budget), 0.0)

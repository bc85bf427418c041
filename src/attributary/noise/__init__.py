"""Noise: one page per model, chosen here by its name. Nothing else asks which noise it is.

    noise.model("api", epsilon=4, l1=65536).variance(budget)     # of nodes with these parts of ε
    noise.shape_of("laplace").excess(variance)                      # of figures with noise of this variance
    noise.sample_dlap(4 / 65536, size=100)                       # exact draws

A model of your own is a subclass of `NoiseModel`, and `noise.register` makes it known to specs, plans and estimates.
"""

from attributary.noise.discrete_laplace import Entropy, dlap_variance, rate, sample_dlap, sample_each
from attributary.noise.model import NoiseModel
from attributary.noise.on_counts import OnCounts
from attributary.noise.on_sums import OnSums
from attributary.noise.shapes import DISCRETE_LAPLACE, LAPLACE, NORMAL, NoiseShape

__all__ = [
    "MODELS",
    "SHAPES",
    "Entropy",
    "NoiseModel",
    "NoiseShape",
    "dlap_variance",
    "model",
    "page_of",
    "rate",
    "register",
    "sample_dlap",
    "sample_each",
    "shape_of",
]

MODELS: dict[str, type[NoiseModel]] = {}
SHAPES: dict[str, NoiseShape] = {}


def register(*given: type[NoiseModel] | NoiseShape) -> None:
    """Makes models, with their shapes, or shapes alone known by their names."""
    for page in given:
        if isinstance(page, NoiseShape):
            SHAPES[page.name] = page
        else:
            MODELS[page.name] = page
            SHAPES[page.shape.name] = page.shape


def model(name: str, epsilon: float, l1: int = 65536) -> NoiseModel:
    """The noise model of that name, for a budget of ε in all."""
    return page_of(name)(epsilon, l1)


def page_of(name: str) -> type[NoiseModel]:
    """The page of that name, for whatever budget."""
    if name not in MODELS:
        known = " or ".join(f'"{each}" ({page.short})' for each, page in MODELS.items())
        raise ValueError(f"noise is {known}; got {name!r:.80}")
    return MODELS[name]


def shape_of(name: str) -> NoiseShape:
    """The shape of that name."""
    if name not in SHAPES:
        raise ValueError(f"the noise's shape is one of {', '.join(SHAPES)}; got {name!r:.80}")
    return SHAPES[name]


register(OnSums, OnCounts, LAPLACE, DISCRETE_LAPLACE, NORMAL)

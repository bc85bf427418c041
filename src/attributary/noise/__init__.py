"""Noise: one page per model, chosen here by its name. Nothing else asks which noise it is.

    noise.model("api", epsilon=4, l1=65536).variance(budget)     # of nodes with these parts of ε
    noise.shape_of("laplace").excess(variance)                   # of figures with noise of this variance
    noise.sample_dlap(4 / 65536, size=100)                       # exact draws
    noise.parse("api:epsilon=4,contribution=32768")              # as a user says it of figures

A model of your own is a subclass of `NoiseModel`, and `noise.register` makes it known to specs, plans and estimates.
"""

from dataclasses import replace

from attributary.errors import InputError
from attributary.noise.discrete_laplace import Entropy, dlap_variance, rate, sample_dlap, sample_each
from attributary.noise.gaussian import Gaussian, dgauss_variance, sample_dgauss
from attributary.noise.model import (
    AggregatorCounts,
    AggregatorSums,
    NoiseModel,
    OnCounts,
    OnSums,
    RoundedLaplace,
    TwoAggregatorCounts,
    TwoAggregatorSums,
)
from attributary.noise.privacy_account import PrivacyAccount, gaussian_delta, gaussian_epsilon, gaussian_mu
from attributary.noise.randomised_response import RandomisedResponse, StateWeights
from attributary.noise.shapes import DISCRETE_LAPLACE, DLAP_TWICE, LAPLACE, LAPLACE_TWICE, NORMAL, NoiseShape
from attributary.noise.statement import Statement, by_level, estimated, read_statement

__all__ = [
    "MODELS",
    "SHAPES",
    "Entropy",
    "NoiseModel",
    "NoiseShape",
    "PrivacyAccount",
    "RandomisedResponse",
    "StateWeights",
    "Statement",
    "dgauss_variance",
    "dlap_variance",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "model",
    "page_of",
    "parse",
    "parse_levels",
    "rate",
    "register",
    "sample_dgauss",
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


def model(name: str | NoiseModel, epsilon: float, l1: int = 65536, delta: float = 0.0) -> NoiseModel:
    """The noise model of that name, for a budget of ε in all; a model stays what it is."""
    return name if isinstance(name, NoiseModel) else page_of(name)(epsilon, l1, delta)


def page_of(name: str) -> type[NoiseModel]:
    """The page of that name, for whatever budget."""
    if name not in MODELS:
        known = " or ".join(f'"{each}" ({page.short})' for each, page in MODELS.items())
        raise InputError(f"noise is {known}; got {name!r:.80}")
    return MODELS[name]


def shape_of(name: str) -> NoiseShape:
    """The shape of that name."""
    if name not in SHAPES:
        raise InputError(f"the noise's shape is one of {', '.join(SHAPES)}; got {name!r:.80}")
    return SHAPES[name]


def parse(text: str) -> Statement:
    """Noise as a user states it of figures: a model or a shape, and its parameters."""
    pages = {name: (shape, shape.formulas) for name, shape in SHAPES.items()}
    pages |= {name: (page.shape, (page.formula,)) for name, page in MODELS.items() if page.formula is not None}
    pages[estimated.__name__] = (LAPLACE, (estimated,))
    statement = read_statement(text, {name: (shape, formulas) for name, (shape, formulas) in pages.items() if formulas})
    shape = shape_of(statement.given.get("shape", LAPLACE.name)) if statement.is_estimated else statement.shape
    return replace(statement, shape=shape)


def parse_levels(text: str) -> dict[str | None, Statement]:
    """The same by level, as in `region=laplace:scale=3; store=normal:std=2`; by None where all levels have one."""
    return by_level(text, parse)


register(OnSums, OnCounts, Gaussian, RoundedLaplace, LAPLACE, DISCRETE_LAPLACE, NORMAL)
register(AggregatorSums, TwoAggregatorSums, AggregatorCounts, TwoAggregatorCounts, LAPLACE_TWICE, DLAP_TWICE)

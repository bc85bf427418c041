"""Statement: noise as a user states it of figures, `laplace:scale=3` or `api:epsilon=4,contribution=32768`.

Besides the parameters of its model, every noise can be stated by the bounds that a clean room prints beside a figure,
`laplace:interval=low,high@0.95,two-sided`, and `rounded` says that figures were rounded after their noise was added.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np

from attributary.errors import InputError, brief
from attributary.noise.shapes import NoiseShape
from attributary.tree.paths import RowError
from attributary.types import Floats

Figures = tuple[Floats, Floats]  # the variance of figures, and what they are to be divided by
Formula = Callable[..., Figures]  # its arguments are what may be stated; those with a default need not be
Amounts = Callable[[str, str], Floats]  # reads a parameter, by its name and text

INTERVAL, ROUNDED = "interval", "rounded"
SIDES = {"two-sided": 1.0, "one-sided": 2.0}  # how many times the chance beyond one bound is that beyond both
NOT_MEASURED = {"scale": np.inf, "std": np.inf, "contribution": 0.0}  # what says so of a figure, by parameter
FLAGS = ("sums",)
WHY_SIDES = (
    "say two-sided (the true count is between the bounds so often) or one-sided (it is above low so often, and below "
    "high so often): the variance of Laplace noise differs 1.7-fold"
)


def estimated(per: str = "all", shape: str = "laplace") -> Figures:
    """Noise that nobody states, to be estimated from how far figures miss adding up (`estimate_noise`)."""
    raise TypeError("noise that is to be estimated has no formula")


@dataclass(frozen=True)
class Statement:
    """A noise model or a shape by name, with what is stated of it as text: numbers, or what stands for them."""

    name: str
    shape: NoiseShape
    formula: Formula
    given: Mapping[str, str]
    rounded: float = 0.0  # the step that figures were rounded to
    confidence: float = 0.0  # of an interval, where one is given: of both its bounds together

    @property
    def columns(self) -> list[str]:
        """What may be names of columns among the parameters."""
        return [name for text in self.given.values() if not self.is_estimated for name in (text, *text.split(","))]

    @property
    def is_estimated(self) -> bool:
        """Whether nobody states how much noise there is; then its figures have the variance of rounding alone."""
        return self.formula is estimated

    def figures(self, amounts: Amounts, noisy: Floats | None = None) -> Figures:
        """The variance of figures, and what they are divided by; `amounts` reads a parameter, by name and text.

        An interval that was cut at 0 is as wide as its upper half says, if the `noisy` figures are given.
        """
        given: dict[str, Floats] = {}
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # what is divided by 0 was not measured
            if self.is_estimated and noisy is not None:
                variance, divisor = np.zeros_like(noisy), np.ones_like(noisy)
            elif INTERVAL in self.given:
                variance, divisor = self._of_interval(amounts, noisy)
            else:
                given = {name: amounts(name, text) for name, text in self.given.items()}
                _refuse_extremes(given)
                variance, divisor = self.formula(**given)
            variance = variance + ((self.rounded / divisor) ** 2 / 12 if self.rounded else 0.0)
        said = [given[name] == value for name, value in NOT_MEASURED.items() if name in given]
        if not ((variance < np.inf) | np.any([np.zeros_like(variance, bool), *said], 0)).all():
            raise ValueError(f"the variance of {self.name} noise with these parameters is too large for a number")
        return variance, divisor

    def _of_interval(self, amounts: Amounts, noisy: Floats | None) -> Figures:
        bounds = zip(("low", "high"), self.given[INTERVAL].split(","), strict=True)
        low, high = (amounts(name, text.strip()) for name, text in bounds)
        if not (low <= high).all():
            raise RowError(int(np.argmin(low <= high)), "an interval goes from low to high; this one does not")
        half = (high - low) / 2
        if noisy is not None:
            is_whole = bool((np.mod([low, high], 1) == 0).all())  # then they may have been rounded
            slack = max(self.rounded, 1.0 if is_whole else 0.0) + 1e-9 * np.abs(noisy)
            outside = (noisy > high + slack) | ((noisy < low - slack) & (low != 0))
            if outside.any():
                row = int(np.argmax(outside))
                bounds_there = f"{low[row]:g} to {high[row]:g}"
                raise RowError(row, f"the figure {noisy[row]:g} is outside its own bounds, {bounds_there}")
            half = np.where(low == 0, np.fmax(half, high - noisy), half)
        return (half / self.shape.beyond(np.ones(1), 1 - self.confidence)) ** 2, np.ones_like(half)


def _refuse_extremes(given: Mapping[str, Floats]) -> None:
    """Raises a ValueError for a parameter of 0 or inf, unless it says that a figure is exact or not measured."""
    for name, values in given.items():
        bad = ~(values < np.inf) & (NOT_MEASURED.get(name) != np.inf)
        bad |= ~(values > 0) & (name not in NOT_MEASURED)
        if name not in FLAGS and bad.any():
            raise ValueError(f"{name} is a positive number; got {values[bad][0]:g}")


def read_statement(text: str, known: Mapping[str, tuple[NoiseShape, Sequence[Formula]]]) -> Statement:
    """NAME:PARAMETER=VALUE,…; a value may itself hold commas, as one number per level does."""
    name, _, rest = text.strip().partition(":")
    if re.fullmatch(r"[\d.,]+", name):
        raise InputError(f"noise has a shape, too: laplace:scale={name} or normal:std={name}; got {brief(text)}")
    if name not in known:
        ways = "; ".join(f"{each}:{_forms(formulas)}" for each, (_, formulas) in known.items())
        raise InputError(f"noise is stated as one of {ways}; got {brief(text)}")
    shape, formulas = known[name]
    given = _given(text, rest, name, formulas)
    rounded = _positive(given.pop(ROUNDED, "0"), ROUNDED)
    sides = [side for side in SIDES if given.pop(side, None)]
    if INTERVAL in given or sides:
        if set(given) != {INTERVAL} or estimated in formulas:
            raise InputError(f"an interval says all of the noise, and sides belong to it; got {brief(text)}")
        return _with_interval(text, name, shape, formulas[0], given[INTERVAL], sides, rounded)
    for formula in formulas:
        parameters = signature(formula).parameters
        needed = {key for key, one in parameters.items() if one.default is Parameter.empty}
        if needed <= set(given) <= set(parameters):
            return Statement(name, shape, formula, given, rounded)
    every = [set(signature(formula).parameters) for formula in formulas]
    strange = [key for key in given if not any(key in each for each in every)]
    first = signature(next((f for f, each in zip(formulas, every, strict=True) if set(given) <= each), formulas[0]))
    lacking = [key for key, one in first.parameters.items() if one.default is Parameter.empty and key not in given]
    problem = f"{strange[0]!r} is not one of its parameters" if strange else f"{(lacking or ['one'])[0]!r} is missing"
    raise InputError(f"noise is stated as {name}:{_forms(formulas)}; in {brief(text)}, {problem}")


def _given(text: str, rest: str, name: str, formulas: Sequence[Formula]) -> dict[str, str]:
    """What is stated, by name; a flag is 1."""
    given: dict[str, str] = {}
    defaults = {key for f in formulas for key, one in signature(f).parameters.items() if one.default is not one.empty}
    for piece in rest.split(",") if rest else []:
        key, equals, value = (part.strip() for part in piece.partition("="))
        if equals and key in given:
            raise InputError(f"{key} is stated once; got {brief(text)}")
        if equals:
            given[key] = value
        elif key in defaults or key == ROUNDED or key in SIDES:
            given[key] = "1"  # a flag, as in api:…,sums
        elif given:
            last = next(reversed(given))
            given[last] += f",{key}"
        else:
            raise InputError(f"noise is stated as {name}:{_forms(formulas)}; got {brief(text)}")
    return given


def _with_interval(
    text: str, name: str, shape: NoiseShape, formula: Formula, text_of_bounds: str, sides: list[str], rounded: float
) -> Statement:
    bounds, _, level = text_of_bounds.rpartition("@")
    if len(bounds.split(",")) != 2:
        raise InputError(f"an interval is stated as interval=LOW,HIGH@0.95, with two columns; got {brief(text)}")
    if len(sides) != 1:
        raise InputError(f"{WHY_SIDES}; got {brief(text)}")
    beyond = SIDES[sides[0]] * (1 - _positive(level, "the confidence of an interval"))
    if np.ptp(shape.beyond(np.array([1.0, 1e6]), 0.1)) > 0:
        raise InputError(f"an interval of {name} noise does not tell its variance; state it as laplace or normal")
    if not 0 < beyond < 1:
        raise InputError(f"the confidence of an interval is between {'0.5' if beyond >= 1 else '0'} and 1; got {level}")
    return Statement(name, shape, formula, {INTERVAL: bounds}, rounded, 1 - beyond)


def _positive(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < np.inf:
        raise InputError(f"{what} is a number, 0 or more; got {brief(text)}")
    return value


def _forms(formulas: Sequence[Formula]) -> str:
    """The parameters of formulas as a user writes them: epsilon=…,contribution=…[,l1=65536]."""
    forms = []
    for formula in formulas:
        given = {name: one.default for name, one in signature(formula).parameters.items()}
        needed = ",".join(f"{name}=…" for name, value in given.items() if value is Parameter.empty)
        rest = "".join(f"[,{name}={value}]" for name, value in given.items() if value is not Parameter.empty)
        forms.append(needed + rest if needed else rest.replace("[,", "[", 1))
    return " or ".join(forms)


def by_level(text: str, read: Callable[[str], object]) -> dict[str | None, Any]:
    """Noise that differs by level, as in `region=laplace:scale=3; store=normal:std=2`; by None where it does not."""
    pieces = [piece.strip() for piece in text.split(";") if piece.strip()]
    levels: dict[str | None, Any] = {}
    for piece in pieces:
        level, equals, rest = piece.partition("=")
        if not equals or ":" in level:
            if len(pieces) > 1:
                raise InputError(f"noise by level is stated as LEVEL=MODEL:…; LEVEL=MODEL:…; got {brief(text)}")
            return {None: read(text)}
        if level.strip() in levels:
            raise InputError(f"the noise of {level.strip()} is stated once; got {brief(text)}")
        levels[level.strip()] = read(rest)
    return levels or {None: read(text)}

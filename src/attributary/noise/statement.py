"""Statement: noise as a user states it of figures, `laplace:scale=3` or `api:epsilon=4,contribution=32768`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature

from attributary.errors import InputError, brief
from attributary.noise.shapes import NoiseShape
from attributary.types import Floats

Figures = tuple[Floats, Floats]  # the variance of figures, and what they are to be divided by
Formula = Callable[..., Figures]  # its arguments are what may be stated; those with a default need not be


@dataclass(frozen=True)
class Statement:
    """A noise model or a shape by name, with what is stated of it as text: numbers, or what stands for them."""

    name: str
    shape: NoiseShape
    formula: Formula
    given: Mapping[str, str]

    def figures(self, amounts: Callable[[str, str], Floats]) -> Figures:
        """The variance of figures, and what they are divided by; `amounts` reads a parameter, by name and text."""
        return self.formula(**{name: amounts(name, text) for name, text in self.given.items()})


def read_statement(text: str, known: Mapping[str, tuple[NoiseShape, Formula]]) -> Statement:
    """NAME:PARAMETER=VALUE,…; a value may itself hold commas, as one number per level does."""
    name, _, rest = text.strip().partition(":")
    if name not in known:
        ways = "; ".join(f"{each}:{_form(formula)}" for each, (_, formula) in known.items())
        raise InputError(f"noise is stated as one of {ways}; got {brief(text)}")
    shape, formula = known[name]
    given: dict[str, str] = {}
    parameters = signature(formula).parameters
    for piece in rest.split(",") if rest else []:
        key, equals, value = (part.strip() for part in piece.partition("="))
        if equals and key in given:
            raise InputError(f"{key} is stated once; got {brief(text)}")
        if equals:
            given[key] = value
        elif key in parameters and parameters[key].default is not Parameter.empty:
            given[key] = "1"  # a flag, as in api:…,sums
        elif given:
            last = next(reversed(given))
            given[last] += f",{key}"
        else:
            raise InputError(f"noise is stated as {name}:{_form(formula)}; got {brief(text)}")
    strange = [key for key in given if key not in parameters]
    lacking = [key for key, one in parameters.items() if one.default is Parameter.empty and key not in given]
    if strange or lacking:
        problem = f"{strange[0]!r} is not one of its parameters" if strange else f"{lacking[0]!r} is missing"
        raise InputError(f"noise is stated as {name}:{_form(formula)}; in {brief(text)}, {problem}")
    return Statement(name, shape, formula, given)


def _form(formula: Formula) -> str:
    """The parameters of a formula as a user writes them: epsilon=…,contribution=…[,l1=65536]."""
    needed, optional = [], []
    for name, one in signature(formula).parameters.items():
        if one.default is Parameter.empty:
            needed.append(f"{name}=…")
        else:
            optional.append(f"[,{name}={one.default:g}]")
    return ",".join(needed) + "".join(optional)

"""Mistakes: everything that is wrong with a spec at once, each with its path in the file.

A key's description is its rule, so that what pydantic refuses is told in our words: rule, value, remedy.
"""

import json
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from attributary.errors import InputError, shortened
from attributary.tree.paths import unprintable
from attributary.types import Record

Model = TypeVar("Model", bound=BaseModel)
Path = tuple[str | int, ...]
Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], Field(strict=False)]  # TOML has lists
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]

SHOWN = 20  # mistakes
LONGEST = 400  # characters of one
DEEPEST = 32  # lists and tables within each other
BITS = 64  # of a whole number, as in TOML


class Mistake(NamedTuple):
    """A rule between keys that is broken, and the key to mend."""

    key: str | Path
    rule: str


class Mistakes(InputError):  # noqa: N818
    """All that is wrong with a spec; the first line of several says how many there are, and in which file."""

    def __init__(self, lines: list[str], name: str = "the spec") -> None:
        lines = [shortened(line, LONGEST) for line in lines]
        more = [f"and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
        several = [f"{name} has {len(lines):,} mistakes:", *lines[:SHOWN], *more]
        super().__init__("\n  ".join(several) if len(lines) > 1 else f"{name}: {lines[0]}")
        self.lines = lines


def refuse_unruly(given: object) -> None:
    """Raises Mistakes for what no key can mean, wherever it is: deep nesting, huge whole numbers, unprintable text."""
    stack: list[tuple[Path, Any]] = [((), given)]
    while stack:
        path, value = stack.pop()
        items: Any = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            wrong = _unruly(item) or _unruly(key)
            if wrong:
                raise Mistakes([f"{path_in_words((*path, key))}: {wrong}"])
            if isinstance(item, dict | list | tuple):
                if len(path) >= DEEPEST:
                    raise Mistakes([f"{path[0]}: lists and tables are at most {DEEPEST} deep; got more of them"])
                stack.append(((*path, key), item))


def _unruly(value: object) -> str | None:
    if isinstance(value, int) and value.bit_length() >= BITS:
        return f"whole numbers have fewer than {BITS} bits; got one of {value.bit_length():,} bits"
    odd = unprintable(value) if isinstance(value, str) else None
    return f"text has no control characters; got {odd}: leave it out" if odd else None


class Section(BaseModel):
    """A part of a spec. What is wrong between its keys is told together with what is wrong in each of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def mistakes(cls, given: Record) -> Iterator[Mistake]:
        """What is wrong between the keys, whatever else is wrong with them."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return all_at_once(given, handler, cls.mistakes)


def as_in_file(given: Record, model: type[BaseModel]) -> Record:
    """Keys as a file names them, and sections as its tables, for what Python code gives otherwise."""
    called = {name: field.alias or name for name, field in model.model_fields.items()}
    return {called.get(key, key): _as_tables(value) for key, value in given.items()}


def _as_tables(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_dump(by_alias=True, exclude_none=True)
    return [_as_tables(each) for each in value] if isinstance(value, list | tuple) else value


def tables_in(given: Record, key: str) -> list[Record]:
    """The tables that are listed under a key; an empty one in the place of what is none."""
    listed = given.get(key)
    return [each if isinstance(each, dict) else {} for each in listed] if isinstance(listed, list) else []


def twice(names: list[Any], key: str, what: str) -> Iterator[Mistake]:
    """A mistake for every name that came before."""
    for i, name in enumerate(names):
        if name is not None and name in names[:i]:
            rule = f"{what} are named once each; {name!r} is the name of {key}[{names.index(name) + 1}] too"
            yield Mistake((key, i, "name"), rule)


def titled(text: str) -> str:
    """A name without blanks around it; a pydantic validator."""
    if text != text.strip() or not text:
        raise ValueError
    return text


def one_of(names: Collection[str]) -> PlainValidator:
    """A validator of a name that is registered."""

    def checked(name: Any) -> Any:
        if not isinstance(name, str) or name not in names:
            raise ValueError
        return name

    return PlainValidator(checked)


def all_at_once(given: Any, handler: Callable[[Any], Model], rules: Callable[[Record], Iterator[Mistake]]) -> Model:
    """The model that pydantic makes of what is given, or all that breaks its rules and ours between its keys."""
    if not isinstance(given, dict):
        return handler(given)
    ours = [_details(mistake) for mistake in rules(given)]
    try:
        model = handler(given)
    except ValidationError as error:
        raise _together([*map(_again, error.errors(include_url=False)), *ours]) from None
    if ours:
        raise _together(ours)
    return model


def _together(details: list[InitErrorDetails]) -> ValidationError:
    return ValidationError.from_exception_data("spec", details)


def with_rules(error: ValidationError, model: type[BaseModel]) -> ValidationError:
    """The same mistakes in the words of a model that is not the one its key is declared with."""
    return _together([_details(Mistake(each["loc"], _rule(each, model))) for each in error.errors(include_url=False)])


def _details(mistake: Mistake) -> InitErrorDetails:
    path = (mistake.key,) if isinstance(mistake.key, str) else mistake.key
    return InitErrorDetails(type=PydanticCustomError("rule", "{rule}", {"rule": mistake.rule}), loc=path, input=None)


def _again(error: Any) -> InitErrorDetails:
    kind = PydanticCustomError(error["type"], "{rule}", {**error.get("ctx", {}), "rule": error["msg"]})
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"])


def in_words(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Each mistake in a line: its path in the file, then rule, value, remedy."""
    lines: dict[str, None] = {}
    places = {field.alias or name: i for i, (name, field) in enumerate(model.model_fields.items())}

    def place(mistake: Any) -> tuple[int, ...]:
        """Key by key, attribute by attribute; unknown keys come last."""
        first = tuple(places.get(str(key), len(places)) for key in mistake["loc"][:1])
        return first + tuple(key for key in mistake["loc"][1:2] if isinstance(key, int))

    errors = sorted(error.errors(include_url=False), key=place)
    above = {other["loc"][:depth] for other in errors for depth in range(len(other["loc"]))}
    for mistake in errors:
        path = mistake["loc"]
        if not (path in above and mistake["type"] == "too_short"):  # it counts only what is right
            lines[": ".join(filter(None, [path_in_words(path), _rule(mistake, model)]))] = None
    return list(lines)


def value_in_words(value: object) -> str:
    """A value as it stands in the file."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, float):
        return f"{value:g}"
    words = json.dumps(value, ensure_ascii=False, default=str)
    return words[:60] + "…" * (len(words) > 60)


def path_in_words(path: Path) -> str:
    """A path in the file, as in attribute[2].domain: the second attribute's."""
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def _rule(mistake: Any, model: type[BaseModel]) -> str:
    kind, path = mistake["type"], mistake["loc"]
    if kind == "rule":
        return str(mistake["msg"])
    cause = mistake.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return str(cause)
    rule = ""  # the nearest to the path
    for key in path:
        for name, field in model.model_fields.items():
            if key in (name, field.alias):
                rule, model = field.description or rule, _model_within(field.annotation) or model
                break
    if kind == "extra_forbidden":
        keys = [field.alias or name for name, field in model.model_fields.items()]
        close = get_close_matches(str(path[-1]), keys, 1)
        return f"there is no such key; {f'did you mean {close[0]}?' if close else 'the keys are ' + ', '.join(keys)}"
    return f"is missing; {rule}" if kind == "missing" else f"{rule}; got {value_in_words(mistake['input'])}"


def _model_within(annotation: object) -> type[BaseModel] | None:
    """The model in an annotation such as tuple[Attribute, ...] or Logs | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_model_within(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in inner if model), None)

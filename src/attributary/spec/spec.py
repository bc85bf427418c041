"""Spec: the one file a user writes. Attributes top to bottom, the budget, and how it may be spent."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from attributary.errors import InputError, did_you_mean
from attributary.noise import MODELS, NoiseModel, model, page_of
from attributary.rmsre import METRICS, TAU, Metric
from attributary.spec.attribute import DOMAINS, TAKEN, Attribute, Logs
from attributary.spec.breakdown import AskedBreakdown, in_order_of_one, occurring, queried, wrong_breakdowns
from attributary.spec.measure import (
    AUTO,
    COUNT,
    GUARD,
    NONE,
    REPORTS,
    Measure,
    Target,
    Targets,
    TotalTarget,
    number_or,
    targets_of,
    wrong_measures,
)
from attributary.spec.mistakes import (
    BITS,
    DEEPEST,
    Listed,
    Mistake,
    Mistakes,
    Positive,
    Section,
    all_at_once,
    as_in_file,
    in_words,
    one_of,
    refuse_unruly,
    tables_in,
    twice,
)
from attributary.spec.privacy_unit import UNITS, PrivacyUnit
from attributary.spec.terms import ApiSection, Terms, at_epsilon, at_settings, terms_of, with_its_defaults, wrong_api
from attributary.tables.table_source import readable
from attributary.tree import Tree
from attributary.types import Record

L1, NOISE = 65_536, "api"  # those of summary reports
LARGEST_L1 = 10**9
MOST = 100  # attributes, or measures
LONGEST = 200_000_000  # characters; a domain may have millions of values
NEEDS_DELTA = 'noise = "{}" needs delta, the chance that epsilon does not hold: add delta = 1e-6 to the spec'
PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')\s*+\.\s*+"""
DEEP_KEY = re.compile(rf"(?<![\w-]){PART}(?:{PART}){{{DEEPEST}}}")


def known_noise(name: object) -> str:
    """The name of a noise model; a pydantic validator."""
    if not isinstance(name, str):
        raise ValueError
    return page_of(name).name


class Spec(Section):
    """What is asked: a tree of attributes, and a budget for it. Frozen; every mistake is reported at once."""

    model_config = ConfigDict(populate_by_name=True)

    epsilon_or_auto: Annotated[float | str, number_or(AUTO)] = Field(
        alias="epsilon", description='a number above 0, as in epsilon = 4, or "auto", the least that meets all targets'
    )
    tau: Positive = Field(default=TAU, description="the count below which errors stop being relative, above 0")
    metric: Annotated[str, one_of(METRICS)] | None = Field(
        default=None, description='the measure of error; "rmsre", the default, is the only one that is built in'
    )
    l1: int = Field(
        default=L1, ge=1, le=LARGEST_L1, description="a whole number above 0, up to 1e9; the API's is 65536"
    )
    noise: Annotated[str, PlainValidator(known_noise)] = Field(
        default=NOISE,
        description='"api" (scaled contributions, as in summary reports), "unit" (noise on whole counts) or "gaussian"',
    )
    delta: Positive | None = Field(
        default=None, lt=1, description="a chance above 0 and below 1 that ε does not hold, as in delta = 1e-6"
    )
    split_by: str | None = Field(
        default=None, description="the first attribute's name, if each of its values gets a split of its own"
    )
    total_or_target: bool | TotalTarget = Field(
        default=False,
        alias="total",
        description="true for a node above the first attribute, else false; or a section [total] with its target",
    )
    guard: Annotated[float | str, number_or(NONE, 1)] = Field(
        default=GUARD,
        description="the most that a level's error may be in terms of its error under an equal split, "
        f'1 or more, as in guard = 2; "{NONE}" for no such bound',
    )
    conversions_per_impression: Annotated[int | Literal["auto"], number_or(AUTO, 1, REPORTS, int)] = Field(
        default=1,
        description=f'how many conversions of an impression count: 1 to {REPORTS}, or "auto", as the plan says',
    )
    weights: Literal["nodes", "counts"] = Field(
        default="nodes",
        description='"nodes" (all nodes of a level alike) or "counts" (nodes weigh by their prior count)',
    )
    neighbours: Annotated[str, one_of(UNITS)] = Field(
        default="conversion",
        description="what epsilon protects: " + " or ".join(f'"{n.name}" ({n.protects})' for n in UNITS.values()),
    )
    attributes: Listed[Attribute] = Field(
        alias="attribute", min_length=1, description="one [[attribute]] for each level, top to bottom"
    )
    api: SerializeAsAny[ApiSection] | None = Field(default=None, description="a section [api]")
    logs: Logs | None = Field(default=None, description="a section [logs]")
    measures: Listed[Measure] | None = Field(
        default=None,
        alias="measure",
        min_length=1,
        description="one [[measure]] for each sum that is asked for; without any, conversions are counted",
    )
    breakdowns: Listed[AskedBreakdown] | None = Field(
        default=None,
        alias="breakdown",
        min_length=1,
        description="one [[breakdown]] for each tree; without any, all attributes in their order are one",
    )

    def __init__(self, /, **given: object) -> None:
        refuse_unruly(given)
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise Mistakes(in_words(error, type(self))) from None

    @classmethod
    def load(cls, path: str) -> Self:
        """The spec in a TOML file."""
        try:
            with readable(path, "give the spec's path, a TOML file"), open(path, encoding="utf-8-sig") as file:
                text = file.read(LONGEST + 1)
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text; a spec is a TOML file") from None
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, name: str = "the spec") -> Self:
        """The spec in a TOML text; `name` is what errors call it."""
        given = _toml(text, name)
        try:
            return cls(**given)
        except Mistakes as mistakes:
            raise Mistakes(mistakes.lines, name) from None

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, dict):
            return handler(given)
        return all_at_once(in_order_of_one(with_its_defaults(as_in_file(given, cls))), handler, _between)

    @property
    def epsilon(self) -> float:
        """The privacy budget; of a spec that leaves it to the plan, an error."""
        if isinstance(self.epsilon_or_auto, str):
            raise InputError(f'epsilon = "{AUTO}" is found by planning: plan with a prior, or give a number')
        return self.epsilon_or_auto

    @property
    def finds_epsilon(self) -> bool:
        """Whether the plan is to find the least ε that meets all targets."""
        return self.epsilon_or_auto == AUTO

    @property
    def total(self) -> bool:
        return self.total_or_target is not False

    @property
    def targets(self) -> tuple[Target, ...]:
        """The errors that are asked for: of levels, top to bottom, then of measures."""
        total = self.total_or_target
        tops: list[tuple[str, Targets]] = [("total", total)] if isinstance(total, TotalTarget) else []
        levels = [(attribute.name, attribute) for attribute in self.attributes]
        return targets_of([*tops, *levels, *((measure.name, measure) for measure in self.measures or ())])

    @property
    def guard_factor(self) -> float:
        """How many times its error under an equal split a level may have; inf without a guard."""
        return float("inf") if self.guard == NONE else float(self.guard)

    @property
    def known(self) -> tuple[Attribute, ...]:
        """The attributes that an impression has."""
        return tuple(a for a in self.attributes if not a.unknown)

    @property
    def unknown(self) -> tuple[Attribute, ...]:
        """The attributes that only a conversion has; they stand below the known ones, but where they are batches."""
        return tuple(a for a in self.attributes if a.unknown)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels, top to bottom; of several breakdowns, ask each of its parts."""
        return (("total",) if self.total else ()) + tuple(a.name for a in self.attributes)

    def contributions_of(self, conversions: int) -> int:
        """What the contributions of one conversion may sum to where so many of an impression count."""
        return int(self.l1 // page_of(self.noise).repeats(conversions))

    @property
    def budget(self) -> int:
        """What the contributions of one conversion may sum to: ⌊L1 / conversions per impression⌋.

        Where the plan chooses how many there are, all of L1: it divides that by its choice.
        """
        return self.contributions_of(self.given_limit or 1)

    @property
    def given_limit(self) -> int | None:
        """How many conversions of an impression count; None where the plan chooses."""
        limit = self.conversions_per_impression
        return limit if isinstance(limit, int) else None

    @property
    def asked(self) -> tuple[Measure, ...]:
        """What is added up over conversions; their number, if the spec has no measures."""
        return self.measures or (Measure(name=COUNT),)

    @property
    def values(self) -> tuple[Measure, ...]:
        """The measures that are values of conversions."""
        return tuple(measure for measure in self.asked if not measure.is_count)

    @property
    def has_limits(self) -> bool:
        """Whether limits cut something off: values, the first of several conversions that count, or budgets."""
        return bool(self.values) or self.conversions_per_impression != 1 or self.paid is not None

    @property
    def paid(self) -> int | None:
        """How many conversions the API's budgets pay for before they run out; None where they do not."""
        return None if self.api is None else self.api.paid

    @property
    def first_unknown(self) -> int:
        """The first level that an impression does not know; neither does it know those below, whose paths have it."""
        return int(self.total) + next((i for i, a in enumerate(self.attributes) if a.unknown), len(self.attributes))

    @property
    def first_varied(self) -> int:
        """The first level at which two conversions of one impression can differ: domains of one value come before."""
        varied = (i for i, a in enumerate(self.attributes) if a.unknown and a.size > 1)
        return int(self.total) + next(varied, len(self.attributes))

    @property
    def known_first(self) -> bool:
        """Whether no attribute of the impression stands below one of the conversion."""
        return self.first_unknown == len(self.levels) - len(self.unknown)

    def held(self, level: int) -> tuple[int, int]:
        """How many known and how many unknown attributes the nodes of a level have."""
        unknown = sum(a.unknown for a in self.attributes[: level + 1 - int(self.total)])
        return level + 1 - int(self.total) - unknown, unknown

    @property
    def unknown_budget(self) -> int:
        """What the contributions to unknown levels may sum to: under Definition 1 a change moves two keys of each."""
        return self.privacy_unit.budget_of_unknown(self.budget)

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return UNITS[self.neighbours]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is allowed, but worth a second look."""
        notes, terms = [], self.terms
        if not self.finds_epsilon and self.epsilon > terms.largest_epsilon:
            largest = f"the {terms.largest_epsilon:g} that {terms.answer} takes"
            notes.append(f"epsilon = {self.epsilon:g} is more than {largest}")
        if self.noise_model.on_sums and self.l1 > terms.l1:
            notes.append(f"l1 = {self.l1} is more than the API's {terms.l1}: clients would drop every report")
        return tuple(notes)

    @property
    def terms(self) -> Terms:
        """What planning goes by of the API that it is for."""
        return terms_of({"api": self.api})

    def is_delay(self, attribute: Attribute) -> bool:
        """Whether an attribute is the time from impression to conversion: in buckets, and no column of the logs."""
        columns = {} if self.logs is None else self.logs.conversion_columns
        return isinstance(attribute.bucket, str) and attribute.name not in columns

    @property
    def weigh(self) -> Metric:
        """The metric: the weight of a node's squared error, from its count and tau."""
        return METRICS[self.metric or "rmsre"]

    @property
    def noise_model(self) -> NoiseModel:
        """The page of its noise, for its budget."""
        return model(self.noise, self.epsilon, self.l1, self.delta or 0.0)

    def with_noise(self, noise: str, delta: float | None = None) -> Self:
        """The same under another noise model; where that needs a δ, the spec's or, if it has none, `delta`."""
        page, delta = page_of(noise), self.delta or delta
        if page.approximate and delta is None:
            raise InputError(NEEDS_DELTA.format(noise))
        return self.model_copy(update={"noise": noise, "delta": delta if page.approximate else None})

    @property
    def file_keys(self) -> Record:
        """What it was made of, as a file has it."""
        return self.model_dump(by_alias=True, exclude_none=True)

    def at(self, epsilon: float) -> Self:
        """The same under another budget."""
        return type(self)(**at_epsilon(self.file_keys, epsilon))

    def with_api(self, settings: Mapping[str, object]) -> Self:
        """The same under other settings of its API, or under another API by its `kind`."""
        return type(self)(**at_settings(self.file_keys, settings, None if self.api is None else self.api.granted))

    def with_keys(self, **keys: object) -> Self:
        """The same with other values of some keys, as they are named in the file; all of it is checked again."""
        return type(self)(**{**self.file_keys, **keys})

    def identity(self, *without: str) -> str:
        """A text that is equal for equal questions: but for some keys, and for targets and guard, which plans go by."""
        targets = {"__all__": {"error": True, "half_width": True}}
        apart: Record = dict.fromkeys(("epsilon_or_auto", "guard", *without), True)
        bare = self.model_copy(update={"total_or_target": self.total})
        text = bare.model_dump_json(exclude={"attributes": targets, "measures": targets, **apart})
        return text.replace('"total_or_target":', '"total":', 1)

    @property
    def parts(self) -> tuple[Self, ...]:
        """The spec of each breakdown, whose contributions have a part of the same L1; the spec itself if it is one."""
        if self.breakdowns is None:
            return (self,)
        named = {attribute.name: attribute for attribute in self.attributes}
        parts = []
        for each in self.breakdowns:
            attributes = tuple(named[name] for name in each.attributes)
            split_by = self.split_by if self.split_by == each.attributes[0] else None
            parts.append(self.model_copy(update={"attributes": attributes, "split_by": split_by, "breakdowns": None}))
        return tuple(parts)

    @property
    def called(self) -> tuple[str, ...]:
        """What the breakdowns are called; nothing where there is one alone."""
        return tuple(each.called for each in self.breakdowns or ())

    def without_targets(self) -> Self:
        """The same with no errors asked for."""
        nothing = {"error": None, "half_width": None}
        attributes = tuple(each.model_copy(update=nothing) for each in self.attributes)
        measures = self.measures and tuple(each.model_copy(update=nothing) for each in self.measures)
        update = {"attributes": attributes, "measures": measures, "total_or_target": self.total}
        return self.model_copy(update=update)

    def with_targets(self, targets: Mapping[str, float | str]) -> Self:
        """The same with other errors asked for, by the name of a level or measure."""
        keys = self.file_keys
        named = {each["name"]: each for each in (*keys["attribute"], *keys.get("measure", ()))}
        for name, error in targets.items():
            if name == "total" and self.total:
                named["total"] = keys["total"] = dict(keys["total"]) if isinstance(keys["total"], dict) else {}
            if name not in named:
                names = [*self.levels, *(measure.name for measure in self.measures or ())]
                raise InputError(f"targets are for {', '.join(names)}; got {name!r}")
            named[name].pop("half_width", None)
            named[name]["error"] = error
        return type(self)(**keys)

    def with_values(self, labels: Callable[[str], Iterable[str]]) -> Self:
        """The same where attributes whose values are those that occur have a domain: their `labels`, by name."""
        if not any(attribute.occurs for attribute in self.attributes):
            return self
        each = list(self.attributes)
        for i, attribute in enumerate(each):
            if attribute.occurs:
                each[i] = attribute.model_copy(update={"domain": tuple(sorted(set(labels(attribute.name))))})
        return self.model_copy(update={"attributes": tuple(each)})

    def tree(self, known: Any = None) -> Tree:
        """The tree that is queried: known attributes as they occur in a table, with the full domain of unknown ones.

        The table is Arrow, pandas, polars or a dict of columns; rows may repeat, and other columns are passed over.
        Labels become text. Nodes are numbered in level order.
        """
        if self.breakdowns is not None:
            several = f"this spec has several breakdowns ({', '.join(self.called)}), and one tree is needed here"
            raise InputError(f"{several}; take a spec with one, or `attributary run`")
        whole = self.with_values(lambda name: occurring(known, name))
        domains = {attribute.name: attribute.labels for attribute in whole.unknown}
        return queried(known, [attribute.name for attribute in self.attributes], domains, self.total)


def _toml(text: str, name: str) -> Record:
    if len(text) > LONGEST:
        raise InputError(f"{name} has more than {LONGEST:,} characters; give a spec, a TOML file")
    if DEEP_KEY.search(text):  # which tomllib takes minutes for
        raise InputError(f"{name}: a key has more than {DEEPEST} parts with dots between them; a spec has no such key")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_syntax(error, text, name)) from None
    except RecursionError:
        raise InputError(f"{name}: lists and tables are at most {DEEPEST} deep; got more of them") from None
    except ValueError:  # Python's limit to the digits of a number
        raise InputError(f"{name}: whole numbers have fewer than {BITS} bits; got one of thousands of digits") from None


def _syntax(error: tomllib.TOMLDecodeError, text: str, name: str) -> str:
    """A syntax error with its line, as it reads there."""
    lines = text.splitlines() or [""]
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error), re.DOTALL)
    what, line, column = match.groups() if match else (str(error), None, None)
    number = int(line) if line else len(lines)
    place = f"line {number}, column {column}" if column else f"line {number}, the last,"
    return f"{name}: {place} is not TOML: {what}; it reads: {lines[min(number, len(lines)) - 1].strip()[:60]}"


def _between(given: Record) -> Iterator[Mistake]:
    """What is wrong between the keys of a spec, whatever else is wrong with them."""
    keys = ("attribute", "measure", "breakdown")
    attributes, measures, breakdowns = (tables_in(given, key) for key in keys)
    for key, listed in zip(keys, (attributes, measures, breakdowns), strict=True):
        if len(listed) > MOST:
            yield Mistake(key, f"there are at most {MOST}; got {len(listed):,}: leave some out")
            return
    names, unknown, terms = [each.get("name") for each in attributes], None, terms_of(given)
    yield from twice(names, "attribute", "attributes")
    for i, each in enumerate(attributes):
        if each.get("unknown") is True:
            unknown = names[i] if unknown is None else unknown
            if not terms.values_occur and not any(way in each for way in (*DOMAINS, "buckets")):
                remedy = "add domain = [...], range = [first, last], or bucket and buckets"
                rule = f"attribute {names[i]!r} is unknown to the impression and needs a domain; {remedy}"
                yield Mistake(("attribute", i, "domain"), rule)
        elif unknown is not None and not terms.any_order:
            rule = f"{names[i]!r} is known to the impression but stands below {unknown!r}, which is not"
            remedy = "move it up, or give it unknown = true and a domain"
            yield Mistake(("attribute", i), f"known attributes come before unknown ones; {rule}: {remedy}")
    yield from wrong_api(given)
    yield from wrong_breakdowns(given, terms)
    yield from [] if len(breakdowns) > 1 else _wrong_split(given.get("split_by"), names)
    epsilon, l1, largest = given.get("epsilon"), given.get("l1", terms.l1), terms.largest_epsilon
    noise = given.get("noise", NOISE)
    page = MODELS.get(noise) if isinstance(noise, str) else None
    if page is not None and page.approximate and given.get("delta") is None:
        yield Mistake("delta", NEEDS_DELTA.format(page.name))
    if page is not None and not page.approximate and given.get("delta") is not None:
        yield Mistake("delta", f'noise = "{page.name}" holds without delta: leave it out, or take noise = "gaussian"')
    if isinstance(epsilon, int | float) and largest < epsilon < float("inf") and page is not None and page.on_sums:
        rule = f"{terms.answer} takes at most {largest:g}; got {epsilon:g}: lower it"
        yield Mistake("epsilon", f'{rule}, or plan with noise = "unit"')
    targets = [given.get("total"), *attributes, *measures]
    errors = [each.get(key) for each in targets if isinstance(each, dict) for key in ("error", "half_width")]
    if epsilon == AUTO and not any(isinstance(error, int | float) for error in errors):
        rule = f'"{AUTO}" is the least that meets all targets, and there is none'
        yield Mistake("epsilon", f"{rule}: give an attribute error = 0.05, or epsilon a number")
    levels = len(names) + (given.get("total", False) is not False)
    levels = 1 if terms.proposals else levels  # credits are shared among the levels that a plan measures
    limit = given.get("conversions_per_impression", 1)
    if isinstance(limit, int) and terms.conversions < limit <= REPORTS:
        rule = f"clients of the {terms.title} report at most {terms.conversions}; got {limit}: lower it"
        yield Mistake("conversions_per_impression", rule)
    called = [each.get("name") for each in measures]
    yield from wrong_measures(called, names, TAKEN, page is None or page.values, limit != 1)
    asked = len(measures) or 1
    times = limit if isinstance(limit, int) and limit > 0 else 1
    if isinstance(l1, int) and l1 >= 1 and l1 // (page or MODELS[NOISE]).repeats(times) < levels * asked:
        more = "" if l1 < levels else f", {asked} measures and {times} conversions"
        rule = f"every level needs a contribution of at least 1; got {l1} for {levels} levels{more}: raise it"
        yield Mistake("l1", rule)


def _wrong_split(split_by: Any, names: list[Any]) -> Iterator[Mistake]:
    if not isinstance(split_by, str) or not names or split_by == names[0]:
        return
    if split_by in names:
        rule = f"the first attribute, {names[0]!r}, whose values are the roots; got {split_by!r}: move it to the top"
    else:
        hint = did_you_mean(split_by, [name for name in names if isinstance(name, str)])
        rule = f"the first attribute; there is no attribute {split_by!r}: {hint}give {names[0]!r}"
    yield Mistake("split_by", f"names {rule}, or leave split_by out for one split")

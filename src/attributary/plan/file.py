"""file: a plan as JSON, the nodes of a plan by node as Parquet beside it, and files of another plan refused."""

import json
import os
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from attributary import whole_files
from attributary.errors import InputError, why_not_json
from attributary.plan.plan import Plan
from attributary.plan.sections import Sharing
from attributary.rmsre import TAU
from attributary.spec import Spec
from attributary.spec.measure import COUNT
from attributary.spec.mistakes import Mistakes, in_words, path_in_words, refuse_unruly, value_in_words
from attributary.spec.privacy_unit import UNITS
from attributary.tables import check_output, read_table, write_table
from attributary.tables.table_source import readable
from attributary.tree import Tree
from attributary.types import Arrow, Record

FORMAT = 1
ORDER = [  # of the keys, for the eye
    *("format", "fingerprint", "method", "learn", "rounding", "privacy", "prior", "levels", "default", "roots"),
    *("measures", "per_impression", "checksum", "keys", "mark", "expected", "targets", "unbounded", "other_noise"),
    *("others", "tradeoff", "schemes", "layout", "spec"),
]
WIDTH = 110


def to_json(plan: Plan) -> str:
    """The plan as JSON; its fingerprint and what is under "privacy" are derived, and for the reader.

    Of several breakdowns, it has what is of all of them, and the plan of each under its name.
    """
    return lines(_as_read(plan)) + "\n"


def _as_read(plan: Plan) -> Record:
    if plan.sharing is not None:
        privacy = {"epsilon": plan.spec.epsilon, "unit": plan.privacy_words.unit, "loss": plan.privacy_loss._asdict()}
        return {
            "format": plan.format,
            **json.loads(plan.sharing.model_dump_json()),
            "parts": [each.largest_row / plan.spec.budget for each in plan.parts],
            "error": plan.error,
            "privacy": privacy,
            "breakdowns": {name: _as_read(each) for name, each in zip(plan.names, plan.parts, strict=True)},
            "spec": json.loads(plan.spec.model_dump_json(by_alias=True, exclude_none=True)),
        }
    data = _written(plan, exclude_none=True)
    if plan.measures == (plan.counts_alone,):
        del data["measures"]
    data["fingerprint"] = plan.fingerprint
    loss, guarantee = plan.privacy_loss, list(plan.spec.terms.guarantee)
    data["privacy"] = {
        "epsilon": plan.spec.epsilon,
        "noise": plan.spec.noise,
        **plan.spec.noise_model.account,
        "unit": plan.privacy_words.unit,
        "holds for": guarantee or list(plan.guarantees),
    }
    if not guarantee:
        data["privacy"]["cost"] = {**loss._asdict(), **{name: loss.under(name) for name in UNITS}}
    return {key: data[key] for key in ORDER if key in data}


def from_json(text: str, nodes: Arrow = None, name: str = "the plan") -> Plan:
    """The plan in a text; anything wrong with it as an InputError that calls it by its name."""
    try:
        data = json.loads(text)
        refuse_unruly(data if isinstance(data, dict) else {})
    except Mistakes as error:
        raise Mistakes(error.lines, name) from None
    except (ValueError, RecursionError) as error:
        why = why_not_json(error)
        raise InputError(f"{name} is not JSON: {why}; give a file that `attributary plan` wrote") from None
    return _plan_of(data, nodes, name)


def _plan_of(data: Any, nodes: Arrow, name: str) -> Plan:
    if not isinstance(data, dict) or "format" not in data:
        raise InputError(f"{name} is not a plan: it has no format; give a file that `attributary plan` wrote")
    if data["format"] != FORMAT:
        format_ = value_in_words(data["format"])
        raise InputError(
            f"{name} has format {format_}; this version reads {FORMAT}: update attributary, or make a new plan"
        )
    if "breakdowns" in data:
        return _of_breakdowns(data, name)
    for derived in ("privacy", "fingerprint"):
        data.pop(derived, None)
    try:
        plan = Plan.model_validate({**_with_measures(data), "nodes": nodes})
    except ValidationError as error:
        lines = in_words(error, Plan)
        raise Mistakes(lines if "measures" in data else [x.removeprefix("measures[1].") for x in lines], name) from None
    if wrong := list(_of_other_kinds(data, _written(plan))):
        raise Mistakes(wrong, name)
    if any(key in data and data[key] != sums for key, sums in _sums(plan).items()):
        raise InputError(f"{name}: the contributions of a plan are the sums of its measures' contributions; plan anew")
    plan = plan.to_hand_on
    if (plan.keys is None) != (plan.mark is None):
        raise InputError(
            f"{name}: keys and their mark belong together; got {'a mark' if plan.keys is None else 'keys'} alone: "
            "restore it, or make a new plan"
        )
    if plan.mark is not None and plan.mark != plan.key_mark:
        raise InputError(
            f"{name} was changed after it got its keys: they begin with {plan.mark}, and those of this plan would "
            f"begin with {plan.key_mark}; restore it, or make a new plan"
        )
    return plan


class _Shared(Sharing, frozen=True):
    """What a file says of all breakdowns of a plan."""

    spec: Spec


def _of_breakdowns(data: Record, name: str) -> Plan:
    """The plan of several breakdowns; parts, error and privacy are derived."""
    each = data["breakdowns"]
    if not isinstance(each, dict) or not each:
        raise InputError(f"{name} has no plans under breakdowns; give a file that `attributary plan` wrote")
    plans = [_plan_of(plan, None, f"{name}: {called}") for called, plan in each.items()]
    kept = {key: data[key] for key in data if key not in ("format", "parts", "error", "privacy", "breakdowns")}
    try:
        shared = _Shared.model_validate(kept)
        sharing = Sharing(**{key: getattr(shared, key) for key in Sharing.model_fields})
        plan = Plan.of_breakdowns(shared.spec, plans, sharing)
    except ValidationError as error:
        raise Mistakes(in_words(error, _Shared), name) from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if wrong := list(_of_other_kinds(data, _as_read(plan))):
        raise Mistakes(wrong, name)
    return plan


def _sums(plan: Plan) -> Record:
    """The contributions of all measures together, as JSON has them."""
    return {"default": list(plan.default), "roots": {label: list(row) for label, row in plan.roots.items()}}


def _written(plan: Plan, exclude_none: bool = False) -> Record:
    return {**json.loads(plan.model_dump_json(by_alias=True, exclude_none=exclude_none)), **_sums(plan)}


def _with_measures(data: Record) -> Record:
    """The keys of a plan; contributions that stand without measures are those of counts alone."""
    kept, rows = dict(data), {key: data[key] for key in ("default", "roots") if key in data}
    for key in rows:
        del kept[key]
    if "measures" not in data:
        spec = data.get("spec")
        tau = spec.get("tau", TAU) if isinstance(spec, dict) else TAU
        kept["measures"] = [{"name": COUNT, "clip": 1.0, "tau": tau, **rows}]
    return kept


def _of_other_kinds(data: Record, written: Record) -> Iterator[str]:
    """What stands in a file as another kind than the plan has: pydantic takes true and "1" for 1. 1.0 is 1 in JSON."""
    stack: list[tuple[tuple[str | int, ...], Any, Any]] = [((), data, written)]
    while stack:
        path, given, right = stack.pop()
        if isinstance(given, dict) and isinstance(right, dict):
            stack += [((*path, key), given[key], right[key]) for key in given.keys() & right.keys()]
        elif isinstance(given, list) and isinstance(right, list):
            stack += [((*path, i), *both) for i, both in enumerate(zip(given, right, strict=False))]
        elif (kind := _kind(right)) != _kind(given) and not isinstance(given, float):  # Infinity is written as text
            yield f"{path_in_words(path)}: {kind} is needed; got {value_in_words(given)}"


def _kind(value: object) -> str:
    known = {bool: "true or false", str: "text", int: "a number", float: "a number", dict: "a table", list: "a list"}
    return known.get(type(value), "nothing")


def save(plan: Plan, path: str) -> None:
    """Writes the plan, whole or not at all: first the nodes, if it goes by node, then the JSON that knows them."""
    if plan.nodes is not None:
        check_output(beside(path))
        write_table(plan.nodes, beside(path))
    whole_files.save(to_json(plan), path)


def read_text(path: str) -> str:
    """The text of a plan's file."""
    what = "give a plan, as `attributary plan -o plan.json` writes it"
    try:
        with readable(path, what), open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a plan: it is not text; give a file that `attributary plan` wrote") from None


def load(path: str) -> Plan:
    """The plan in a file."""
    text = read_text(path)
    nodes = _contributions(read_table(beside(path)), beside(path)) if '"checksum"' in text else None
    plan = from_json(text, nodes, path)
    if nodes is not None:
        _check_paths(plan, beside(path))
    return plan


def _contributions(nodes: Arrow, name: str) -> Arrow:
    """The table of a plan's nodes, checked to have whole numbers where the plan reads them."""
    import pyarrow as pa

    for column in ("parent", "level", "contribution"):
        cells = nodes.column(column) if column in nodes.column_names else None
        if cells is None or not pa.types.is_integer(cells.type) or cells.null_count:
            raise InputError(f"{name} has no whole numbers as {column}; give the file that `attributary plan` wrote")
    return nodes


def _check_paths(plan: Plan, name: str) -> None:
    """Refuses a table of nodes whose paths, or whose parents and levels, are not those of a tree."""
    import pyarrow as pa

    names = [attribute.name for attribute in plan.spec.attributes]
    try:
        Tree.from_paths(plan.nodes, names)
        if (Tree.from_parents(plan.nodes.column("parent").to_numpy()).level != plan.nodes.column("level")).any():
            raise ValueError("the level of a node is one below its parent's")
    except (ValueError, pa.ArrowException) as error:
        raise InputError(f"{name}: {str(error)[:300]}; give the file that `attributary plan` wrote") from error


def refuse_other_plan(path: str, stated: str | bytes, fingerprint: str, name: str) -> None:
    """Refuses a file that states fingerprints of other plans, with commas between them; "" states none."""
    text = stated.decode(errors="replace") if isinstance(stated, bytes) else stated
    if text and fingerprint not in (text, *text.split(",")):
        raise InputError(
            f"{path} is of plan {text[:100].replace(',', ' and ')}, and {name} is plan {fingerprint}: give the plan "
            "and the files that belong together"
        )


def beside(path: str) -> str:
    """The file of a plan's nodes: plan.nodes.parquet beside plan.json."""
    return os.path.splitext(path)[0] + ".nodes.parquet"


def lines(value: object, indent: str = "") -> str:
    """JSON with as much on a line as fits."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent + flat) <= WIDTH or not isinstance(value, dict | list):
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + lines(item, inner) for item in value) + f"\n{indent}]"
    rows = (f"{inner}{json.dumps(key, ensure_ascii=False)}: {lines(item, inner)}" for key, item in value.items())
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"

"""histogram_results: aggregate results of W3C Attribution as JSON, and what they say of the nodes of a tree.

    [{"task": "location-v1", "batch": {"day": "mon"}, "report_count": 812, "vector": [31, 7, 340282…]},
     {"task": "location-v1", "batch": {"day": "tue"}, "report_count": 790, "shares": [[…], […]]}]

A vector holds the sums of a batch, two shares are added up to one. Sums are modulo the field's prime, so that large
ones are negative; JSON numbers or their decimal digits as text. A batch that cannot be used costs itself alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.api.attribution_api import Answer
from attributary.api.w3c.aggregate_shares import FIELD128, unwrap_shares
from attributary.api.w3c.index_layout import kinds_of, known_paths, space_of, task_of, used_levels
from attributary.api.w3c.schemes import ReportKind, index_level, scheme_of, section_of
from attributary.errors import InputError, brief, why_not_json
from attributary.measurements import Measurements, chance_of_equal, is_copy
from attributary.plan import Plan
from attributary.plan.sections import IndexLayout
from attributary.tree import Tree
from attributary.types import Floats, Ints

SHOWN = 10  # reasons
LARGEST = 2**62  # of a sum: more is not what it seems to be


@dataclass(frozen=True, eq=False)
class Task:
    """What a vector of a task means: a node of the known attributes for each index."""

    kind: ReportKind
    size: int
    nodes: Mapping[int, tuple[Ints, Ints]]  # by level: indexes, and the numbers of their known paths


@dataclass(frozen=True, eq=False)
class Batch:
    """A noisy sum for each of some nodes, whatever form it came in."""

    name: str
    task: str
    nodes: Ints  # in level order
    sums: Floats  # of contributions

    def repeats(self, other: "Batch", chance: Floats) -> bool:
        """Whether it has the noise of another batch of its task, also under other labels."""
        if self.task != other.task:
            return False
        same = self.sums == other.sums
        alike = bool(same.all() and np.array_equal(self.nodes, other.nodes))
        return alike or is_copy(int(same.sum()), float(chance[self.nodes].sum()))


def answer(plan: Plan, files: Sequence[str], tree: Tree, name: str = "the plan") -> Answer:
    """What aggregate results say of a tree's nodes: batches of different reports add up, and so does their noise."""
    if plan.layout is None:
        raise InputError(f"{name} has no indexes; give the plan that `attributary keys --impressions` wrote")
    if tree.level_names != plan.levels:
        raise InputError(f"the plan's levels are {', '.join(plan.levels)}; the tree has {', '.join(tree.level_names)}")
    tasks = _tasks(plan, plan.layout, tree)
    numbers = tree.numbered([attribute.name for attribute in plan.spec.unknown])
    rows = (np.argsort(number, kind="stable").reshape(int(number.max()) + 1, -1) for number in numbers)
    in_batches = [first + nodes for first, nodes in zip(tree.offsets, rows, strict=False)]
    budget, page = tree.to_level_order(plan.budget(tree)), plan.spec.noise_model
    steps = page.steps(budget)
    chance = np.where(budget > 0, chance_of_equal(page.variance(budget) * steps**2), 1.0)
    total, batches = np.zeros(len(tree)), np.zeros(len(tree))
    reasons, used = [], list[Batch]()
    for path in files:
        for number, item in enumerate(_items(path), 1):
            try:
                batch = _batch(plan, tasks, in_batches, item, f"result {number} of {path}")
                if (other := next((each for each in used if batch.repeats(each, chance)), None)) is not None:
                    raise InputError(f"holds the same noisy sums as {other.name}, and each is counted once")
                total[batch.nodes] += batch.sums
                batches[batch.nodes] += 1
                used.append(batch)
            except InputError as error:
                reasons.append(f"{path}: result {number} is left out: it {error}")
    if not used:
        raise InputError(reasons[0] if reasons else f"{files[0]} has no results; give a list of them")
    measured = (batches > 0) & (budget > 0)
    noisy = np.where(measured, total / steps, 0.0)
    variance = np.where(measured, page.variance(budget) * np.maximum(batches, 1), np.inf)
    missing = int(((budget > 0) & ~measured).sum())
    notes = [f"{len(used):,} {'batch' if len(used) == 1 else 'batches'} added up"]
    notes += [f"{missing:,} nodes are in no batch and count as not measured"] if missing else []
    notes += [*reasons[:SHOWN], *([f"and {len(reasons) - SHOWN:,} more"] if len(reasons) > SHOWN else [])]
    (part,) = plan.by_measure
    noisy, variance = tree.from_level_order(noisy) * part.clip, tree.from_level_order(variance) * part.clip**2
    return Answer({part.measure.name: Measurements.of(tree, noisy, variance, page.shape.name)}, tuple(notes))


def _tasks(plan: Plan, layout: IndexLayout, tree: Tree) -> dict[str, Task]:
    spec, levels = plan.spec, used_levels(plan)
    places = {level: {path: i for i, path in enumerate(known_paths(spec, tree, level))} for level in levels}
    at_site = section_of(spec).site is not None
    roots = sorted({path[0] for paths in layout.spaces.values() for path in paths}) if at_site else [""]
    tasks = {}
    for root in roots:
        for kind in kinds_of(plan, root):
            space = layout.spaces.get(space_of(spec, index_level(spec, kind.levels[0]), (root,)), ())
            together = scheme_of(spec).atomic and not kind.batch
            measured = [level for level in levels if level < spec.first_unknown] if together else kind.levels
            nodes = {}
            for level in measured:
                at = places[index_level(spec, level)]
                pairs = [(i, at[path]) for i, path in enumerate(space) if path in at]
                found = np.array(pairs, np.int64).reshape(-1, 2)
                nodes[level] = found[:, 0], found[:, 1]
            tasks[task_of(layout, kind, root)] = Task(kind, len(space), nodes)
    return tasks


def _batch(plan: Plan, tasks: dict[str, Task], in_batches: list[Ints], item: object, name: str) -> Batch:
    """What a result says of its nodes; an InputError says why it cannot be used.

    `in_batches` has, for each level, the nodes of each batch in level order.
    """
    if not isinstance(item, dict):
        raise InputError(f"is not a JSON object; got {brief(item)}")
    task = tasks.get(item["task"]) if isinstance(item.get("task"), str) else None
    if task is None:
        raise InputError(f"is of task {brief(item.get('task'))}; the plan has {', '.join(list(tasks)[:5])}")
    reports, least = item.get("report_count"), section_of(plan.spec).minimum_batch
    if not isinstance(reports, int) or isinstance(reports, bool) or not reports >= least:
        raise InputError(f"has a report_count of {brief(reports)}; a batch has at least {least} reports")
    sums = np.array(_vector(item, task.size), np.float64)
    place = 0
    labels = item.get("batch", {})
    wanted = plan.spec.unknown[: task.kind.batch]
    if not isinstance(labels, dict) or set(labels) != {attribute.name for attribute in wanted}:
        names = ", ".join(attribute.name for attribute in wanted) or "no attributes"
        raise InputError(f"has batch {brief(labels)}; batches of its task have {names}")
    for attribute in wanted:
        if labels[attribute.name] not in attribute.labels:
            raise InputError(f"has {attribute.name} = {brief(labels[attribute.name])}, which is not in its domain")
        place = place * len(attribute.labels) + attribute.labels.index(labels[attribute.name])
    nodes = [in_batches[level][place, known] for level, (_, known) in task.nodes.items()]
    index = [index for index, _ in task.nodes.values()]
    return Batch(name, item["task"], np.concatenate(nodes), sums[np.concatenate(index)])


def _vector(item: Mapping[str, object], size: int) -> list[int]:
    """The sums of a result, signed, of which there must be as many as the task has."""
    both = [item["vector"], None] if "vector" in item else item.get("shares")
    if not isinstance(both, list) or len(both) != 2 or ("vector" in item and "shares" in item):
        raise InputError("has neither a vector nor two shares, or has both")
    first, second = (_numbers(each, size) for each in (both[0], both[0] if both[1] is None else both[1]))
    if "vector" in item:  # some aggregators give signed numbers
        first, second = [number % FIELD128 if number > -LARGEST else -1 for number in first], [0] * size
    sums = unwrap_shares(first, second)
    if not all(abs(number) < LARGEST for number in sums):
        raise InputError("has sums beyond 2^62, which no counts and no noise make: are the shares of one batch?")
    return sums


def _numbers(given: object, size: int) -> list[int]:
    if not isinstance(given, list):
        raise InputError(f"has {brief(given)} where a list of whole numbers is needed")
    if len(given) != size:
        raise InputError(f"has {len(given):,} sums; its task has {size:,}")
    numbers = []
    for each in given:
        text = isinstance(each, str) and len(each) <= 40 and each.isascii() and each.removeprefix("-").isdigit()
        if not text and (not isinstance(each, int) or isinstance(each, bool)):
            raise InputError(f"has {brief(each)} where a whole number is needed")
        numbers.append(int(each))
    return numbers


def _items(path: str) -> list[Any]:
    """The results in a file: a list, or an object that has them under "results"."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {why_not_json(error)}; give aggregate results") from None
    items = data.get("results") if isinstance(data, dict) else data
    if not isinstance(items, list):
        example = '[{"task": "…", "report_count": 812, "vector": […]}]'
        raise InputError(f"{path} is not a list of results, as in {example}")
    return items

"""summary_report: summary reports read and written, and what they say of the nodes of a tree.

`answer` makes measurements of them, each measure's in its unit: values and variances of several reports add.
"""

import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attributary.api.ara.keys.key_layout import KeyLayout, layout, tree_keys
from attributary.api.ara.wire import avro
from attributary.api.ara.wire.avro import NOTHING_STATED, StatedNoise, is_avro, named_files, stated_noise
from attributary.api.attribution_api import Answer
from attributary.errors import InputError
from attributary.measurements import Measurements, chance_of_equal, is_copy
from attributary.noise import dlap_variance
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.tables.table_columns import together
from attributary.tree import Tree
from attributary.types import Floats, Ints, Keys
from attributary.whole_files import output_file

SHARD = re.compile(r"[-_.]?\d+[-_]of[-_]\d+(?=\.[^.]*$|$)")  # as in output-1-of-3.avro


@dataclass(frozen=True, eq=False)
class Summary:
    """One summary report: a noisy sum for each of its keys, each key once."""

    name: str
    keys: Keys
    metric: Ints
    contradicted: Keys  # keys that came with different sums; they are not among the others
    repeated: int = 0  # rows that said the same again
    stated: StatedNoise = NOTHING_STATED  # what the files say of their noise


class Notes(NamedTuple):
    """What did not go together."""

    missing: int  # nodes with a key that some summary report does not have
    unknown: int  # keys of summary reports that no node has
    contradicted: int  # keys with different sums in one summary report
    repeated: int
    not_private: str  # why what is made of them is not private, or nothing


class NodeSums(NamedTuple):
    """A noisy count and its variance for each node; inf where nothing was measured."""

    noisy: Floats
    variance: Floats
    notes: Notes


def answer(
    plan: Plan, paths: Sequence[str], tree: Tree, rate: tuple[float, int] | None = None, name: str = "the plan"
) -> Answer:
    """What summary reports say of a tree's nodes; `rate`, ε and L1, is of those that do not state their noise."""
    each, layout_ = plan.by_measure, layout(plan)
    keys = [tree_keys(layout_, tree, k) for k in range(len(each))]
    reports = [read_summary(files) for files in grouped(paths)]
    for report in reports:
        refuse_other_plan(report.name, report.stated.plan, plan.fingerprint, name)
        if plan.keys is not None and len(report.keys) and not layout_.of_plan(report.keys).any():
            raise other_keys(report.name, report.keys, layout_, name)
    contribution = np.concatenate([part.contribution(tree) for part in each])
    used, noise = noise_of(reports, plan, name, rate)
    nodes = measured(np.concatenate(keys), contribution, reports, *used)
    if not (nodes.variance < np.inf).any():
        why = f"{paths[0]} is empty" if len(reports) == 1 else "none has a sum in each of the summary reports"
        why = f"{paths[0]} has {nodes.notes.unknown:,} other keys" if nodes.notes.unknown else why
        raise not_measured(why, name)
    measures = {}
    for k, part in enumerate(each):
        here = slice(k * len(tree), (k + 1) * len(tree))
        noisy, variance = nodes.noisy[here] * part.clip, nodes.variance[here] * part.clip**2
        measures[part.measure.name] = Measurements.of(tree, noisy, variance, not_private=nodes.notes.not_private)
    all_keys = sum(len(report.keys) for report in reports)
    own = all_keys if plan.keys is None else sum(int(layout_.of_plan(report.keys).sum()) for report in reports)
    others = all_keys - own
    notes = nodes.notes._replace(unknown=max(nodes.notes.unknown - others, 0))
    beside = others > 0 and plan.others is None
    of_others = [f"{others:,} keys are of another plan and left out: give that plan, too"] if beside else []
    return Answer(measures, (*in_words(notes, len(reports)), *of_others, *noise), own, others)


def other_keys(path: str, keys: Keys, expected: KeyLayout, name: str) -> InputError:
    """What is said of a file whose keys do not have the plan's mark."""
    other = keys[~expected.of_plan(keys)][0, 0]
    mark = f"{int(other) >> 48:04x}" if int(other) >> 47 & 1 else "none"
    return InputError(
        f"{path} has keys of another plan (mark {mark}), and those of {name} have mark {expected.plan}: give the plan "
        "and the files that belong together"
    )


def not_measured(why: str, name: str) -> InputError:
    """What is said where no node has a sum."""
    return InputError(f"no node of the tree is measured: {why}; are {name} and the tree those that it was made by?")


def noise_of(
    reports: Sequence[Summary], plan: Plan, name: str, rate: tuple[float, int] | None
) -> tuple[tuple[float, int], list[str]]:
    """ε and L1 of the summary reports that do not state theirs, and in words which were used, and where from."""
    assumed = (plan.spec.epsilon, plan.spec.l1) if rate is None else rate
    if not (0 < assumed[0] < np.inf and assumed[1] > 0):
        raise InputError(f"ε and L1 of a summary report are above 0; got {assumed[0]:g} and {assumed[1]}")
    used: dict[tuple[float, int, str], list[str]] = {}
    for report in reports:
        epsilon, l1, not_private, _ = report.stated
        here, source = assumed, f"from {name if rate is None else '`noise`'}; not stated by"
        if epsilon is not None and l1 is not None:
            here, source = (epsilon, l1), "stated by"
        elif not_private:
            source = "as if there were noise in"
        used.setdefault((*here, source), []).append(report.name)
    contrary = [one for one in used if rate is not None and one[:2] != rate]
    if contrary and len(contrary) == len(used):
        raise InputError(
            f"`noise` is for summary reports that do not state their noise; {used[contrary[0]][0]} states "
            f"ε = {contrary[0][0]:g} with L1 = {contrary[0][1]}: leave it out"
        )
    return assumed, [
        f"ε = {epsilon:g}, L1 = {l1:,} ({source} {files[0]}{f' and {len(files) - 1} more' if files[1:] else ''})"
        for (epsilon, l1, source), files in used.items()
    ]


def rates_of(reports: Sequence[Summary], epsilon: float, l1: int) -> list[float]:
    """ε by L1 of each: the one that it states, or else this one."""
    return [(report.stated.epsilon or epsilon) / (report.stated.l1 or l1) for report in reports]


def in_words(notes: Notes, reports: int) -> list[str]:
    """What did not fit together, each in a few words."""
    said = [
        (reports if reports > 1 else 0, "summary reports added up"),
        (notes.missing, "nodes have no sum in the report and count as not measured"),
        (notes.unknown, "keys that belong to no node are left out"),
        (notes.contradicted, "keys have several different sums in one report and are left out"),
        (notes.repeated, "duplicate rows"),
    ]
    return [f"{number:,} {words}" for number, words in said if number]


def grouped(paths: Sequence[str]) -> list[list[str]]:
    """The files of each summary report: a folder holds one, files named as in x-1-of-3.avro are shards of one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in paths:
        for path in [name] if "://" in name else named_files([name], "the summary report"):
            stem = SHARD.sub("", path)
            key = ("folder", name) if os.path.isdir(name) else ("shards" if stem != path else "file", stem)
            of_one = groups.setdefault(key, [])
            if path in of_one:
                raise InputError(f"{path} is given twice; each summary report is counted once: leave one out")
            of_one.append(path)
    return list(groups.values())


def name_of(paths: Sequence[str]) -> str:
    """What messages call the files of a summary report."""
    return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def read_summary(given: str | Sequence[str]) -> Summary:
    """One summary report from all its files: results in Avro, or the service's JSON."""
    paths = named_files([given] if isinstance(given, str) else given, "the summary report")
    shards = [shard(path) for path in paths]
    keys = np.concatenate([shard.keys for shard in shards])
    metric = np.concatenate([shard.metric for shard in shards])
    name = name_of(paths)
    once, place = distinct(keys)
    first = np.zeros(len(once), np.int64)
    first[place[::-1]] = metric[::-1]
    differs = np.zeros(len(once), bool)
    differs[place[metric != first[place]]] = True
    repeated = len(keys) - len(once) - int((metric != first[place]).sum())
    stated = one_rate(name, [stated for shard in shards for stated in shard.stated])
    return Summary(name, once[~differs], first[~differs], once[differs], repeated, stated)


def shard(path: str, only_stated: bool = False) -> avro.Results:
    """One file of a summary report, or only what it says of itself."""
    if not is_avro(path):
        return _json_results(path)
    return avro.results_stated(path) if only_stated else avro.read_results(path)


def write_summary(path: str, keys: Keys, metric: Ints, note: str = "", stated: StatedNoise = NOTHING_STATED) -> None:
    """Writes a summary report: the service's JSON if the file ends so, else Avro."""
    if not path.endswith(".json"):
        avro.write_results(path, keys, metric, note, stated)
        return
    rate = {} if stated.epsilon is None else {"epsilon": stated.epsilon, "l1": stated.l1}
    words = {"not_private": stated.not_private, "plan": stated.plan}
    more = rate | {name: text for name, text in words.items() if text}
    tail = "".join(f", {json.dumps(k)}: {json.dumps(v)}" for k, v in more.items())
    with output_file(path) as file:
        for number, ((high, low), value) in enumerate(zip(keys.tolist(), metric.tolist(), strict=True)):
            bucket = (high << 64 | low).to_bytes(16, "big").lstrip(b"\0").decode("latin-1")
            row = f'{{"bucket": {json.dumps(bucket)}, "metric": {value}{tail}}}'
            file.write(f"{',' if number else '['}\n{row}".encode())
        file.write(b"\n]\n" if len(keys) else b"[]\n")


def measured(node_keys: Keys, contribution: Ints, summaries: Sequence[Summary], epsilon: float, l1: int) -> NodeSums:
    """What summary reports of different conversions say of the nodes: values and variances add.

    The noise of each is the one that it states; if it does not, that of `epsilon` and `l1`. A node without a key
    (contribution 0), or that some summary report does not have, is not measured.
    """
    if not summaries:
        raise ValueError("there is no summary report to measure by")
    nodes = np.flatnonzero(contribution > 0)
    index = Index.of(node_keys[nodes])
    if len(index.keys) != len(nodes):
        raise ValueError("every node that is measured has a key of its own; some share one")
    there, sums = (np.zeros((len(summaries), len(nodes)), kind) for kind in (bool, np.int64))
    for i, summary in enumerate(summaries):
        place = index.find(summary.keys)
        known = place >= 0
        there[i, place[known]], sums[i, place[known]] = True, summary.metric[known]
    rates = rates_of(summaries, epsilon, l1)
    for i, j in combinations(range(len(summaries)), 2):
        shared = there[i] & there[j]
        number, equal = int(shared.sum()), int((shared & (sums[i] == sums[j])).sum())
        smaller = min(int(there[i].sum()), int(there[j].sum()))
        refuse_copy((summaries[i], summaries[j]), min(rates[i], rates[j]), number, equal, smaller)
    unknown = sum(len(summary.keys) for summary in summaries) - int(there.sum())
    contradicted = sum(len(summary.contradicted) for summary in summaries)
    total, complete = sums.sum(axis=0, dtype=np.float64), there.all(axis=0)
    noisy, variance = np.zeros(len(node_keys)), np.full(len(node_keys), np.inf)
    measured_nodes = nodes[complete]
    each = contribution[measured_nodes].astype(np.float64)
    noisy[measured_nodes] = total[complete] / each
    variance[measured_nodes] = sum(map(dlap_variance, rates)) / each**2
    words = together(*(s.stated.not_private for s in summaries))
    repeated = sum(summary.repeated for summary in summaries)
    notes = Notes(int((~complete).sum()), unknown, contradicted, repeated, words)
    return NodeSums(noisy, variance, notes)


def refuse_copy(both: tuple[Summary, Summary], rate: float, number: int, equal: int, smaller: int) -> None:
    """Refuses two with the same noise on the nodes that both have, whatever else one of them lacks or adds.

    Of `number` shared ones, `equal` have the same sums; the smaller of them has `smaller`. Where noise may repeat, as
    with a seed or none, one is a copy if all its sums are the other's.
    """
    one, other = both
    chance = 1.0 if one.stated.not_private or other.stated.not_private else chance_of_equal(dlap_variance(rate))
    if 0 < number == equal == smaller or is_copy(equal, number * chance):
        raise InputError(
            f"{other.name} holds the same sums as {one.name}, on {equal:,} of the {number:,} nodes that both have; "
            "each is counted once: leave one out"
        )


def one_rate(name: str, stated: list[StatedNoise]) -> StatedNoise:
    """What the files of one summary report say of its noise, which is one thing."""
    rates = dict.fromkeys((each.epsilon, each.l1) for each in stated)
    if len(rates) > 1:
        shown = ", ".join("none" if epsilon is None else f"{epsilon:g}/{l1}" for epsilon, l1 in list(rates)[:3])
        raise InputError(f"{name}: the files of one summary report have one rate of noise; they state {shown}")
    plans = dict.fromkeys(plan for each in stated for plan in each.plan.split(","))
    known = "" if "" in plans else ",".join(plans)  # a file that states none may be of any
    return StatedNoise(*next(iter(rates), (None, None)), together(*(each.not_private for each in stated)), known)


def _json_results(path: str) -> avro.Results:
    """A list of {"bucket", "metric"}; a bucket is text of which each character is a byte."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is neither Avro nor JSON: {error}; give a summary report") from None
    if not isinstance(data, list):
        raise InputError(f"{path} is not a summary report: its JSON is not a list")
    rows = [_row(item, number, path) for number, item in enumerate(data, 1)]
    names = ("epsilon", "l1", "not_private", "plan")
    cells = ([row.get(name) for name in names] for row in data)
    said = dict.fromkeys(tuple(str(c) if isinstance(c, (str, int, float)) else None for c in row) for row in cells)
    stated = tuple(stated_noise(path, epsilon, l1, words or "", plan or "") for epsilon, l1, words, plan in said)
    keys = np.array([(key >> 64, key & 2**64 - 1) for key, _ in rows], np.uint64).reshape(-1, 2)
    return avro.Results(keys, np.array([metric for _, metric in rows], np.int64), stated=stated)


def _row(item: object, number: int, path: str) -> tuple[int, int]:
    bucket, metric = (item.get("bucket"), item.get("metric")) if isinstance(item, dict) else (None, None)
    match bucket, metric:
        case str(), int() if len(bucket) <= 16 and max(bucket, default="a") <= "ÿ" and -(2**63) <= metric < 2**63:
            return int.from_bytes(bucket.encode("latin-1"), "big"), metric
    raise InputError(
        f"{path}: item {number} is not a result; it needs a bucket, of up to 16 bytes as text, and a whole metric"
    )


# Where a 128-bit key stands in a list of keys, for many keys at once.


@dataclass(frozen=True, eq=False)
class Index:
    """Keys by a hash of 64 bits under which no two of them are alike."""

    keys: Keys
    seed: np.uint64
    hashes: NDArray[np.uint64]  # ascending
    order: Ints

    @classmethod
    def of(cls, keys: Keys) -> "Index":
        """The index of some keys; one that comes again is left out."""
        while True:
            seed = np.uint64(secrets.randbits(64))
            hashes = _hashes(keys, seed)
            order = np.argsort(hashes)
            hashes = hashes[order]
            if not (hashes[1:] == hashes[:-1]).any():
                return cls(keys, seed, hashes, order)
            keys = distinct(keys)[0]  # else, about once in 2⁶⁴/n², two keys share a hash, and another seed parts them

    def find(self, keys: Keys) -> Ints:
        """The place of each key in the list; -1 if it is not there."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        hashes = _hashes(keys, self.seed)
        ascending = np.argsort(hashes)  # far faster to look up, since neighbours share their way
        place = np.empty(len(keys), np.int64)
        place[ascending] = np.searchsorted(self.hashes, hashes[ascending])
        place[place == len(self.hashes)] = 0
        position = self.order[place]
        same = (self.hashes[place] == hashes) & (self.keys[position] == keys).all(axis=1)
        return np.where(same, position, -1)


def distinct(keys: Keys) -> tuple[Keys, Ints]:
    """The keys without repeats, in the order of their first appearance, and the place of each given key among them."""
    data = pa.py_buffer(np.ascontiguousarray(keys))
    coded = pa.Array.from_buffers(pa.binary(16), len(keys), [None, data]).dictionary_encode()
    once = np.frombuffer(coded.dictionary.buffers()[1], np.uint64, 2 * len(coded.dictionary))
    return once.reshape(-1, 2), coded.indices.to_numpy().astype(np.int64)


def _hashes(keys: Keys, seed: np.uint64) -> NDArray[np.uint64]:
    """The high half mixed with the seed, plus the low half: for most seeds, different for different keys."""
    mixed = keys[:, 0] ^ seed
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * factor
    mixed ^= mixed >> np.uint64(33)
    return mixed + keys[:, 1]

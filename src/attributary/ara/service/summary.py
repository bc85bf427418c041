"""Summary: summary reports read from files, and what they say of the nodes of a tree."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.ara.service.index import Index, distinct
from attributary.ara.wire import avro
from attributary.ara.wire.container import MAGIC
from attributary.ara.wire.files import files
from attributary.errors import InputError
from attributary.noise import dlap_variance

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SHARD = re.compile(r"[-_.]?\d+[-_]of[-_]\d+(?=\.[^.]*$|$)")  # as in output-1-of-3.avro


@dataclass(frozen=True, eq=False)
class Summary:
    """One summary report: a noisy sum for each of its keys, each key once."""

    name: str
    keys: Keys
    metric: Ints
    contradicted: Keys  # keys that came with different sums; they are not among the others
    repeated: int = 0  # rows that said the same again
    notes: tuple[str, ...] = ()  # what the files say of themselves


class Notes(NamedTuple):
    """What did not go together."""

    missing: int  # nodes with a key that some summary report does not have
    unknown: int  # keys of summary reports that no node has
    contradicted: int  # keys with different sums in one summary report
    repeated: int
    says: tuple[str, ...]  # of the files, such as that they have no noise


class Measured(NamedTuple):
    """A noisy count and its variance for each node; inf where nothing was measured."""

    noisy: Floats
    variance: Floats
    notes: Notes


def grouped(given: Sequence[str]) -> list[list[str]]:
    """The files of each summary report: a folder holds one, files named as in x-1-of-3.avro are shards of one."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in given:
        for path in files([name], "the summary report"):
            one = os.path.isdir(name)
            stem = SHARD.sub("", path)
            key = ("folder", name) if one else ("shards" if stem != path else "file", stem)
            found.setdefault(key, []).append(path)
    return list(found.values())


def read_summary(given: str | Sequence[str]) -> Summary:
    """One summary report from all its files: results in Avro, or the service's JSON."""
    paths = files([given] if isinstance(given, str) else given, "the summary report")
    shards = [_json_results(path) if _is_json(path) else avro.read_results(path) for path in paths]
    keys = np.concatenate([shard.keys for shard in shards])
    metric = np.concatenate([shard.metric for shard in shards])
    notes = tuple(dict.fromkeys(note for shard in shards for note in shard.notes))
    once, place = distinct(keys)
    first = np.zeros(len(once), np.int64)
    first[place[::-1]] = metric[::-1]
    differs = np.zeros(len(once), bool)
    differs[place[metric != first[place]]] = True
    repeated = len(keys) - len(once) - int((metric != first[place]).sum())
    name = paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return Summary(name, once[~differs], first[~differs], once[differs], repeated, notes)


def measured(node_keys: Keys, contribution: Ints, summaries: Sequence[Summary], epsilon: float, l1: int) -> Measured:
    """What summary reports of different conversions say of the nodes: values and variances add.

    A node without a key (contribution 0), or that some summary report does not have, is not measured.
    """
    if not summaries:
        raise ValueError("there is no summary report to measure by")
    nodes = np.flatnonzero(contribution > 0)
    index = Index.of(node_keys[nodes])
    if len(index.keys) != len(nodes):
        raise ValueError("every node that is measured has a key of its own; some share one")
    total, missing = np.zeros(len(nodes)), np.zeros(len(nodes), bool)
    unknown = contradicted = 0
    for summary in summaries:
        place = index.find(summary.keys)
        known = place >= 0
        unknown += int((~known).sum())
        contradicted += len(summary.contradicted)
        total[place[known]] += summary.metric[known]
        absent = np.ones(len(nodes), bool)
        absent[place[known]] = False
        missing |= absent
    noisy, variance = np.zeros(len(node_keys)), np.full(len(node_keys), np.inf)
    there = nodes[~missing]
    each = contribution[there].astype(np.float64)
    noisy[there] = total[~missing] / each
    variance[there] = len(summaries) * dlap_variance(epsilon / l1) / each**2
    says = tuple(dict.fromkeys(note for summary in summaries for note in summary.notes))
    repeated = sum(summary.repeated for summary in summaries)
    return Measured(noisy, variance, Notes(int(missing.sum()), unknown, contradicted, repeated, says))


def _is_json(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) != MAGIC
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _json_results(path: str) -> avro.Results:
    """A list of {"bucket", "metric"}; a bucket is text of which each character is a byte."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is neither Avro nor JSON: {error}; give a summary report") from None
    if not isinstance(found, list):
        raise InputError(f"{path} is no summary report: its JSON is not a list")
    rows = [_row(item, number, path) for number, item in enumerate(found, 1)]
    keys = np.array([(key >> 64, key & 2**64 - 1) for key, _ in rows], np.uint64).reshape(-1, 2)
    return avro.Results(keys, np.array([metric for _, metric in rows], np.int64))


def _row(item: Any, number: int, path: str) -> tuple[int, int]:
    bucket, metric = (item.get("bucket"), item.get("metric")) if isinstance(item, dict) else (None, None)
    match bucket, metric:
        case str(), int() if len(bucket) <= 16 and max(bucket, default="a") <= "ÿ" and -(2**63) <= metric < 2**63:
            return int.from_bytes(bucket.encode("latin-1"), "big"), metric
    raise InputError(
        f"{path}: item {number} is no result; it needs a bucket of up to 16 bytes as text, and a whole number as metric"
    )

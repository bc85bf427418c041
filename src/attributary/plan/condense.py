"""condense: what a plan needs of a tree that is not held: its classes, made part by part where the parts are.

    tree, prior = merged([condense(tree, prior) for tree, prior in parts]).forest
    plan = make_plan(spec, tree, prior, profile=prior.profile)

A plan needs how many nodes have the same place (classes of one root) and the same earlier counts, and these classes
are those of the tree held in memory. Expected errors are the same but for rounding; contributions may differ as they do
with another order of rows, where rounding decides between plans that are as good. Roots that are alike in all this
count as one, unless each has a split of its own. Keys are 64 bits of what they stand for: two of ten million are equal
by chance with a probability of 3e-6. In trees that are condensed no node has shares of its own: plans node by node, and
those for what is learned, take a tree that is held.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attributary.arrow import pa, pc
from attributary.budget.classes import ClassNodes, CondensedTree
from attributary.noise.blocks import codes_by_level
from attributary.prior import Prior
from attributary.prior.earlier import Profile
from attributary.tree import Tree
from attributary.types import Arrow, Floats, Ints, Record

Keys = NDArray[np.uint64]
ID = "id"
LEAF, SHAPE, ROOT, NEW = (np.uint64(n) for n in (1, 0x9E6C63D0876A9A47, 0x3C79AC492BA7B653, 0x1D8E4E27C47D124F))


@dataclass(frozen=True, eq=False)
class Condensed:
    """The classes of a part of a tree, or of all of it."""

    nodes: Arrow  # one for all that are alike: id, level, key, above, shape, leaf, number, count, new, shared
    example: Arrow  # the labels of one of them
    rows: Arrow  # of a profile, for each of them: id, and the profile's columns; without columns where there is none
    known: Prior  # without its figures
    total: bool

    @property
    def forest(self) -> tuple[CondensedTree, Prior]:
        """The tree and, on it, what is known beforehand."""
        column = {name: self.nodes.column(name).to_numpy() for name in self.nodes.column_names}
        nodes = ClassNodes(*(column[name] for name in ClassNodes._fields))
        tree, order = CondensedTree.of(nodes, self.example, self.total)
        new = None if self.known.new is None else column["new"][order]
        prior = replace(self.known, mean=column["count"][order], new=new)
        if not self.rows.num_columns:
            return tree, prior
        node = pc.index_in(self.rows.column(ID), value_set=pa.array(column[ID][order])).to_numpy().astype(np.int64)
        return tree, replace(prior, profile=_profile(tree, node, self.rows))


def condense(tree: Tree, prior: Prior, by_root: bool = False, above: int = 0) -> Condensed:
    """The classes of a tree; `by_root`, if roots have splits of their own.

    Nodes of levels before `above` are shared with other parts, which have other nodes below them: their figures, and
    what is below them, add up.
    """
    tree, order = tree.in_level_order, tree.to_level_order
    count = order(np.asarray(prior.mean, np.float64))
    new = np.zeros(len(tree), bool) if prior.new is None else order(prior.new)
    figure = _mix(_bits(count) + np.where(new, NEW, np.uint64(0)))
    rows = pa.table({}) if prior.profile is None else _rows_by_node(tree, prior.profile)
    if rows.num_rows:
        np.add.at(figure, rows.column(ID).to_numpy(), _keys_of(rows))
    shape = np.full(len(tree), LEAF)
    for family in tree.families(upwards=True):
        shape[family.parent] = _mix(np.add.reduceat(_mix(shape[family.children]), family.start))
    key, over = _keys(tree, figure, shape, by_root, above)
    shared = np.arange(len(tree)) < tree.offsets[above]
    each = np.where(shared, key, _mix(SHAPE * key + figure))
    place, first = _alike(each)
    level = np.repeat(np.arange(tree.depth), np.diff(tree.offsets))
    columns = {ID: each, "level": level, "key": key, "above": over, "leaf": shape == LEAF, "count": count, "new": new}
    columns["shape"] = np.where(shared, key, shape)
    nodes = pa.table({name: values[first] for name, values in {**columns, "shared": shared}.items()})
    nodes = nodes.append_column("number", [np.bincount(place).astype(np.float64)])
    labels = tree.table().select(list(tree.attributes)).take(first)
    example = pa.table({name: labels.column(name).cast(pa.string()) for name in tree.attributes})
    if rows.num_columns:
        node = rows.column(ID).to_numpy()
        rows = rows.set_column(0, ID, [each[node]]).filter(np.isin(node, first))
    known = Prior(
        count[:0],
        protected=prior.protected,
        new=None if prior.new is None else new[:0],
        gone=prior.gone,
        lost=prior.lost,
        example=prior.example,
        not_private=prior.not_private,
        source=prior.source,
        path=prior.path,
    )
    return Condensed(nodes, example, rows, known, tree.total)


def merged(parts: Sequence[Condensed]) -> Condensed:
    """The classes of all parts."""
    nodes, example = pa.concat_tables(p.nodes for p in parts), pa.concat_tables(p.example for p in parts)
    place, first = _alike(nodes.column(ID).to_numpy())
    one, shared = nodes.take(first), nodes.column("shared").to_numpy()[first]
    sums = {name: np.bincount(place, nodes.column(name).to_numpy(), len(first)) for name in ("number", "count")}
    columns = {
        "number": np.where(shared, 1.0, sums["number"]),
        "count": np.where(shared, sums["count"], one.column("count").to_numpy()),
        **{name: np.bincount(place, ~nodes.column(name).to_numpy(), len(first)) == 0 for name in ("new", "leaf")},
    }
    for name, values in columns.items():
        one = one.set_column(one.column_names.index(name), name, [values])
    ends = np.cumsum([p.nodes.num_rows for p in parts])
    of_part, rows = np.searchsorted(ends, first, side="right"), []
    for i, part in enumerate(parts):
        if part.rows.num_columns:
            mine = one.column(ID).filter((of_part == i) | shared)
            rows.append(part.rows.filter(pc.is_in(part.rows.column(ID), value_set=mine)))
    known = parts[0].known
    for part in parts[1:]:
        gone, lost = known.gone + part.known.gone, known.lost + part.known.lost
        known = replace(
            known,
            gone=gone,
            lost=lost,
            example=known.example or part.known.example,
            protected=known.protected and part.known.protected,
            not_private=known.not_private or part.known.not_private,
        )
    return Condensed(one, example.take(first), pa.concat_tables(rows) if rows else pa.table({}), known, parts[0].total)


def _keys(tree: Tree, figure: Keys, shape: Keys, by_root: bool, above: int) -> tuple[Keys, Keys]:
    """What tells classes apart: the path of nodes with a split of their own and of those above, of other roots all that
    there is to know of them, and else the class above and the shape below. And the keys of the classes above."""
    key, over = np.empty(len(tree), np.uint64), np.zeros(len(tree), np.uint64)
    paths = codes_by_level(tree)
    for i in range(tree.depth):
        here = tree.slice(i)
        over[here] = key[tree.family[here]] if i else 0
        if i < above or (by_root and i <= tree.total):
            key[here] = _mix(next(paths) + ROOT + np.uint64(i))
        elif i:
            key[here] = _mix(over[here] + SHAPE * shape[here])
        else:
            whole = figure.copy()
            for family in tree.families(upwards=True):
                whole[family.parent] += _mix(np.add.reduceat(_mix(whole[family.children]), family.start))
            key[here] = _mix(whole[here])
    return key, over


# The rows of a profile, which for a condensed tree are those of each of its nodes.


class CondensedProfile(Profile):
    """A profile with rows for each node of a condensed tree, upper nodes included."""

    def _sum(self, value: Floats) -> float:
        tree: Tree = self.tree
        node = self.leaf[: len(value)]
        return float((value * tree.number[node])[tree.parent[node] < 0].sum())

    def _up(self, value: Floats) -> Floats:
        return np.bincount(self.leaf, value, len(self.tree)).astype(np.float64)


def _rows_by_node(tree: Tree, profile: Profile) -> Arrow:
    """The rows of each node, those of all leaves below it added up, and its number."""
    columns = {"number": profile.number} | ({} if profile.rank is None else {"rank": profile.rank})
    for field in ("begin", "value", "beyond", "paid"):
        columns |= {f"{field}:{name}": values for name, values in getattr(profile, field).items()}
    columns |= {f"at:{clip!r}:{name}": each for name, by_clip in profile.at.items() for clip, each in by_clip.items()}
    keys = [ID, *(name for name in columns if name == "rank" or name.startswith("begin:"))]
    sums, levels = [name for name in columns if name not in keys], []
    for i in range(tree.depth):
        node = tree.ancestor(i)[profile.leaf]
        here = node >= 0
        table = pa.table({ID: node[here] + tree.offsets[i], **{name: v[here] for name, v in columns.items()}})
        table = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in sums])
        levels.append(table.rename_columns([name.removesuffix("_sum") for name in table.column_names]))
    return pa.concat_tables(table.select([*keys, *sums]) for table in levels)


def _profile(tree: CondensedTree, node: Ints, rows: Arrow) -> CondensedProfile:
    """The profile of which these are the rows."""
    each: Record = {"value": {}, "begin": {}, "beyond": {}, "paid": {}, "at": {}}
    for column in rows.column_names[1:]:
        field, _, name = column.partition(":")
        values = rows.column(column).to_numpy()
        if field == "at":
            clip, _, name = name.partition(":")
            each["at"].setdefault(name, {})[float(clip)] = values
        elif field in ("number", "rank"):
            each[field] = values
        else:
            each[field][int(name) if field == "paid" else name] = values
    return CondensedProfile(tree, node, **each)


def _keys_of(rows: Arrow) -> Keys:
    """A key for each row, but for its node."""
    key: Keys = np.zeros(rows.num_rows, np.uint64)
    for name in rows.column_names[1:]:
        key = _mix(key + _bits(rows.column(name).to_numpy().astype(np.float64)))
    return key


def _alike(keys: Keys) -> tuple[Ints, Ints]:
    """The place of each key among the different ones, and where each of these is first."""
    coded = pa.array(keys).dictionary_encode()
    place = coded.indices.to_numpy()
    first = np.empty(len(coded.dictionary), np.int64)
    first[place[::-1]] = np.arange(len(keys))[::-1]
    return place, first


def _bits(values: Floats) -> Keys:
    return (values + 0.0).view(np.uint64)  # + 0.0, as -0 is 0


def _mix(key: Keys) -> Keys:
    """The bits of each key, well mixed (SplitMix64)."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = key ^ (key >> np.uint64(31))
    return mixed

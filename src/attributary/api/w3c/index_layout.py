"""index_layout: dense indexes of histograms for the nodes of a tree, and the match values that go with them.

A node keeps its index as long as its campaign runs. New nodes take new indexes, up to the largest histogram; then those
of nodes that have ended, under a new version, so that impressions from before are not taken for theirs.
"""

import numpy as np

from attributary.api.w3c.schemes import ReportKind, index_level, report_kinds, scheme_of, section_of
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.sections import IndexLayout
from attributary.spec import Spec
from attributary.tree import Tree

LEVELS = 16  # match values of one version: a level each, and one for the batches of scheme C
BATCHES = LEVELS - 1
Path = tuple[str, ...]


def lay_out(plan: Plan, tree: Tree, start: int) -> tuple[IndexLayout, tuple[str, ...]]:
    """The plan's layout with an index for each node of the tree, and what is different from the one before, in words.

    Priorities of a new one count from `start`.
    """
    spec, before = plan.spec, plan.layout
    most = section_of(spec).histogram
    spaces = dict(before.spaces) if before else {}
    running: dict[str, list[Path]] = {}
    for level in used_levels(plan):
        for path in known_paths(spec, tree, level):
            running.setdefault(space_of(spec, level, path), []).append(path)
    notes, reused = [], 0
    for space, paths in running.items():
        there = list(spaces.get(space, ()))
        new = list(dict.fromkeys(path for path in paths if path not in set(there)))
        room = most - len(there)
        ended = [i for i, path in enumerate(there) if path not in set(paths)] if len(new) > room else []
        if len(new) > room + len(ended):
            raise InputError(
                f"{len(paths):,} nodes of {space!r} need an index each, and a histogram has {most:,}: leave nodes or a "
                "level out, raise histogram under [api] if browsers take more, or give each conversion site its own "
                "(site under [api])"
            )
        if there and new and not ended:
            notes.append(f"histogram of {space!r}: {len(there) + len(new):,} indexes instead of {len(there):,}")
        for path in new:
            if len(there) < most:
                there.append(path)
            else:
                there[ended.pop(0)], reused = path, reused + 1
        spaces[space] = tuple(there)
    first = int(plan.fingerprint[:4], 16) << 12 | 1  # so that impressions of other plans do not match
    version = first if before is None else before.version + (reused > 0)
    if reused:
        notes.append(
            f"version {version}: {reused:,} indexes of nodes that have ended are used again; impressions that were "
            "saved before are no longer measured"
        )
    return IndexLayout(version=version, start=before.start if before else start, spaces=spaces), tuple(notes)


def used_levels(plan: Plan) -> list[int]:
    """The levels whose nodes need indexes; -1 for a histogram of one."""
    rows = [plan.default, *plan.roots.values()]
    return sorted({index_level(plan.spec, i) for row in rows for i, part in enumerate(row) if part > 0})


def space_of(spec: Spec, level: int, path: Path) -> str:
    """The space that a node's index is in: of its site where each has its own, of its level where that has reports."""
    site = path[:1] if section_of(spec).site is not None else ()
    names = ("total",) * spec.total + tuple(attribute.name for attribute in spec.known)
    name = "all" if level < 0 or scheme_of(spec).atomic else names[level]
    return " ".join((*site, name))


def match_value(layout: IndexLayout, level: int) -> int:
    """What tells a level's impressions from those of other levels, and of other versions."""
    return LEVELS * layout.version + level + 1


def kinds_of(plan: Plan, root: str = "") -> tuple[ReportKind, ...]:
    """The kinds of reports of a conversion; where roots are sites, of one on this site."""
    at_site = section_of(plan.spec).site is not None
    return report_kinds(plan.spec, plan.roots.get(root, plan.default) if at_site else plan.default)


def task_of(layout: IndexLayout, kind: ReportKind, root: str = "") -> str:
    """The name of the task that a kind's reports belong to: its length and maxValue go with it."""
    return f"{root}{'/' if root else ''}{kind.name}-v{layout.version}"


def known_paths(spec: Spec, tree: Tree, level: int) -> list[Path]:
    """The paths of known attributes down to a level of index_level, in level order; of no attribute, the empty path."""
    paths: list[Path] = [()]
    known = [attribute.name for attribute in spec.known[: level + 1 - int(spec.total)]]
    numbers = tree.numbered(known)
    for name in known:
        i = tree.level_names.index(name)
        first = np.unique(numbers[i], return_index=True)[1]  # in every batch, they are the same
        labels = tree.labels[i - int(tree.total)].take(first).cast("string").to_pylist()
        above = numbers[i - 1][tree.family[tree.slice(i)][first] - tree.offsets[i - 1]] if i else np.zeros_like(first)
        paths = [(*paths[p], label) for p, label in zip(above.tolist(), labels, strict=True)]
    return paths

"""Case: a tree, its true counts and a prior for them: what methods are tried on."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.prior import Prior
from attributary.prior.kin import label_codes
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats

PRIOR = "prior_"  # before the names of its arrays, in a file


@dataclass(frozen=True, eq=False)
class Case:
    """One tree of a dataset under one noise model, `spec.noise`; nodes, counts and prior are in level order.

    What methods may see are the spec, the tree and the prior; the counts are what they are judged by. Where limits cut
    something off, `count` is what is left, which is measured, and `full` is what they are judged by.
    """

    dataset: str
    name: str  # of the tree
    spec: Spec
    tree: Tree
    count: Floats
    prior: Prior
    generated: bool = False  # whether the rows behind it are
    full: Floats | None = None  # as if there were no limits; None: there are none
    rounding: Floats | float = 0.0  # the variance of measured sums of values, each rounded to a whole contribution

    @classmethod
    def of(
        cls, dataset: str, name: str, spec: Spec, tree: Tree, count: Floats, prior: Prior, generated: bool = False
    ) -> Self:
        """A case of a tree in any order; refuses one that has nothing to be measured."""
        if len(tree) < 2:
            raise InputError(
                f"{dataset}, {name}: a tree of one node has nothing to split and nothing to add up; "
                "add attributes, or take a period with more rows"
            )
        if tree.depth != len(spec.levels):
            raise InputError(f"{dataset}, {name}: the tree has {tree.depth} levels; the spec has {len(spec.levels)}")
        counts = np.asarray(count, np.float64)
        if counts.shape != (len(tree),) or not np.isfinite(counts).all() or not (counts >= 0).all():
            raise ValueError(f"a case needs a true count, 0 or more, for each of its {len(tree)} nodes")
        flat = Tree(tree.family.astype(np.int32), tree.first, tree.offsets, total=tree.total)
        order = tree.to_level_order
        known = replace(changed(prior, order), label=label_codes(tree))  # the flat tree does not hold them
        return cls(dataset, name, spec, flat, order(counts), known, generated)

    @property
    def nodes(self) -> int:
        return len(self.tree)

    @property
    def noise(self) -> str:
        return self.spec.noise

    @property
    def truth(self) -> Floats:
        """What is to be known."""
        return self.count if self.full is None else self.full

    def at(self, tau: float, epsilon: float) -> Self:
        """The same under another τ and another budget."""
        return replace(self, spec=self.spec.model_copy(update={"tau": float(tau), "epsilon": float(epsilon)}))

    @cached_property
    def key(self) -> str:
        """A name for all that is in the case, but for ε and τ: equal for equal cases."""
        digest = hashlib.blake2b(digest_size=16)
        spec = self.spec.model_dump_json(exclude={"epsilon", "tau", "logs"})
        digest.update("\0".join([self.dataset, self.name, spec, str(self.generated)]).encode())
        for name, values in self._arrays().items():
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def save(self, path: str) -> None:
        """Writes the case to a file, for other processes."""
        words = [self.dataset, self.name, self.spec.model_dump_json(by_alias=True, exclude_none=True)]
        flags = np.array([self.generated, self.prior.protected, self.tree.total])
        np.savez(path, words=np.array(words), flags=flags, **self._arrays())

    @classmethod
    def load(cls, path: str) -> "Case":
        """The case in a file."""
        with np.load(path) as file:
            dataset, name, spec = (str(word) for word in file["words"])
            generated, protected, total = (bool(flag) for flag in file["flags"])
            first, offsets, count = (file[array] for array in ("first", "offsets", "count"))
            known: dict[str, Any] = {key[len(PRIOR) :]: file[key] for key in file.files if key.startswith(PRIOR)}
            limited: dict[str, Any] = {key: file[key] for key in ("full", "rounding") if key in file.files}
        roots = np.full(int(first[0]), -1, np.int32)
        parent = np.concatenate([roots, np.repeat(np.arange(len(count), dtype=np.int32), np.diff(first))])
        tree, prior = Tree(parent, first, offsets, total=total), Prior(**known, protected=protected)
        return cls(dataset, name, Spec.model_validate_json(spec), tree, count, prior, generated, **limited)

    def _arrays(self) -> dict[str, Any]:
        known: dict[str, Any] = {f"{PRIOR}{name}": values for name, values in arrays(self.prior).items()}
        limited = {"full": self.full, "rounding": self.rounding if np.ndim(self.rounding) else None}
        known |= {name: values for name, values in limited.items() if values is not None}
        return {"first": self.tree.first, "offsets": self.tree.offsets, "count": self.count, **known}


def arrays(prior: Prior) -> dict[str, NDArray[Any]]:
    """What a prior says of each node."""
    values = {field.name: getattr(prior, field.name) for field in fields(prior)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def changed(prior: Prior, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Prior:
    """The same for other nodes, or in another order."""
    new: dict[str, Any] = {name: change(values) for name, values in arrays(prior).items()}
    return replace(prior, **new)

"""Case: a tree, its true counts and a prior for them: what methods are tried on."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.evaluate.limits import Limits
from attributary.prior import Prior
from attributary.prior.kin import label_codes
from attributary.prior.profile import Profile
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats


@dataclass(frozen=True, eq=False)
class Case:
    """One tree of a dataset under one noise model, `spec.noise`; nodes, counts and prior are in level order.

    Methods see the spec, the tree and the prior; the counts are what they are judged by. Counts alone have no `limits`.
    With several measures, or several conversions per impression, `limits` says how limits are chosen, `earlier` is what
    methods see of values and ranks, and `measured` is what they are judged by; `count` then has all conversions.
    """

    dataset: str
    name: str  # of the tree
    spec: Spec
    tree: Tree
    count: Floats
    prior: Prior
    generated: bool = False  # whether the rows behind it are
    full: Floats | None = None  # of one measure under limits: its sums without them; `count` are those that are left
    rounding: Floats | float = 0.0  # the variance of measured sums of values, each rounded to a whole contribution
    limits: Limits | None = None
    measured: Profile | None = None
    earlier: Profile | None = None
    not_private: str = ""  # the words on the tables behind it, which its errors carry on

    @classmethod
    def of(
        cls, dataset: str, name: str, spec: Spec, tree: Tree, count: Floats, prior: Prior, generated: bool = False
    ) -> Self:
        """A case of your own counts: `count` has the true count of every node, in the tree's order.

        Counts of leaves become counts of nodes with `tree.roll_up(leaf_counts)`; `attributary.prior.from_counts(tree,
        table)` makes a prior from a table of counts, and its `mean` are the counts of every node. `dataset` and `name`
        (of the tree) are what the table of errors calls them. Refuses a tree of one node, a tree of other levels than
        the spec's, and counts that are negative or not finite.
        """
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
        """The number of nodes."""
        return len(self.tree)

    @property
    def noise(self) -> str:
        """The name of the noise model."""
        return self.spec.noise

    @property
    def truth(self) -> Floats:
        """What estimates are compared with."""
        return self.count if self.full is None else self.full

    def at(self, tau: float, epsilon: float) -> Self:
        """The same under another τ and another budget."""
        return replace(self, spec=self.spec.model_copy(update={"tau": float(tau), "epsilon_or_auto": float(epsilon)}))

    @cached_property
    def key(self) -> str:
        """A name for all that is in the case, but for ε and τ: equal for equal cases."""
        digest = hashlib.blake2b(digest_size=16)
        spec = self.spec.identity("tau", "logs")
        digest.update("\0".join([self.dataset, self.name, spec, str(self.generated)]).encode())
        for name, values in self._arrays().items():
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def _arrays(self) -> dict[str, Any]:
        every: dict[str, Any] = {"first": self.tree.first, "offsets": self.tree.offsets, "count": self.count}
        every |= {f"prior_{name}": values for name, values in arrays(self.prior).items()}
        every |= {} if self.full is None else {"full": self.full}
        every |= {"rounding": self.rounding} if np.ndim(self.rounding) else {}
        every |= {} if self.limits is None else {"limits": np.array([str(part) for part in self.limits])}
        for side in ("measured", "earlier"):
            profile: Profile | None = getattr(self, side)
            every |= {} if profile is None else {f"{side}_{name}": part for name, part in _parts(profile).items()}
        return every


def arrays(prior: Prior) -> dict[str, NDArray[Any]]:
    """What a prior says of each node."""
    values = {field.name: getattr(prior, field.name) for field in fields(prior)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def changed(prior: Prior, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Prior:
    """The same for other nodes, or in another order."""
    new: dict[str, Any] = {name: change(values) for name, values in arrays(prior).items()}
    return replace(prior, **new)


def _parts(profile: Profile) -> dict[str, Any]:
    """A profile's arrays; names of measures are text of the user's."""
    parts: dict[str, Any] = {"leaf": profile.leaf, "number": profile.number}
    if profile.rank is not None:
        parts["rank"] = profile.rank
    for kind in ("value", "begin", "beyond"):
        each = getattr(profile, kind)
        parts |= {f"{kind}_names": np.array(list(each), str)}
        parts |= {f"{kind}_{i}": values for i, values in enumerate(each.values())}
    return parts

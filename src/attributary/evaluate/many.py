"""Many: a case of several measures, or of several conversions to an impression, which share one budget."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from attributary.errors import InputError
from attributary.evaluate import ways
from attributary.evaluate.case import Case
from attributary.evaluate.limits import Limits, all_limits, refuse_open, refuse_untold
from attributary.evaluate.methods import Method
from attributary.evaluate.ways import Way
from attributary.noise import page_of
from attributary.prior import Prior
from attributary.profile import Profile
from attributary.spec import Spec
from attributary.tree import Tree

PLANS: dict[Way, str] = {ways.equal: "equal", ways.leaves: "leaves", ways.greedy: "greedy", ways.optimal: "optimal"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Many(Case):
    """All measures of a tree under one way to come to limits. `count` are all conversions, whatever the limits are.

    What methods may see of values and ranks is `earlier`; `measured` is what they are judged by.
    """

    measured: Profile
    earlier: Profile
    limits: Limits

    @classmethod
    def cases(
        cls,
        dataset: str,
        spec: Spec,
        tree: Tree,
        measured: Profile,
        prior: Prior,
        earlier: Profile,
        noises: tuple[str, ...] = (),
        generated: bool = False,
    ) -> list[Self]:
        """A case for each noise model and each way to come to limits; profiles are of the tree."""
        noises = noises or (spec.noise,)
        if spec.values and not all(page_of(noise).on_sums for noise in noises):
            raise InputError('values are scaled, as in the API; take noise = "api", or count conversions alone')
        refuse_untold(spec, measured)
        refuse_open(spec, earlier)
        count = measured.full(next((m for m in spec.asked if m.is_count), spec.asked[0]))
        name = " > ".join(spec.levels)
        found: list[Self] = []
        for noise in noises:
            asks = spec.model_copy(update={"noise": noise})
            one = Case.of(dataset, name, asks, tree, count, prior, generated)
            two = (_on(one.tree, measured), _on(one.tree, earlier))
            found += [cls._of(one, *two, limits) for limits in all_limits(spec)]
        return found

    @classmethod
    def _of(cls, one: Case, measured: Profile, earlier: Profile, limits: Limits) -> Self:
        return cls(
            dataset=one.dataset,
            name=one.name,
            spec=one.spec,
            tree=one.tree,
            count=one.count,
            prior=one.prior,
            generated=one.generated,
            measured=measured,
            earlier=earlier,
            limits=limits,
        )

    def _arrays(self) -> dict[str, Any]:
        found = super()._arrays() | {"limits": np.array([str(part) for part in self.limits])}
        for side in ("measured", "earlier"):
            profile: Profile = getattr(self, side)
            found |= {f"{side}_{name}": values for name, values in _parts(profile).items()}
        return found

    @classmethod
    def load(cls, path: str) -> "Many":
        """The case in a file."""
        plain = Case.load(path)
        with np.load(path) as file:
            name, *numbers = (str(word) for word in file["limits"])
            most, percent = (None if word == "None" else int(word) for word in numbers)
            arrays = {key: file[key] for key in file.files}
        measured, earlier = (_profile(plain.tree, side, arrays) for side in ("measured", "earlier"))
        return cls._of(plain, measured, earlier, Limits(name, most, percent))


def load(path: str) -> Case:
    """The case in a file, of whatever kind."""
    with np.load(path) as file:
        many = "limits" in file.files
    return Many.load(path) if many else Case.load(path)


def taken(case: Case, methods: tuple[Method, ...], named: bool) -> tuple[Method, ...]:
    """The methods that can be tried on a case; those that were named and cannot are refused."""
    if not isinstance(case, Many):
        return methods
    fits = tuple(method for method in methods if method.way in PLANS and not method.slow)
    if named and len(fits) < len(methods):
        odd = next(method.name for method in methods if method not in fits)
        raise InputError(
            f"{odd} is for counts of one conversion to an impression; with values or several conversions take "
            "equal-raw, or equal, leaves, greedy or optimal with -blue or -top-down"
        )
    return fits


def _on(tree: Tree, profile: Profile) -> Profile:
    """The same on the flat tree; rows stand in level order already."""
    return replace(profile, tree=tree)


def _parts(profile: Profile) -> dict[str, Any]:
    """A profile's arrays; names of measures are text of the user's."""
    found: dict[str, Any] = {"leaf": profile.leaf, "number": profile.number}
    if profile.rank is not None:
        found["rank"] = profile.rank
    for kind in ("value", "begin", "beyond"):
        each = getattr(profile, kind)
        found |= {f"{kind}_names": np.array(list(each), str)}
        found |= {f"{kind}_{i}": values for i, values in enumerate(each.values())}
    return found


def _profile(tree: Tree, side: str, arrays: dict[str, Any]) -> Profile:
    given: dict[str, Any] = {name: arrays.get(f"{side}_{name}") for name in ("leaf", "number", "rank")}
    for kind in ("value", "begin", "beyond"):
        names = [str(name) for name in arrays[f"{side}_{kind}_names"]]
        given[kind] = {name: arrays[f"{side}_{kind}_{i}"] for i, name in enumerate(names)}
    return Profile(tree, **given)

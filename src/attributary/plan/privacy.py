"""privacy_words: what a plan's ε is of, as figures and as the sentences that terminal, pages and files share."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attributary.spec import Spec
from attributary.spec.privacy_unit import COUNTED, UNITS, PrivacyLoss
from attributary.types import Ints


class Spent(NamedTuple):
    """The largest part of the budget that any root takes."""

    path: float  # by all counted conversions of an impression
    unknown: float  # by them, at levels where they can differ
    purchase: float | None  # by one logged purchase more or less; None where the API's terms give no bound

    def plus(self, others: Any) -> "Spent":
        """With what others take, if there are any: a bound, as not every conversion takes the most of all.

        No purchase takes the most of each breakdown, where some have levels that conversions share and others have
        not: what it takes of all `together` is worked out, and stands with the others.
        """
        if others is None:
            return self
        purchase = others.together
        if purchase is None and self.purchase is not None and others.purchase is not None:
            purchase = self.purchase + others.purchase
        return Spent(self.path + others.path, self.unknown + others.unknown, purchase)


def spent(spec: Spec, known: Ints, unknown: Ints, times: Ints) -> Spent:
    """From a conversion's contributions by measure and root: at levels that all conversions of an impression share,
    and at the others; and from how many times one budget all that count take.

    Of a purchase that is removed, the impression's next one may be counted instead. Where they differ, both have keys
    of their own. Where they do not, their counts cancel; values do if both are large, and one may be 0.
    """
    path = (known + unknown).sum(axis=0)
    taken = times * path, times * unknown.sum(axis=0), _purchase(spec, known, unknown)
    most = [int(x.max()) / spec.l1 for x in taken]
    return Spent(most[0], most[1], most[2] if spec.terms.one_impression else None)


def _purchase(spec: Spec, known: Ints, unknown: Ints) -> Ints:
    """What one logged purchase more or less takes, by root."""
    of_value = np.array([[not measure.is_count] for measure in spec.asked])
    replaced = unknown + np.maximum(unknown, np.where(of_value, known, 0))
    taken: Ints = np.maximum((known + unknown).sum(axis=0), replaced.sum(axis=0))
    return taken


def purchase_of_all(spec: Spec, rows: Sequence[tuple[Ints, Ints]]) -> float:
    """What one logged purchase takes of the budget in all breakdowns, from the `known` and `unknown` of each.

    The formula is that of one breakdown, with all their levels. Of roots with splits of their own, the largest of each
    breakdown count, whichever conversion has them: then it is a bound.
    """
    path = sum(int((known + unknown).sum(axis=0).max()) for known, unknown in rows)
    most = sum((known + unknown).max(axis=1) for known, unknown in rows)
    twice = sum(2 * unknown.max(axis=1) for _, unknown in rows)
    of_value = np.array([not measure.is_count for measure in spec.asked])
    return max(path, int(np.where(of_value, np.maximum(most, twice), twice).sum())) / spec.l1


class PrivacyWords(NamedTuple):
    """What ε is of, and each figure with what it is of."""

    unit: str
    lines: tuple[str, ...]
    warning: str = ""  # a figure above ε

    @property
    def sentences(self) -> list[str]:
        """All of it, each with its capital letter and full stop; ε has none."""
        return [f"{line[:1] if line[:1] == 'ε' else line[:1].upper()}{line[1:]}." for line in self.all_lines]

    @property
    def all_lines(self) -> list[str]:
        """The lines, and the warning if there is one."""
        return [*self.lines, *([self.warning] if self.warning else [])]


def privacy_words(spec: Spec, loss: PrivacyLoss, several: bool) -> PrivacyWords:
    """Whose ε it is; `several` says whether several conversions of an impression count."""
    terms, unit = spec.terms, f"{COUNTED}s, all of them together" if several else COUNTED
    if terms.unit:
        unit = terms.unit.format(**({} if spec.api is None else spec.api.model_dump()))
        return PrivacyWords(unit, (f"ε = {loss.conversion:.4g}: {unit}", *terms.guarantee))
    other = ", or with another value" if spec.values else ""
    purchase = f"one logged purchase more or less{other}"
    bound = f"no bound is known for {purchase}"
    if loss.purchase is not None:
        bound = f"ε = {loss.purchase:.4g}: {purchase}, if {terms.one_impression}; otherwise there is no such bound"
    lines = [f"ε = {loss.conversion:.4g}: {unit}", bound]
    if spec.privacy_unit.sentence:
        lines.append(f"ε = {loss.under(spec.neighbours):.4g}: {spec.privacy_unit.sentence}")
    if not spec.unknown:
        return PrivacyWords(unit, tuple(lines))
    names = " or ".join(attribute.name for attribute in spec.unknown)
    whose = "the " + names + " of these conversions" if several else f"that conversion's {names}"
    change = f"ε = {loss.change:.4g}: changing {whose}"
    wider = next(each for each in UNITS.values() if each.title)
    if wider.loss(loss) <= spec.epsilon * (1 + 1e-12):
        return PrivacyWords(unit, (*lines, f"{change} ({wider.title})"))
    remedy = f'neighbours = "{wider.name}" in the spec keeps both within {spec.epsilon:g}'
    return PrivacyWords(unit, tuple(lines), f"{change}, which is less protection; {remedy}")

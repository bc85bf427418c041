"""Desk: what is open, and what a request may ask of it; no word of HTTP."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from attributary.errors import InputError
from attributary.estimates import FROM_PRIOR
from attributary.explore import tried
from attributary.explore.download import as_csv
from attributary.explore.draws import Part as Sample
from attributary.explore.draws import draws
from attributary.explore.look import Look
from attributary.explore.start import CONVERSIONS, FANS, MOST_NODES, Start, made_up
from attributary.explore.store import Store
from attributary.explore.trial import Trial
from attributary.explore.view import PAGE, view
from attributary.plan.parts import Part
from attributary.report.facts import not_private
from attributary.report.quantity import digits
from attributary.spec.measure import COUNT
from attributary.tables.not_private import together

Asked = Mapping[str, str]
KEPT = 8  # made-up trees


@dataclass(eq=False)
class Desk:
    """The one thing that changes: a store is opened again when its file was replaced."""

    open: Callable[[], Store] | None  # opens the files; None where there are none
    begin: Callable[[Store | None], Start]  # what the Plan tab begins with, when it is first looked at
    tau: float
    shape: str = "laplace"
    store: Store | None = None
    measures: Mapping[str, Part] = field(default_factory=dict)  # of the plan
    _trials: dict[tuple[int, ...], tuple[Trial, Sample]] = field(default_factory=dict)
    _left: list[Store] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def reopen(self) -> None:
        """Opens the files anew; if that fails, the old ones stay, and go on saying that they have changed."""
        if self.open is None:
            return
        with self._lock:
            fresh = self.open()
            if self.store is not None:
                self._left.append(self.store)  # and closed at the end: a query may still be at work on it
            self.store = fresh
            self._trials.pop((), None)

    def close(self) -> None:
        """Ends all queries and closes whatever was opened."""
        for store in [*self._left, *([self.store] if self.store else [])]:
            store.connection.interrupt()
            store.close()

    def about(self, asked: Asked) -> dict[str, Any]:
        """What there is to look at, of one measure."""
        if self.store is None:
            return {"table": None}
        store = self.store.of(asked.get("measure", ""))
        now, name = store.now, self._name(store)
        return {
            "table": {
                "file": now.path,
                "before": store.before.path if store.before else None,
                "levels": [{"name": n, "nodes": s} for n, s in zip(now.levels, now.forest.sizes, strict=False)],
                "nodes": len(now),
                "labels": bool(now.attributes),
                "not_private": not_private(together(*(table.not_private for table in store.tables))),
                "confidence": now.confidence,
                "prior": FROM_PRIOR in store.figures,
                "tau": self._tau(store),
                "page": PAGE,
                "measure": now.measure or "",
                "measures": [each.now.measure for each in (self.store, *self.store.others)] if now.measure else [],
                "called": "conversions" if name == COUNT else name,
                "unit": self._unit(name),
                "digits": 1 if name == COUNT else digits(store.checked.variance),
            }
        }

    def _name(self, store: Store) -> str:
        """The measure of a store; of a table that does not tell, the plan's, if it has one."""
        return store.now.measure or (next(iter(self.measures)) if len(self.measures) == 1 else COUNT)

    def _unit(self, name: str) -> str:
        return (self.measures[name].measure.unit or "") if name in self.measures else ""

    def _tau(self, store: Store) -> float:
        """Errors of a value are relative to the plan's tau or, without a plan, to what as many conversions bring."""
        name = self._name(store)
        part = self.measures.get(name)
        if name == COUNT or self.store is None:
            return self.tau
        if part is not None:
            return part.tau if part.measure.tau else part.tau * self.tau / part.plan.spec.tau
        counts = next((each for each in (self.store, *self.store.others) if each.now.measure == COUNT), None)
        if counts is None or not (counts.checked.total > 0 and store.checked.total > 0):
            return self.tau
        return self.tau * store.checked.total / counts.checked.total

    def look(self, asked: Asked) -> Look:
        """A cursor of its own on what is open, of one measure."""
        if self.store is None:
            raise InputError("no table is open; give one to `attributary explore`")
        self.store.check()
        store = self.store.of(asked.get("measure", ""))
        return Look(store, self._tau(store), self.shape)

    def page(self, look: Look, asked: Asked) -> dict[str, Any]:
        return look.page(view(asked, look.store))

    def node(self, look: Look, asked: Asked) -> dict[str, Any]:
        seen = view(asked, look.store)
        if seen.node is None:
            raise InputError("which node? an address names one, as in node=17")
        return look.node(seen)

    def count(self, look: Look, asked: Asked) -> dict[str, Any]:
        return {"of": look.count(view(asked, look.store))}

    def csv(self, look: Look, asked: Asked) -> Iterator[str]:
        return as_csv(look, view(asked, look.store))

    def plan(self, asked: Asked) -> dict[str, Any]:
        trial, _ = self._trial(asked)
        start = trial.start
        told = {
            "words": start.words,
            "warning": start.warning,
            "fans": list(start.fans),
            "conversions": start.conversions,
            "nodes": len(start.tree),
        }
        return {**tried.tried(trial, asked), "start": told}

    def best(self, asked: Asked) -> dict[str, Any]:
        return tried.best(self._trial(asked)[0], asked)

    def draws(self, asked: Asked) -> dict[str, Any]:
        trial, part = self._trial(asked)
        spec = tried.asked_spec(trial, asked)
        contribution = trial.contribution(spec, tried.asked_shares(trial, spec, asked))
        return draws(part, spec, contribution, tried.asked_seed(asked))

    def _trial(self, asked: Asked) -> tuple[Trial, Sample]:
        fans, conversions = _fans(asked.get("fans", "")), asked.get("conversions", "")
        if conversions and not (conversions.isascii() and conversions.isdigit() and len(conversions) < 15):
            raise InputError(f"conversions are a whole number, 1 or more; got {conversions[:40]!r}")
        wanted = (*fans, int(conversions or CONVERSIONS)) if fans or conversions else ()
        with self._lock:
            if wanted not in self._trials:
                if len(self._trials) > KEPT:
                    self._trials.clear()
                start = made_up(fans or FANS, wanted[-1]) if wanted else self.begin(self.store)
                self._trials[wanted] = (Trial(start), Sample(start))
            return self._trials[wanted]


def _fans(text: str) -> tuple[int, ...]:
    """Fan-outs as in 12x20x14."""
    parts = [part.strip() for part in text.replace("×", "x").replace(",", "x").split("x")] if text else []
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        raise InputError(f"fan-outs are whole numbers, top to bottom, as in 12 × 20 × 14; got {text[:40]!r}")
    found = tuple(map(int, parts))
    if any(fan > MOST_NODES for fan in found):
        raise InputError(f"a made-up tree has at most {MOST_NODES:,} nodes; got {text[:40]}")
    return found

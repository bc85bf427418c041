"""Session: what is open, and what a request may ask of it; no word of HTTP."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from attributary.changes import TESTS
from attributary.errors import InputError
from attributary.estimates import EXTRAS
from attributary.explore.estimate_store import EstimateStore, level_gains
from attributary.explore.plan_tab import CONVERSIONS, FANS, MOST_NODES, PlanStart, made_up_start, whole_number
from attributary.explore.queries import PAGE, Queries, as_csv, view
from attributary.facts.changes import lead, sum_over_periods, whole
from attributary.facts.estimates import as_numbers, gain_words
from attributary.facts.privacy import not_private
from attributary.facts.quantity import digits, tau_of_value
from attributary.plan import MeasurePlan
from attributary.report.course_svg import LARGE, course
from attributary.spec.measure import COUNT, called

Params = Mapping[str, str]
KEPT = 8  # made-up trees


@dataclass(eq=False)
class Session:
    """The one thing that changes: a store is opened again when its file was replaced."""

    open: Callable[[], EstimateStore] | None  # opens the files; None where there are none
    start: Callable[[EstimateStore | None], PlanStart]  # what the Plan tab starts with, when it is first opened
    tau: float
    shape: str = "laplace"
    store: EstimateStore | None = None
    measures: Mapping[str, MeasurePlan] = field(default_factory=dict)  # of the plan
    recognised: tuple[str, ...] = ()  # what a table of noisy figures was taken for, in words
    doubts: tuple[str, ...] = ()  # what its figures say against it
    _starts: dict[tuple[int, ...], PlanStart] = field(default_factory=dict)
    _left: list[EstimateStore] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def reopen(self) -> None:
        """Opens the files again; if that fails, the old ones stay open."""
        if self.open is None:
            return
        with self._lock:
            fresh = self.open()
            if self.store is not None:
                self._left.append(self.store)  # and closed at the end: a query may still be at work on it
            self.store = fresh
            self._starts.pop((), None)

    def close(self) -> None:
        for store in [*self._left, *([self.store] if self.store else [])]:
            store.connection.interrupt()
            store.close()

    def about(self, params: Params) -> dict[str, Any]:
        if self.store is None:
            return {"table": None}
        store = self.store.of(params.get("measure", ""))
        now, name = store.now, self._name(store)
        gains = [] if store.series else level_gains(store, store.connection.cursor(), self._tau(store))
        return {
            "table": {
                "file": now.path,
                "before": store.series.periods[-2].name if store.series else None,
                "test": TESTS[store.series.test].words if store.series else None,
                "chance": store.series.chance if store.series else None,
                "levels": [{"name": n, "nodes": int(x)} for n, x in zip(now.levels, now.forest.sizes, strict=False)],
                "gains": [as_numbers(gain) for gain in gains],
                "gained": gain_words(gains),
                "nodes": len(now),
                "labels": bool(now.attributes),
                "not_private": not_private(now.about.not_private),
                "generated": now.about.generated,
                "confidence": now.about.confidence,
                "extras": [(x.name, x.key, x.head, x.words) for name, x in EXTRAS.items() if name in store.figures],
                "tau": self._tau(store),
                "page": PAGE,
                "measure": now.measure or "",
                "measures": [each.now.measure for each in (self.store, *self.store.others)] if now.measure else [],
                "called": (now.about.figure if name == COUNT else "") or called(name),
                "noun": "count" if name == COUNT else "sum",
                "unit": (self.measures[name].measure.unit or "") if name in self.measures else "",
                "digits": 1 if name == COUNT else digits(store.checked.variance),
            }
        }

    def _name(self, store: EstimateStore) -> str:
        """The measure of a store; if the table does not say, the plan's."""
        return store.now.measure or (next(iter(self.measures)) if len(self.measures) == 1 else COUNT)

    def _tau(self, store: EstimateStore) -> float:
        """The tau of a value is the plan's or, without a plan, the average value of τ conversions."""
        name = self._name(store)
        if name == COUNT or self.store is None:
            return self.tau
        stores = (self.store, *self.store.others)
        count = next((each.checked.total for each in stores if each.now.measure == COUNT), 0.0)
        return tau_of_value(self.measures.get(name), self.tau, store.checked.total, count)

    def queries(self, params: Params) -> Queries:
        """A cursor of its own on what is open, of one measure."""
        if self.store is None:
            raise InputError("no table is open; give one to `attributary explore`")
        self.store.check()
        store = self.store.of(params.get("measure", ""))
        return Queries(store, self._tau(store), self.shape)

    def page(self, queries: Queries, params: Params) -> dict[str, Any]:
        return queries.page(view(params, queries.store))

    def node(self, queries: Queries, params: Params) -> dict[str, Any]:
        seen = view(params, queries.store)
        if seen.node is None:
            raise InputError("the address needs a node, as in node=17")
        return queries.node(seen.node)

    def course(self, params: Params) -> dict[str, Any]:
        """A node's course over the periods as a picture, and its sum over them; without a node, what changed."""
        store = None if self.store is None else self.store.of(params.get("measure", ""))
        if store is None or store.series is None:
            raise InputError("only several periods have a course; give them to `attributary explore`")
        series, node = store.series, view(params, store).node
        if node is None:
            words = " ".join(lead(series, []))
            return {"size": LARGE, "shapes": course(whole(series), 0, large=True), "words": words}
        return {"size": LARGE, "shapes": course(series, node, large=True), "words": sum_over_periods(series, node)}

    def count(self, queries: Queries, params: Params) -> dict[str, Any]:
        return {"of": queries.count(view(params, queries.store))}

    def csv(self, queries: Queries, params: Params) -> Iterator[str]:
        return as_csv(queries, view(params, queries.store))

    def planned(self, answer: Callable[[PlanStart, Params], dict[str, Any]], params: Params) -> dict[str, Any]:
        """An answer of the Plan tab."""
        return answer(self._start(params), params)

    def _start(self, params: Params) -> PlanStart:
        """What the Plan tab starts with, or the made-up tree that a request describes."""
        fans = _fans(params.get("fans", ""))
        made_up = bool(fans or params.get("conversions"))
        key = (*fans, whole_number(params, "conversions", CONVERSIONS, 14)) if made_up else ()
        with self._lock:
            if key not in self._starts:
                if len(self._starts) > KEPT:
                    self._starts.clear()
                self._starts[key] = made_up_start(fans or FANS, key[-1]) if key else self.start(self.store)
            return self._starts[key]


def _fans(text: str) -> tuple[int, ...]:
    """Children per node, top to bottom, as in 12x20x14."""
    parts = [part.strip() for part in text.replace("×", "x").replace(",", "x").split("x")] if text else []
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        raise InputError(f"children per node are whole numbers, top to bottom, as in 12 × 20 × 14; got {text[:40]!r}")
    fans = tuple(map(int, parts))
    if any(fan > MOST_NODES for fan in fans):
        raise InputError(f"a made-up tree has at most {MOST_NODES:,} nodes; got {text[:40]}")
    return fans

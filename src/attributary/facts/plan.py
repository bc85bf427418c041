"""Plan facts: a table of levels and what to say of errors, bounds, limits, noise, privacy and prior, in sentences."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from attributary.budget import METHODS, Expected
from attributary.facts.numerals import (
    NOTHING,
    Line,
    Numeral,
    Table,
    change,
    few,
    listed,
    many,
    number,
    percent,
    short,
    span,
)
from attributary.plan import MeasurePlan, Plan, expected
from attributary.plan.bounds import ENOUGH
from attributary.plan.errors import Compared, LevelErrors, TargetError
from attributary.prior import Prior, foreseen
from attributary.prior.earlier import Profile
from attributary.spec.measure import EQUAL, Target
from attributary.tree import Tree
from attributary.types import Floats

LOST = 0.1  # a part of the conversions that is worth a warning
CLASSES = 50  # contributions that the filter data of an impression can tell apart
COUNTED = "Conversions of an impression that count"
REVEALS = "the plan reveals a little about these counts: keep it as confidential as they are"
SUMMED = "not measured: summed from the levels below"
WITH_PRIOR = "these errors assume `denoise --prior`"
WHOSE = {None: "expected error", True: "expected error, with prior", "split": "expected error, unbiased"}


class LevelFact(NamedTuple):
    """What a level, or all of them, gets of the budget, and the error to expect of it beside what others would have."""

    level: str
    nodes: Numeral
    share: Numeral  # the median of the roots or nodes that have their own, and the range
    contribution: Numeral  # where roots differ, that of a new one
    epsilon: Numeral
    expected: Numeral
    equal: Numeral
    change: Numeral
    leaves: Numeral
    zeros: Numeral
    median: Numeral
    worst: str
    errors: Compared


def level_facts(plan: Plan) -> list[LevelFact]:
    """A fact for each level of a plan of one measure, top to bottom, and one for all."""
    contributions, budget = plan.by_level
    facts = []
    for i, level in enumerate(plan.expected.levels):
        own = plan.default[i] if plan.roots else None
        contribution = span(contributions[i], _key) if own is None else _key(own)
        epsilon = plan.epsilon()[i]
        gets = (span(contributions[i] / budget, percent), contribution, Numeral(number(epsilon), epsilon))
        median = percent(np.nan if level.median is None else level.median)
        nodes = Numeral(f"{level.nodes:,}", level.nodes)
        facts.append(LevelFact(level.level, nodes, *gets, *_errors(level.error), median, _worst(level), level.error))
    spent = np.sum(contributions, axis=0) if plan.nodes is None else np.array([plan.spec.budget])
    whole = _key(sum(plan.default)) if plan.roots else span(spent, _key)
    loss, number_of, tree = plan.privacy_loss.conversion, sum(e.nodes for e in plan.expected.levels), plan.expected.tree
    gets = (span(spent / budget, percent), whole, Numeral(number(loss), loss))
    nodes = Numeral(f"{number_of:,}", number_of)
    return [*facts, LevelFact("all", nodes, *gets, *_errors(tree), percent(np.nan), NOTHING, tree)]


def heads(plan: Plan, columns: Sequence[str]) -> list[str]:
    """What columns of `level_facts` are called; the errors' head says whose they are."""
    by_root = bool(plan.roots)
    called = {
        "nodes": "rows",
        "share": f"share of a {plan.spec.split_by}" if by_root else "share",
        "contribution": "contribution if new" if by_root else "contribution",
        "epsilon": "ε",
        "expected": WHOSE[plan.learn],
        "equal": "equal split",
        "change": "vs. equal",
        "zeros": "all zeros",
        "median": "median error",
        "worst": "worst",
    }
    return [called.get(name, name) for name in columns]


def table(plan: Plan, caption: str = "") -> Table:
    """What terminal and notebook show of `level_facts`; zeros only where a prior tells."""
    facts = level_facts(plan)
    columns = ["level", "nodes", "share", "contribution", "expected", "equal", "change", "leaves"]
    columns += ["zeros"] * (facts[-1].errors.zeros is not None)
    return Table(caption, heads(plan, columns), [[getattr(fact, name) for name in columns] for fact in facts], 4)


def _errors(error: Compared) -> tuple[Numeral, Numeral, Numeral, Numeral, Numeral]:
    zeros = percent(np.nan if error.zeros is None else error.zeros)
    return percent(error.plan), percent(error.equal), change(error.plan, error.equal), percent(error.leaves), zeros


def _key(contribution: float) -> Numeral:
    """A contribution; a level without one has no key."""
    return Numeral(f"{contribution:,.0f}" if contribution else "not measured", contribution)


def _worst(level: LevelErrors) -> str:
    """The worst node in words: its name and count, if the prior knows any, and its error."""
    if level.worst is None or level.nodes < 2:
        return NOTHING
    error = percent(level.worst.error)
    return f"{level.worst.name} ({level.worst.count:,.4g}): {error}" if level.names else error


def nodes_in_words(level: LevelErrors, unit: str = "conversions") -> str:
    """A level's nodes: "median 0.4%; DE 0.3%, FR 0.4%; worst: missing, 26 conversions, 27.0%"."""
    if level.median is None or level.worst is None or level.nodes < 2:
        return ""
    parts, worst = [f"median {percent(level.median)}"], f"worst {percent(level.worst.error)}"
    if level.names:
        named = [f"{node.name} {percent(node.error)}" for node in level.largest if node != level.worst]
        parts += [", ".join(named)] if named else []
        worst = f"worst: {level.worst.name}, {level.worst.count:,.4g} {unit}, {percent(level.worst.error)}"
    return "; ".join([*parts, worst])


def level_lines(part: MeasurePlan) -> list[Line]:
    """Of each level: what its nodes are off by, what has no key, and where answering 0 everywhere would be better."""
    contributions, _ = part.plan.by_level
    unit = "conversions" if part.measure.is_count else part.measure.unit or f"of {part.measure.name}"
    lines = []
    for level, contribution in zip(part.plan.expected.levels, contributions, strict=True):
        error = level.error
        if not contribution.any() and np.isfinite(error.plan):
            lines.append(Line(level.level, f"{SUMMED}; expected error {percent(error.plan)}"))
        if words := nodes_in_words(level, unit):
            lines.append(Line(level.level, words))
        if error.zeros is not None and error.plan > error.zeros:
            beside = f"an error of {percent(error.zeros)}, less than the {percent(error.plan)} expected of the plan"
            lines.append(Line(level.level, f"answering 0 everywhere would have {beside}", True))
    return lines


def limit_tables(plan: Plan) -> dict[str, Table]:
    """What each limit that the plan chose would mean elsewhere, by what it limits."""
    units, tables = {measure.name: measure.unit for measure in plan.spec.values}, {}
    for name, trades in (plan.tradeoff or {}).items():
        unit = f", in {units[name]}" if units.get(name) else ""
        caption = f"Where {name} is clipped{unit}" if name in units else COUNTED
        rows = [
            [
                limit_words(t.limit),
                *map(percent, (t.error, t.bias, t.noise)),
                "" if t.chosen == 0 else "chosen" if t.chosen == 1 else f"chosen for {percent(t.chosen)}",
            ]
            for t in trades
        ]
        tables[name] = Table(caption, ("limit", "expected error", "cut off", "noise", "chosen"), rows)
    return tables


def limit_words(limit: float) -> str:
    return number(float(f"{limit:.4g}"))


def title(plan: Plan) -> str:
    spec, nodes = plan.spec, sum(level.nodes for level in plan.expected.levels)
    each = f", one for each {spec.split_by}" if spec.split_by else ""
    uses = {None: "", True: ", for estimates that use the prior", "split": ", for non-negative estimates"}[plan.learn]
    split = f"epsilon = {spec.epsilon:g}, {plan.method} split{each}{uses}"
    return f"{many(nodes, 'row')} in {many(len(plan.levels), 'level')}; {split}"


def about(plan: Plan, part: MeasurePlan) -> str:
    """A measure's part of the budget, where it is clipped, and what a conversion brings."""
    share = span(plan.part_of(part), percent)
    unit = f" in {part.measure.unit}" if part.measure.unit else ""
    clip = "" if part.measure.is_count else f", clipped at {part.clip:,.6g}"
    mean = part.share.mean
    brings = f"; a conversion of the prior brings {mean:,.4g} on average" if mean is not None else ""
    return f"{part.measure.name}{unit}{clip}: {share} of the budget{brings}"


def together(plan: Plan) -> str:
    error = plan.expected.tree
    return (
        f"all measures together, root mean square by weight: {percent(error.plan)}; equal split: "
        f"{percent(error.equal)} ({change(error.plan, error.equal)})"
    )


def split_words(plan: Plan) -> str:
    each = f", one split per {plan.spec.split_by}" if plan.spec.split_by else ""
    return f"{METHODS[plan.method].words if plan.method in METHODS else plan.method}{each}"


# An earlier plan beside today's


class RootChange(NamedTuple):
    """What a plan changes for a root: contributions by level and the expected error of its own tree, before and now."""

    measure: str
    root: str | None  # None: roots that have no split of their own
    state: Literal["", "new", "gone"]  # whether it has a split of its own in one of both plans only
    contributions: tuple[tuple[int, int], ...]
    error: tuple[float, float]  # nan where the root is not in the tree

    @property
    def moved(self) -> int:
        return max(abs(now - before) for before, now in self.contributions)

    def cells(self, default: str) -> list[str]:
        """The root, or what those without a split are called, and what changes for it."""
        error = "" if np.isnan(self.error).all() else " → ".join(map(percent, self.error))
        moves = [f"{before:,} → {now:,}" if before != now else f"{now:,}" for before, now in self.contributions]
        name = default if self.root is None else short(self.root)
        return [f"{name} ({self.state})" if self.state else name, *moves, error]


class Earlier(NamedTuple):
    """An earlier plan beside today's: its errors, by measure, on today's tree and prior, and what changes for roots."""

    path: str
    errors: dict[str, Expected]
    weights: list[float]
    changes: list[RootChange]  # the largest first

    @classmethod
    def of(cls, path: str, earlier: Plan, plan: Plan, tree: Tree, prior: Prior, profile: Profile | None) -> Self:
        """Judged as today's plan is."""
        known = foreseen(tree, prior, tau=plan.spec.tau) if plan.learn is True else None
        before, now = (
            {
                (name := part.measure.name): expected(
                    each, tree, prior, known, profile=profile, measure=name, tau=part.tau
                )
                for part in plan.by_measure
            }
            for each in (earlier, plan)
        )
        changes: list[RootChange] = []
        for part in plan.by_measure if earlier.nodes is None and plan.nodes is None else ():
            name = part.measure.name
            changes += _root_changes(earlier.of_measure(name).plan, part, tree, (before[name], now[name]))
        return cls(path, before, [measure.weight for measure in plan.spec.asked], changes)

    def beside(self, plan: Plan, measure: str) -> list[list[str]]:
        """Two more cells for each row of `table`: the earlier plan's error, and the change against it."""
        errors, last = plan.expected, self.errors[measure]
        each = [*((e.error.plan, x) for e, x in zip(errors.levels, last.levels.tolist(), strict=True))]
        return [[percent(x), change(ours, x)] for ours, x in [*each, (errors.tree.plan, last.tree)]]

    @property
    def lines(self) -> list[Line]:
        """Which plan it is, and which roots have a split of their own now, or no longer."""
        lines = [Line("errors", f"last plan: {self.path}, as if it were used again, on this tree and prior")]
        for state, what in (("new", "new, with a split of their own"), ("gone", "gone, with the split of new ones")):
            roots = dict.fromkeys(short(change.root or "") for change in self.changes if change.state == state)
            lines += [Line("last plan", f"{len(roots):,} {what}: {listed(few(list(roots)))}")] if roots else []
        return lines

    def together(self) -> tuple[list[float], float, float]:
        """Errors of the levels, of the tree, and the median of the roots; of measures, root mean squares by weight."""

        def mean(each: list[Any]) -> Any:
            return np.sqrt(np.average(np.square(each), axis=0, weights=self.weights))

        errors = list(self.errors.values())
        roots = mean([np.nanmedian(e.roots) for e in errors])
        return mean([e.levels for e in errors]).tolist(), float(mean([e.tree for e in errors])), float(roots)


def _root_changes(earlier: Plan, part: MeasurePlan, tree: Tree, errors: tuple[Expected, Expected]) -> list[RootChange]:
    """What changes for roots without a split of their own, then for each root with one: the largest change first."""
    old, new = earlier.roots, part.plan.roots
    heads = tree.labels[0].cast("string").to_pylist() if tree.labels and not tree.total else []
    of_head = dict(zip(heads, zip(*(each.roots.tolist() for each in errors), strict=True), strict=False))
    of_head |= {} if old or new else {None: (errors[0].tree, errors[1].tree)}
    found = []
    for root in (None, *dict.fromkeys([*new, *old])):
        before, now = (
            each.get(root or "", default) for each, default in ((old, earlier.default), (new, part.plan.default))
        )
        state: Literal["", "new", "gone"] = "" if (root in old) == (root in new) else "new" if root in new else "gone"
        moves = tuple(zip(before, now, strict=True))
        found.append(RootChange(part.measure.name, root, state, moves, of_head.get(root, (np.nan, np.nan))))
    return sorted(found, key=lambda each: (each.root is not None, -each.moved))


# Lines


def error_lines(plan: Plan) -> list[Line]:
    """What the errors are, and how they are to be read."""
    spec, roots = plan.spec, plan.expected.roots
    by = "weighted by prior count, " if spec.weights == "counts" else ""
    pooled = "all roots together" if len(plan.roots) > 1 else "all nodes of a level together"
    cut = f"what {limits_of(plan)} cut off included, " if spec.has_limits else ""
    what = "sum" if spec.values else "count"
    taus = [f"{part.tau:,.4g}{f' for {part.measure.name}' * (len(plan.measures) > 1)}" for part in plan.by_measure]
    texts = [
        f"after denoising, root mean square, {cut}{by}{pooled}; relative to the {what}, or to tau = "
        f"{', '.join(taus)} if that is larger",
        "a split gives up accuracy at some levels to gain more at others: compare the last row",
    ]
    if plan.learn:
        split = "of unbiased estimates; the split is for non-negative ones, whose errors are smaller"
        texts += [WITH_PRIOR if plan.learn is True else split]
    if plan.roots and not spec.total:
        texts += [
            f"median error within a {spec.split_by}: {percent(roots.plan)} (each {spec.split_by} has its own split; "
            f"equal split: {percent(roots.equal)})"
        ]
    return [Line("errors", text) for text in texts]


def limit_lines(plan: Plan) -> list[Line]:
    """How many conversions count, and what limits cut off, as far as the prior tells."""
    lines = []
    if plan.spec.has_limits:
        most = np.array([plan.most(), *map(plan.most, plan.roots)])
        if most.max() > 1:
            count = span(most, lambda x: f"{x:g}")
            lines += [Line("limit", f"the first {count} conversions of an impression count")]
    if cut := cut_off(plan):
        lines += [Line("limit", f"judging by the prior, {limits_of(plan)} cut off {listed(cut)}")]
    unknown = [share.name for share in plan.measures if not share.bias_known]
    if unknown:
        what = f"how much of {', '.join(unknown)} the {limits_of(plan)} cut off"
        text = f"the prior does not show {what}; errors leave it out"
        lines += [Line("note", text, True)]
    return lines


def limits_of(plan: Plan) -> str:
    """What cuts something off: the spec's limits, or budgets of devices."""
    return (
        "limits" if plan.spec.paid is None else "clips and used-up budgets" if plan.spec.values else "used-up budgets"
    )


def cut_off(plan: Plan) -> list[str]:
    """What limits leave out of each measure, by the prior: "26.4 % of conversions"; nothing where that is unknown."""
    named = ((part.measure.called, part.share.cut_off) for part in plan.by_measure)
    return [f"{percent(part)} of {name}" for name, part in named if part]


def keeps_bounds(plan: Plan) -> bool | None:
    """Whether every level keeps to the guard, and targets are met; None where nothing was asked for."""
    spec = plan.spec
    if not np.isfinite(spec.guard_factor) and not spec.targets:
        return None
    return _above_guard(plan) is None and all(_met(target) for target in plan.targets or ())


def _above_guard(plan: Plan) -> tuple[str, float] | None:
    """The level that is furthest above the guard, and by how many times it is above its error under an equal split."""
    levels = [level for part in plan.by_measure for level in part.plan.expected.levels]
    times = {level.level: level.error.plan / level.error.equal for level in levels if level.error.equal > 0}
    worst = max(times, key=times.__getitem__, default="")
    return (worst, times[worst]) if worst and times[worst] > plan.spec.guard_factor * (1 + ENOUGH) else None


def _met(target: TargetError) -> bool:
    return target.error <= target.most * (1 + ENOUGH) or not target.nodes


def _targets(plan: Plan) -> Iterator[tuple[Target, TargetError]]:
    """The targets of each measure, with what to expect of them."""
    for part in plan.by_measure:
        mine = [t for t in plan.spec.targets if t.name in (*plan.levels, part.measure.name)]
        yield from zip(mine, (t for t in plan.targets or () if t.measure == part.measure.name), strict=False)


def bound_lines(plan: Plan) -> list[Line]:
    """Whether targets are met, for how many nodes, and what they and the guard cost on the average."""
    spec, lines = plan.spec, []
    for target, found in _targets(plan):
        asked, within, most = f"within {percent(found.most)}", "within it", ""
        if target.half_width is not None:
            asked = f"half the 95\u00a0% interval {asked}, for counts of tau or more"
        elif target.error == EQUAL:
            asked, within, most = "no worse than an equal split", "no worse", f" (equal split: {percent(found.most)})"
        met = "met" if _met(found) else "missed"
        of = f" of {found.measure}" * (len(plan.measures) > 1 and found.name != found.measure)
        nodes = f"{found.within:,} of {found.nodes:,} rows {within}"
        words = f"{found.name}{of} {asked}: {met}; root mean square {percent(found.error)}{most}; {nodes}"
        lines.append(Line("target", words, met == "missed"))
    names = [*(["guard"] if np.isfinite(spec.guard_factor) else []), *(["targets"] if spec.targets else [])]
    if not names or not METHODS[plan.method].bounded:
        note = Line("note", f"method {plan.method} ignores targets; optimal keeps to them", True)
        return [*lines, note] if spec.targets else []
    error, rule = plan.expected.tree.plan, f"no level above {spec.guard_factor:g} times its error under an equal split"
    cost = "cost nothing here: the best split keeps to them" if len(names) > 1 else "costs nothing here"
    if plan.unbounded is not None:
        instead = f"{percent(plan.unbounded)} ({change(error, plan.unbounded)})"
        cost = f"cost: {percent(error)} over all levels instead of {instead}"
    above = _above_guard(plan) if "guard" in names else None
    if above is not None and not np.isfinite(above[1]):
        return [*lines, Line("guard", f"{above[0]} is not measured, and told by no other level", True)]
    if above is not None:
        asked = f"above the {spec.guard_factor:g} that the guard allows; whole-number contributions come no closer"
        times = f"{above[0]} has {above[1]:.3g} times its error under an equal split"
        return [*lines, Line("guard", f"{times}, {asked}", True)]
    return [*lines, Line(" and ".join(names), f"{f'{rule}; ' if 'guard' in names else ''}{cost}")]


def privacy_lines(plan: Plan) -> list[Line]:
    spec, texts = plan.spec, plan.privacy_words.all_lines
    if spec.noise_model.account:
        texts += [f"with {', '.join(f'{name} = {x:.4g}' for name, x in spec.noise_model.account.items())}"]
        texts += [f"sigma{part}" for part in _sigmas(plan)]
    noise = [spec.noise_model.words[0]]
    noise += [plan.other_noise.words(plan.expected.tree.plan)] if plan.other_noise else []
    return [*(Line("noise", text) for text in noise), *(Line("privacy", text) for text in texts)]


def _sigmas(plan: Plan) -> list[str]:
    """The standard deviation of the noise of each level, for whoever adds it; of the default split."""
    spec, lines = plan.spec, []
    for part in plan.by_measure:
        budget = np.array(part.plan.default) * spec.epsilon / spec.l1
        sigma = zip(plan.levels, np.sqrt(spec.noise_model.variance(budget)) * part.clip, strict=True)
        of = f" of {part.measure.name}" * (len(plan.measures) > 1)
        lines.append(f"{of}: {', '.join(f'{x:.4g} ({level})' for level, x in sigma if np.isfinite(x))}")
    return lines


def prior_lines(plan: Plan, tree: Tree, prior: Prior, path: str | None) -> list[Line]:
    """What the plan was made of, and what of it is not in the tree."""
    note, spec = plan.prior, plan.spec
    if not note.history:
        none = "none; the plan follows the tree's structure, as if no row had more than tau conversions"
        return [Line("prior", none)]
    few = batch_lines(plan, tree, prior.mean, "by the prior")
    several = f"{prior.source}, " if prior.source else ""
    average = " in an average period" * bool(several)
    told = f"{path}, {several}{note.conversions or 0:,.0f} conversions{average}, protected"
    hidden = f"{path}, {several}NOT protected: {REVEALS}"
    lines = [Line("prior", told if note.protected else hidden, not note.protected)]
    new = int(prior.new_roots(tree).sum()) if spec.split_by else 0
    if note.new:
        takes = f"; {new:,} of them are values of {spec.split_by} and take the default split" if new else ""
        lines += [Line("prior", f"{note.new:,} rows are new since then{takes}")]
    if note.gone:
        much = bool(prior.lost > LOST * (prior.mean * tree.number)[tree.parent < 0].sum())
        part = f", with {note.lost:,.0f} conversions," if note.lost is not None else ", with many conversions," * much
        gone = f"{note.gone:,} of its leaves{part} are not in the tree"
        lines += [Line("prior", f"{gone} and left out; the first is {prior.example}", much)]
    return [*lines, *few]


def batch_lines(plan: Plan, tree: Tree, count: Floats, whose: str) -> list[Line]:
    """Levels with batches that have too few reports to be answered, as far as conversions with an impression tell.

    `count` are the conversions of each node, in the tree's order, and `whose` says where they were counted.
    """
    spec, lines, unknown = plan.spec, list[Line](), [attribute.name for attribute in plan.spec.unknown]
    least = None if spec.api is None else spec.api.least_batch
    if not least or not count.any():
        return lines
    levels = {spec.held(i)[1]: i for i, part in enumerate(plan.default) if part}  # the last that has these batches
    numbers = tree.numbered(unknown)
    for names, i in ((unknown[:held], i) for held, i in levels.items() if held):
        batches = np.bincount(numbers[i], tree.to_level_order(count)[tree.slice(i)])
        few = batches < least
        if few.any():
            part = percent(float(batches[few].sum() / max(batches.sum(), 1)))
            number = f"{int(few.sum()):,} of {len(batches):,} by {listed(names)}"
            text = f"{number} have fewer than {least} reports {whose}, with "
            remedy = f"services answer none of them: coarser values of {names[-1]} or a longer period help"
            lines.append(Line("batches", f"{text}{part} of the conversions; {remedy}", True))
    return lines


def note_lines(plan: Plan) -> list[Line]:
    texts = list(plan.spec.notes)
    classes = len({(plan.most(x), *(share.roots[x] for share in plan.measures)) for x in plan.roots})
    if plan.nodes is not None or classes > CLASSES:
        many = f"{classes:,} different splits" if plan.nodes is None else "contributions by row"
        texts += [f"{many}: the filter data of an impression can distinguish at most {CLASSES}"]
    unmeasured = [e.level for e in plan.expected.levels if not np.isfinite(e.error.plan)]
    if unmeasured:
        texts += [f"{', '.join(unmeasured)} cannot be estimated with this plan; give it a share, or --keep it"]
    return [Line("note", text, True) for text in texts]

"""ledgers: what browsers report of the conversions in logs, and what they do not since budgets run out.

A device has three ledgers for each epoch: of a conversion site, of all sites together, and of each impression site. A
report is charged to every epoch that has an impression it matches; epochs that cannot pay are left out, the credit goes
to the last of the other views, and where none is left the report is empty. Epochs begin at an hour of their own on each
device. Other callers on the site are taken to come first.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy import format_float_positional
from numpy.typing import NDArray

from attributary.api.w3c.attribution_options import AttributionError, ConversionOptions, charged, deduction, parse_site
from attributary.api.w3c.index_layout import kinds_of
from attributary.api.w3c.schemes import STEPS, ReportKind, lookback_days, one_conversion, scheme_of, section_of
from attributary.errors import InputError
from attributary.kernel import kernel
from attributary.logs.counts import FATES
from attributary.logs.devices import SITE, DeviceRules, Devices, LevelLoss, Reported, SiteColumns
from attributary.logs.labels import number_rows
from attributary.plan import Plan
from attributary.spec import Spec
from attributary.spec.measure import AT, BEYOND, MICRO, OF
from attributary.types import Arrow, Bools, Floats, Ints

LEDGERS = ("the conversion site", "all sites together", "the impression site")
GLOBAL, OF_IMPRESSIONS = 8, 4  # times the site's budget, as in the specification's test cases; it states no budgets
SECOND, HOUR, DAY, EPOCH = 10**6, 3600 * 10**6, 86_400 * 10**6, 7  # microseconds; an epoch has 7 days
LIMITS = (1, 2, 3, 4, 6, 8, 12, 16)  # conversions per epoch that are tried
ENDLESS = 2**62  # µε


class Budgets(NamedTuple):
    """µε of one epoch, for a conversion site, for all sites together, and for an impression site."""

    site: int
    everyone: int
    impressions: int


def budgets_of(spec: Spec) -> Budgets:
    """What is left of a browser's budgets when others on the site have used theirs."""
    section = section_of(spec)
    site = round(section.site_epsilon * MICRO)
    of_all = section.global_epsilon or GLOBAL * section.site_epsilon
    quota = section.impression_epsilon or OF_IMPRESSIONS * section.site_epsilon
    impressions = ENDLESS if section.impression_site is None else round(quota * MICRO)
    return Budgets(site - round(section.others * MICRO), round(of_all * MICRO), impressions)


class Walked(NamedTuple):
    """What became of conversions, in their order."""

    kind: Ints  # by its code
    last: Ints  # view within the lookback, by its code; -1 for none
    here: Bools  # whether that is in the period
    late: int  # conversions that have older views alone, the last of them in the period
    alone: int  # conversions without any view before them
    given: NDArray[np.int32]  # (levels, conversions): the view that gets a level's credit; -1 for none
    lands: NDArray[np.int8]  # and the level that it was saved for
    why: NDArray[np.int8]  # (reports, conversions): 1 + which ledger of the newest epoch could not pay; 0 if all could
    units: NDArray[np.int16]  # (reports, conversions): the value that a report has; without values, no reports

    @property
    def reported(self) -> Bools:
        """Conversions in the period whose first level is reported."""
        reported: Bools = self.here & (self.given[0] >= 0)
        return reported

    @property
    def moved(self) -> int:
        """How many of these have their credit at an earlier view than the last."""
        return int((self.reported & (self.given[0] != self.last)).sum())

    @property
    def lost(self) -> Mapping[str, int]:
        """How many others there are, by the ledger that could not pay."""
        return _by_ledger(self.why[0][self.here & ~self.reported])

    def amounts(self, kinds: Sequence[ReportKind], level: int) -> Ints:
        """What a level's credit is of each conversion's value, in whole units that add up to the report's."""
        found = [number for number, kind in enumerate(kinds) if level in kind.levels]
        if not found:
            return np.zeros(self.units.shape[1], np.int64)
        number, kind = found[0], kinds[found[0]]
        upto = np.cumsum((0, *kind.credit))[kind.levels.index(level) :][:2]
        start = _mixed(self.units.shape[1], number + len(kinds)) % np.uint64(kind.value)
        low, high = (upto[:, None] * self.units[number].astype(np.int64) + start.astype(np.int64)) // kind.value
        part: Ints = high - low
        return part


class Browsers(DeviceRules):
    """Devices that have W3C Attribution."""

    def sites(self, spec: Spec) -> SiteColumns:
        section = section_of(spec)
        return SiteColumns(section.impression_site, section.conversion_site or section.site)

    def count(self, spec: Spec, devices: Devices) -> Reported:
        """As if one report measured all levels, for several numbers of conversions that one epoch pays for."""
        if spec.values:
            return _count_values(spec, devices)
        section, columns, by_limit = section_of(spec), dict[str, Parts](), dict[int, int]()
        for times in sorted({*LIMITS, section.conversions_per_epoch}):
            spend = one_conversion({**section.model_dump(), "conversions_per_epoch": times})
            each = walked(spec, devices, [[ReportKind("", (0,), (1,), spend, 1, 0)]], 1, 0)
            columns[f"{AT}{times}"] = [(each.given[0][each.reported], each.kind[each.reported], 1.0)]
            by_limit[times], moved = int(each.reported.sum()), each.moved
            if times == section.conversions_per_epoch:
                done = Reported(None, each.lost, moved, by_limit)
            elif times > section.conversions_per_epoch and by_limit[times] == each.here.sum() and not moved:
                break
        return done._replace(groups=_groups(devices, each, columns))

    def by_level(self, plan: Plan, devices: Devices) -> tuple[Any, tuple[LevelLoss, ...]]:
        spec, depth = plan.spec, len(plan.spec.levels)
        own_sites = section_of(spec).site is not None
        roots = devices.kinds.column(SITE).to_pylist() if own_sites else [""]
        rows = [kinds_of(plan, str(root)) for root in roots]
        scheme = scheme_of(spec)
        one_by_one = devices.seconds and scheme.atomic and not scheme.splits_by_root
        clip = plan.by_measure[0].clip
        done = walked(spec, devices, rows, depth, SECOND if one_by_one else 0, clip)
        credit, report = np.zeros((2, len(rows), depth), np.int64)
        for i, kinds in enumerate(rows):
            for number, kind in enumerate(kinds):
                credit[i, list(kind.levels)], report[i, list(kind.levels)] = kind.credit, number
        row = done.kind if own_sites else np.zeros(len(done.kind), np.int64)
        columns, losses = dict[str, Parts](), list[LevelLoss]()
        for level, name in enumerate(spec.levels):
            columns[f"{AT}{level}"] = parts = []
            for giver in range(depth):
                there = done.here & (done.given[giver] >= 0) & (done.lands[giver] == level)
                amount = done.amounts(rows[0], giver)[there] if spec.values else credit[row[there], giver]
                worth = clip * amount / credit[row[there], level]
                parts.append((done.given[giver][there], done.kind[there], worth))
            asked = done.here & (credit[row, level] > 0)
            asked &= done.units[report[row, level], np.arange(len(row))] > 0 if spec.values else True
            lost = asked & (done.given[level] < 0)
            moved = asked & ~lost & ((done.given[level] != done.last) | (done.lands[level] != level))
            why = done.why[report[row[lost], level], np.flatnonzero(lost)]
            losses += [LevelLoss(name, int(asked.sum()), _by_ledger(why), int(moved.sum()))] * bool(asked.any())
        return _groups(devices, done, columns), tuple(losses)


Parts = list[tuple[Ints, Ints, Floats | float]]  # views, kinds, and how much each pair counts


def walked(
    spec: Spec, devices: Devices, rows: Sequence[Sequence[ReportKind]], depth: int, tick: int, clip: float = 1
) -> Walked:
    """What browsers make of all conversions, whose reports are those of the only row, or of the row of their kind.

    Where conversions have values, those of `clip` or more are worth a whole report.
    """
    start, moment, code = devices.start, devices.moment, devices.code
    is_conversion = moment & 1 == 1
    kind = code[is_conversion]
    shape = len(rows), max(map(len, rows))
    units = _units(values_of(devices)[kind], clip, rows[0]) if spec.values else np.zeros((0, 0), np.int16)
    most = max(each.value for kinds in rows for each in kinds) + 1 if spec.values else 1
    cost, levels = np.full((3, *shape, most), -1, np.int64), np.full((*shape, depth + 1), -1, np.int64)
    for row, kinds in enumerate(rows):
        for number, each in enumerate(kinds):
            for unit in range(1, each.value + 1) if spec.values else [each.value]:
                cost[:, row, number, min(unit, most - 1)] = _price(each, unit)
            levels[row, number, : len(each.levels)] = each.levels
    matched = _matches(spec, devices)
    of_views = matched[: devices.views.num_rows], _codes(devices.views, SITE)
    of_kinds = matched[devices.views.num_rows :], np.maximum(_codes(devices.kinds, SITE), 0)
    row_of = np.arange(len(rows)) if len(rows) > 1 else np.zeros(devices.kinds.num_rows, np.int64)
    number = len(kind)
    last, older = np.full((2, number), -1, np.int64)
    given, lands = np.full((depth, number), -1, np.int32), np.zeros((depth, number), np.int8)
    why = np.zeros((shape[1], number), np.int8)
    time = _hours(len(start) - 1) * HOUR, lookback_days(spec) * DAY, EPOCH * DAY, tick
    walk(
        (start, moment, code), of_views, (*of_kinds, row_of), time, tuple(budgets_of(spec)), tuple(cost), units, levels,
        last, older, given, lands, why,
    )  # fmt: skip
    since, until = devices.ends
    there, before = ((moment[each] >> 1 >= since) & (moment[each] >> 1 < until) & (each >= 0) for each in (last, older))
    none = (last < 0) & (older < 0)
    late, alone = int((before & (last < 0)).sum()), int(none.sum())
    return Walked(kind, np.where(last >= 0, code[last], -1), there, late, alone, given, lands, why, units)


def _price(kind: ReportKind, value: int) -> tuple[int, int, int]:
    """µε that a report takes of a conversion site, of it if the lookback is within one epoch, and of all others."""
    options = charged(ConversionOptions("", 1, value=kind.value, max_value=kind.value), kind.micro)
    full = deduction(2 * value, options)
    return full, deduction(value, options), full


def values_of(devices: Devices) -> Ints:
    """The value of each kind of conversion, in millionths; 0 where it has none, or one below 0."""
    values: Ints = devices.kinds.column("value_0").fill_null(0).to_numpy().astype(np.int64)
    return np.maximum(values, 0)


def _units(values: Ints, clip: float, kinds: Sequence[ReportKind]) -> NDArray[np.int16]:
    """Values in whole units of each report, rounded up as often as their fraction says."""
    limit, units = round(clip * MICRO), np.zeros((len(kinds), len(values)), np.int16)
    for number, kind in enumerate(kinds):
        whole, rest = np.divmod(np.minimum(values, limit) * kind.value, limit)
        units[number] = whole + (_mixed(len(values), number) / 2.0**64 * limit < rest)
    return units


def _count_values(spec: Spec, devices: Devices) -> Reported:
    """The sums of values that are reported, for several clips where the plan is to choose one of them."""
    (measure,), columns, by_clip = spec.values, dict[str, Parts](), dict[float, float]()
    spend, values = one_conversion(section_of(spec).model_dump()), values_of(devices)
    kind = ReportKind("", (0,), (STEPS,), spend, STEPS, 0)
    clips = [measure.limit] if measure.limit is not None else _clips(values, devices)
    stands = clips[len(clips) // 2]  # for all of them, where a plan is to choose
    for clip in sorted(clips, key=lambda clip: clip == stands):
        each = walked(spec, devices, [[kind]], 1, 0, clip)
        worth = each.units[0][each.reported] * (clip / STEPS)
        parts = [(each.given[0][each.reported], each.kind[each.reported], worth)]
        columns[f"{measure.name}{OF}{format_float_positional(clip, trim='-')}"] = parts
        by_clip[clip] = float(worth.sum())
    of_all = [(each.last[each.here], each.kind[each.here], values[each.kind[each.here]] / MICRO)]
    columns |= {measure.name: parts, measure.name + BEYOND: [*of_all, *((*part[:2], -part[2]) for part in parts)]}
    columns[f"{AT}{spec.paid}"] = [(*part[:2], 1.0) for part in parts]
    groups, paid = _groups(devices, each, columns), {section_of(spec).paid: int(each.reported.sum())}
    return Reported(groups, each.lost, each.moved, paid, dict(sorted(by_clip.items())), float(of_all[0][2].sum()))


def _clips(values: Ints, devices: Devices) -> list[float]:
    """Values, of two digits, below which most or nearly all are; and twice the largest, which costs most."""
    there = np.repeat(values, devices.kinds.column("number").to_numpy())
    if not (there > 0).any():
        raise InputError("no conversion has a value above 0, to choose from where to clip; give clip = …")
    quantiles = np.quantile(there[there > 0] / MICRO, (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1))
    return sorted({float(f"{max(q, 2 / MICRO):.2g}") for q in (*quantiles, 2 * quantiles[-1])})


def _mixed(number: int, salt: int = 0) -> NDArray[np.uint64]:
    """Whole numbers below 2**64, mixed up, and always the same (SplitMix64)."""
    x = np.arange(1, number + 1, dtype=np.uint64) + np.uint64(salt << 40)
    x *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def _hours(devices: int) -> Ints:
    """The hour of the week at which epochs begin, on each device."""
    hours: Ints = (_mixed(devices) % np.uint64(24 * EPOCH)).astype(np.int64)
    return hours


def _matches(spec: Spec, devices: Devices) -> Ints:
    """A number for each view, then for each kind of conversion: views match conversions of the same number."""
    names = [name for name in devices.views.column_names if name.startswith("key_")]
    pairs = [(name, name) for name in names] + [("known_0", SITE)] * (section_of(spec).site is not None)
    columns = []
    for ours, theirs in pairs:
        texts = [*devices.views.column(ours).to_pylist(), *devices.kinds.column(theirs).to_pylist()]
        columns.append(_numbers(texts, theirs == SITE))
    return number_rows(columns, devices.views.num_rows + devices.kinds.num_rows).of_row


def _codes(table: Arrow, name: str) -> Ints:
    """A number for each site in a column; -1 where there is none, or no such column."""
    if name not in table.column_names:
        return np.full(table.num_rows, -1, np.int64)
    return _numbers(table.column(name).to_pylist(), True)


def _numbers(texts: list[Any], sites: bool) -> Ints:
    """A number for each text, -1 for none; domains are of the same site where browsers take them so."""
    distinct = dict.fromkeys(texts)
    number = {text: i for i, text in enumerate(dict.fromkeys(map(_site, distinct) if sites else distinct))}
    return np.array([-1 if text is None else number[_site(text) if sites else text] for text in texts], np.int64)


@cache
def _site(text: object) -> object:
    try:
        return parse_site(str(text))
    except AttributionError:  # a name that is no domain's
        return text


def _by_ledger(why: NDArray[np.int8]) -> Mapping[str, int]:
    each = np.bincount(why, minlength=len(LEDGERS) + 1)[1:].tolist()
    return {name: number for name, number in zip(LEDGERS, each, strict=True) if number}


def _groups(devices: Devices, done: Walked, columns: Mapping[str, Parts]) -> Arrow:
    """A table as SQL gives it of other APIs, groups of rows by fate and attributes, with what is reported."""
    width = devices.kinds.num_rows or 1
    sums = {"number": _sums(width, [(done.last[done.here], done.kind[done.here], 1.0)])}
    sums |= {name: _sums(width, parts) for name, parts in columns.items()}
    cells = np.unique(np.concatenate([cell for cell, _ in sums.values()]))
    views = np.arange(devices.views.num_rows)
    dated, undated = (devices.views.column(name).to_numpy() for name in ("dated", "not_dated"))
    seen, lost = views[dated > 0], views[undated > 0]
    fates = ["conversion"] * len(cells) + ["impression"] * len(seen) + ["undated"] * len(lost)
    rest = {"late": done.late, "unattributed": done.alone, "incomplete": devices.incomplete}
    code = {name: i for i, name in enumerate(FATES)}
    view = np.concatenate([cells // width, seen, lost, np.full(len(rest), -1)])
    kind = np.concatenate([cells % width, np.full(len(fates) - len(cells) + len(rest), -1)])
    more = np.concatenate([dated[seen], undated[lost], list(rest.values())]).astype(np.int64)
    table = {"fate": pa.array([code[name] for name in (*fates, *rest)], pa.int8())}
    for source, index in ((devices.views, view), (devices.kinds, kind)):
        at = pa.array(index, mask=index < 0)
        names = [name for name in source.column_names if name.startswith(("known_", "unknown_"))]
        table |= {name: source.column(name).take(at) for name in names}
    for name, (cell, sum_) in sums.items():
        values = np.zeros(len(view), sum_.dtype)
        values[np.searchsorted(cells, cell)] = sum_
        if name == "number":
            values[len(cells) :] = more
        table[name] = pa.array(values)
    return pa.table(table)


def _sums(width: int, parts: Parts) -> tuple[Ints, Floats]:
    """The distinct pairs of view and kind, each as one number, and what they sum to: whole, where all count 1."""
    cell = np.concatenate([view.astype(np.int64) * width + kind for view, kind, _ in parts])
    count = np.concatenate([np.broadcast_to(worth, len(view)) for view, _, worth in parts])
    grouped = pa.table({"cell": cell, "count": count}).group_by("cell").aggregate([("count", "sum")])
    sums = grouped.column("count_sum").to_numpy()
    return grouped.column("cell").to_numpy(), np.rint(sums).astype(np.int64) if (sums == np.rint(sums)).all() else sums


# The charging of ledgers, compiled: all devices in one pass, each from its first event to its last. A view is known by
# its epoch, by what it matches and by the site that saved it; of those alike, the last is enough. A device's ledgers
# are rows (epoch, key, µε left): the key of all sites together, 2·site for a conversion site, 2·site + 1 for an
# impression site.

EVERYONE = -1


@kernel(nogil=True)
def _slot(epochs, keys, left, used, epoch, key, budget):  # type: ignore[no-untyped-def]
    """Where a ledger is; behind the last one, if it has not been touched yet."""
    i = used - 1
    while i >= 0 and not (keys[i] == key and epochs[i] == epoch):
        i -= 1
    if i < 0:
        i = used
        epochs[i], keys[i], left[i] = epoch, key, budget
    return i


@kernel(nogil=True)
def _later(moment, view, other):  # type: ignore[no-untyped-def]
    """The view that gets the credit: the later one, of one moment the one that was saved first; -1 for none."""
    if view < 0 or other < 0:
        return max(view, other)
    if moment[view] == moment[other]:
        return min(view, other)
    return view if moment[view] > moment[other] else other


@kernel(nogil=True)
def _of_one_second(order, moment, code, view_match, view, first, end, match, oldest, second):  # type: ignore[no-untyped-def]
    """The views of the second that the last one is in, in the order of their priority; gives how many there are."""
    found, tick = 0, (moment[view] >> 1) // second
    i = view
    while i < end and moment[i] == moment[view]:
        if view_match[code[i]] == match:
            order[found] = i
            found += 1
        i += 1
    i = view - 1
    while i >= first and (moment[i] >> 1) // second == tick:
        if moment[i] & 1 == 0 and view_match[code[i]] == match and moment[i] >> 1 >= oldest:
            place = found
            while place > 0 and moment[order[place - 1]] == moment[i]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
            found += 1
        i -= 1
    return found


@kernel(nogil=True)
def walk(  # type: ignore[no-untyped-def]
    events, views, kinds, time, budgets, cost, units, levels, last, older, given, lands, why
):
    """Attributes and charges all conversions, in the order of their devices and times.

    `events` are start, moment and code; `views` and `kinds` what the codes match, their sites, and for kinds which row
    of costs they have. `time` is each device's beginning of an epoch, then lookback, length of an epoch, and the tick
    of priorities (0: views of one tick are told apart), in microseconds. `cost` has a row of reports for each row of
    costs: what the conversion site pays, what it pays if the lookback is within one epoch, and what all others pay; a
    report that is not made costs -1. Where conversions have values, `units` has a row for each report, and costs are by
    these; else it has none, and costs are those of the last. `levels` are those that share a report, -1 for none.
    Results, by conversion: the last view, and the last that is too old, by their places; for each level's credit the
    view that gets it, and the level that this view is saved for; by report, which ledger of the newest epoch could not
    pay.
    """
    (start, moment, code), (view_match, view_site), (kind_match, kind_site, kind_row) = events, views, kinds
    begin, lookback, period, second = time
    own, alone, shared = cost
    most = 1
    for d in range(len(start) - 1):
        most = max(most, start[d + 1] - start[d])
    own_views, found = np.empty((4, most), np.int64), np.empty((2, most), np.int64)
    epochs, matches, sites, seen = own_views[0], own_views[1], own_views[2], own_views[3]
    hits, order = found[0], found[1]
    room = most * (lookback // period + 4)
    ledgers = np.empty((3, room), np.int64)
    l_epoch, l_key, l_left = ledgers[0], ledgers[1], ledgers[2]
    c = 0
    for d in range(len(start) - 1):
        n, used = 0, 0
        for i in range(start[d], start[d + 1]):
            now = moment[i] >> 1
            epoch = (now - begin[d]) // period
            if moment[i] & 1 == 0:
                match, site = view_match[code[i]], view_site[code[i]]
                j = n - 1
                while j >= 0 and epochs[j] == epoch and not (matches[j] == match and sites[j] == site):
                    j -= 1
                if j < 0 or epochs[j] != epoch:
                    epochs[n], matches[n], sites[n], seen[n] = epoch, match, site, i
                    n += 1
                elif moment[seen[j]] != moment[i]:
                    seen[j] = i
                continue
            match, row = kind_match[code[i]], kind_row[code[i]]
            oldest = now - lookback
            first = (oldest - begin[d]) // period
            number, before, newest, j = 0, -1, -1, n - 1
            while j >= 0 and epochs[j] >= first:
                if matches[j] == match:
                    if moment[seen[j]] >> 1 >= oldest:
                        hits[number] = j
                        number += 1
                        newest = _later(moment, newest, seen[j])
                    else:
                        before = _later(moment, before, seen[j])
                j -= 1
            while number == 0 and j >= 0 and (before < 0 or epochs[j] == epochs[j + 1]):
                if matches[j] == match:
                    before = _later(moment, before, seen[j])
                j -= 1
            last[c], older[c] = newest, before
            for k in range(own.shape[1]):
                unit = units[k, c] if len(units) else own.shape[2] - 1
                if number == 0 or own[row, k, unit] < 0:
                    continue
                price, others = own[row, k, unit], shared[row, k, unit]
                if first == epoch:
                    price = alone[row, k, unit]
                view, a = -1, 0
                while a < number:  # the newest epoch first
                    of = epochs[hits[a]]
                    mine = _slot(l_epoch, l_key, l_left, used, of, 2 * kind_site[code[i]], budgets[0])
                    used = max(used, mine + 1)
                    all_ = _slot(l_epoch, l_key, l_left, used, of, EVERYONE, budgets[1])
                    used = max(used, all_ + 1)
                    lacks = 1 if price > l_left[mine] else 2 if others > l_left[all_] else 0
                    b, best = a, -1
                    while b < number and epochs[hits[b]] == of:
                        if sites[hits[b]] >= 0:
                            quota = _slot(l_epoch, l_key, l_left, used, of, 2 * sites[hits[b]] + 1, budgets[2])
                            used = max(used, quota + 1)
                            if lacks == 0 and others > l_left[quota]:
                                lacks = 3
                        best = _later(moment, best, seen[hits[b]])
                        b += 1
                    if lacks == 0:
                        l_left[mine] -= price
                        l_left[all_] -= others
                        for e in range(a, b):
                            if sites[hits[e]] >= 0:
                                key = 2 * sites[hits[e]] + 1
                                l_left[_slot(l_epoch, l_key, l_left, used, of, key, budgets[2])] -= others
                        view = _later(moment, view, best)
                    elif a == 0:
                        why[k, c] = lacks
                    a = b
                if view < 0:
                    continue
                width = 0
                while width < levels.shape[2] and levels[row, k, width] >= 0:
                    width += 1
                order[0], together = view, 1
                if width > 1 and second > 0:
                    together = _of_one_second(order, moment, code, view_match, view, start[d], i, match, oldest, second)
                for x in range(width):
                    given[levels[row, k, x], c] = code[order[x % together]]
                    lands[levels[row, k, x], c] = levels[row, k, x // together]
            c += 1

"""The charging of ledgers, compiled: all devices in one pass, each from its first event to its last.

A view is known by its epoch, by what it matches and by the site that saved it; of those alike, the last is enough. A
device's ledgers are rows (epoch, key, µε left), where the key is -1 for all sites together, 2·site for a conversion
site and 2·site + 1 for an impression site.
"""

import numpy as np

from attributary.kernel import kernel

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

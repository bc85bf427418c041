"""What logs are counted as is what browsers in memory report, device by device, also when their budgets run out."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attributary import Spec, api, make_plan, rmsre
from attributary.api.w3c import page_calls
from attributary.api.w3c.attribution_options import DAY
from attributary.api.w3c.index_layout import kinds_of
from attributary.api.w3c.ledgers import _hours, _mixed, budgets_of, walked
from attributary.api.w3c.page_calls import W3cClients
from attributary.api.w3c.schemes import STEPS, ReportKind
from attributary.browsers import UserAgent, UserAgentSettings
from attributary.logs.count import count
from attributary.logs.devices import Devices
from attributary.pipeline.run import run
from support.effort import first_of

BEGIN = 1_790_000_000
DAYS = ("mon", "tue")
SHOPS = ("one.example", "two.example", "three.example")
PAGES = ("news.example", "mail.example", "play.example")


CLIP = 80.0


def amount(rng: Random) -> float | None:
    """What a sale is worth: often more than the clip, sometimes nothing, or next to nothing."""
    return rng.choice(
        [None, 0.0, -5.0, 0.1, 12.34, CLIP, 1000.0, *(round(rng.expovariate(1 / 150), 2) for _ in range(9))]
    )


class Case:
    """A spec, and random devices that see ads and convert; times are whole seconds, and some are alike."""

    def __init__(self, name: str, devices: int = 1250, seed: int = 0) -> None:
        scheme, *wishes = name.split()
        self.wishes, rng = set(wishes), Random(f"{name} {seed}")
        section: dict[str, Any] = {"kind": "w3c", "site_epsilon": 1.1, "conversions_per_epoch": 2, "scheme": scheme}
        section |= {"conversion_site": "shop"} if self.wishes & {"shops", "own"} else {}
        section |= {"conversion_site": "brand"} if "brands" in wishes else {}
        section |= {"impression_site": "page"} if "pages" in wishes else {}
        section |= {"global_epsilon": 1.9, "impression_epsilon": 1.7} if "tight" in wishes else {}
        section |= {"others": 0.3} if "others" in wishes else {}
        section |= {"site": "campaign"} if "own" in wishes else {}
        attributes: list[dict[str, Any]] = [{"name": "campaign"}, {"name": "place"}]
        place = 0 if "above" in wishes else 1 if "between" in wishes else 2
        attributes[place:place] = [{"name": "day", "unknown": True, "domain": list(DAYS)}] * ("day" in wishes)
        logs = {"impressions": "impressions.parquet", "conversions": "conversions.parquet", "user": "user"}
        logs |= {"time": "time", "window": "3d" if "short" in wishes else "30d"}
        logs |= {"keys": ["brand"]} if "brands" in wishes else {}
        values = {"measure": [{"name": "revenue", "clip": CLIP}]} if "value" in wishes else {}
        split = {"split_by": "campaign"} if "own" in wishes or "split" in wishes else {}
        self.spec = Spec(api=section, attribute=attributes, logs=logs, tau=10, **split, **values)
        self.views, self.sales, worth = [], [], Random(f"{name} {seed} worth")
        for device in range(devices):
            spread = rng.choice([30, 5000, 4 * DAY, 12 * DAY])
            start = BEGIN + rng.randrange(60 * DAY)
            for _ in range(rng.randrange(1, 7)):
                at, campaign = start + rng.randrange(spread) // 7 * 7, rng.choice(SHOPS)
                view = (device, at, campaign, rng.choice("xyz"), rng.choice(PAGES), rng.choice("pq"))
                self.views += [view] * (1 + (rng.random() < 0.1))
            for _ in range(rng.choice([1, 1, 2, 3, 5, 8])):
                at = start + rng.randrange(2 * spread) + rng.choice([0, 0, 7 * DAY, 30 * DAY])
                self.sales.append((device, at, rng.choice(DAYS), rng.choice(SHOPS), rng.choice("pq"), amount(worth)))

    def write(self, folder: Path) -> None:
        for name, rows, columns in (
            ("impressions", self.views, ("user", "time", "campaign", "place", "page", "brand")),
            ("conversions", self.sales, ("user", "time", "day", "shop", "brand", "revenue")),
        ):
            table = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
            pq.write_table(table, folder / f"{name}.parquet")


CASES = [
    "B day above pages", "A", "B", "C", "A day", "B day pages", "C day split", "A others pages tight",
    "B shops pages tight", "A day above", "B day between shops", "A day between short", "B own day between",
    "C shops", "A own day", "B own day", "B short", "A short day shops tight pages", "B brands", "C brands short day",
    "B value", "B value day pages", "B value others shops pages tight", "B value brands day",
    "B value day above", "B value day between pages",
]  # fmt: skip
EXHAUSTED = dict[str, tuple[int, int]]()


@pytest.mark.parametrize("name", first_of(CASES))
def test_the_pass_is_the_user_agent_device_by_device(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(name, devices=900)
    case.write(tmp_path)
    counts = count(case.spec, str(tmp_path))
    tree = case.spec.tree(counts.table)
    fixed = {"campaign": 0.3, "place": 0.2} if "day" in case.wishes else {"campaign": 0.35}
    plan = make_plan(case.spec, tree, share=None if "split" in case.wishes or "own" in case.wishes else fixed)
    clients = api.clients(plan)
    assert isinstance(clients, W3cClients)
    clients = clients.with_tree(tree, start=BEGIN)
    if "value" in case.wishes:
        kinds = {f"revenue {kind.name}": _mixed(len(case.sales), i) for i, kind in enumerate(kinds_of(clients.plan))}
        monkeypatch.setattr(page_calls, "draw", lambda measure, number: int(kinds[measure][number]))
    told, whole, exhausted, devices = browse(case, clients)
    EXHAUSTED[name] = exhausted, devices
    assert counts.devices is not None
    found = by_conversion(case, clients, counts.devices)
    assert len(told) == len(found) > 1000
    for conversion in told:
        if "value" in case.wishes:
            assert_alike(told[conversion], found[conversion])
        else:
            assert found[conversion] == told[conversion], conversion
    if "short" not in case.wishes:  # where one report stands for all of them
        assert ("value" in case.wishes and "day" in case.wishes) or counts.conversions == whole
    if "value" in case.wishes and not case.wishes & {"day", "short"}:
        units = sum(part for report in told.values() for _, _, part in report)
        assert sum(counts.table.column("revenue").to_pylist()) == pytest.approx(units * CLIP / STEPS)


def assert_alike(told: "Report", found: "Report") -> None:
    """Whether reports have the same sum at the same indexes, each its credit's part, rounded up or down at random."""
    for kind in {kind for kind, _, _ in (*told, *found)}:
        theirs, ours = (Counter[int]() for _ in range(2))
        for counter, report in ((theirs, told), (ours, found)):
            for name, index, part in report:
                counter[index] += part * (name == kind)
        assert theirs.total() == ours.total()
        most = 2  # two levels may land at the same index
        assert all(abs(theirs[i] - ours[i]) <= most for i in {*theirs, *ours}), (told, found)


def test_enough_devices_run_out_of_budget() -> None:
    exhausted, devices = np.sum(list(EXHAUSTED.values()) or [[0, 0]], axis=0)
    if len(EXHAUSTED) == len(CASES):
        assert devices >= 10_000
        assert exhausted >= 0.3 * devices


Report = tuple[tuple[str, str, int], ...]  # task, path and amount of each index that is not 0


def browse(case: Case, clients: W3cClients) -> tuple[dict[Any, Report], int, int, int]:
    """What conversions' reports hold, by device, time and kind; how many say something; how many devices ran out."""
    spec, layout = case.spec, clients.plan.layout
    assert layout is not None
    budgets = budgets_of(spec)
    settings = UserAgentSettings(
        site_budget=budgets.site,
        global_budget=budgets.everyone,
        impression_site_quota=budgets.impressions,
        histogram_size=1000,
        conversion_sites=1000,
        activation_seconds=None,
    )
    events: dict[int, list[Any]] = {}
    for view in sorted(case.views, key=lambda v: (v[1], v[2:4], v[5], v[4])):
        events.setdefault(view[0], []).append((view[1], 0, view))
    buyers = sorted({sale[0] for sale in case.sales}, key=lambda user: user)
    order = {user: i for i, user in enumerate(buyers)}
    for sale in case.sales:
        events.setdefault(sale[0], []).append((sale[1], 1, sale))
    told: dict[Any, Report] = {}
    whole, exhausted, hours, number = 0, 0, _hours(len(buyers)), 0
    for user in buyers:
        agent = UserAgent(settings, Random(0))
        agent._epoch_start = float(hours[order[user]] * 3600)
        mine = sorted(events[user], key=lambda e: (e[0], e[1], _place(case, e[2]) if e[1] else ()))
        for at, is_sale, row in mine:
            if not is_sale:
                _, _, campaign, place, page, brand = row
                sites = [f"{brand}.shop"] if "brands" in case.wishes else ()
                for options in clients.saved_impressions({"campaign": campaign, "place": place}, at, sites):
                    agent.save_impression(options, page, at)
                continue
            _, _, day, shop, brand, worth = row
            event = {"day": day} if "day" in case.wishes else {}
            event |= {"campaign": shop} if "own" in case.wishes else {}
            event |= {"revenue": worth} if "value" in case.wishes else {}
            site = shop if case.wishes & {"shops", "own"} else "the.shop"
            report = []
            number += 1
            for call in clients.report_calls(event, conversion_id=number - 1):
                histogram = agent.measure_conversion(
                    call.options, f"{brand}.shop" if "brands" in case.wishes else site, at
                )
                kind = call.task.rpartition("-v")[0].rpartition("/")[2]
                report += [(kind, i, part) for i, part in enumerate(histogram) if part]
            key = (user, at, _place(case, row))
            told.setdefault(key, ())
            whole += bool(report)
            told[key] = tuple(sorted((*told[key], *report)))
        left = [*agent.ledgers.site.values(), *agent.ledgers.everyone.values(), *agent.ledgers.impression_site.values()]
        spend = round(spec.epsilon * 1e6)
        exhausted += any(each < spend for each in left)
    return told, whole, exhausted, len(buyers)


def _place(case: Case, sale: Any) -> Any:
    _, _, day, shop, brand, worth = sale
    return (
        *([day] if "day" in case.wishes else []),
        *([brand] if "brands" in case.wishes else []),
        *([shop] if case.wishes & {"shops", "own"} else []),
        *([-1e9 if worth is None else worth] if "value" in case.wishes else []),
    )


def by_conversion(case: Case, clients: W3cClients, devices: Any) -> dict[Any, Report]:
    """The same of the pass."""
    spec, plan, depth = case.spec, clients.plan, len(case.spec.levels)
    own = "own" in case.wishes
    rows = [kinds_of(plan, root) for root in (devices.kinds.column("site").to_pylist() if own else [""])]
    tick = 10**6 if spec.api.scheme == "B" else 0  # type: ignore[union-attr]
    valued = "value" in case.wishes
    done = walked(spec, devices, rows, depth, tick, CLIP if valued else 1)
    is_sale = devices.moment & 1 == 1
    device = np.repeat(np.arange(len(devices.start) - 1), np.diff(devices.start))[is_sale]
    buyers = sorted({sale[0] for sale in case.sales})
    views, kinds = devices.views.to_pylist(), devices.kinds.to_pylist()
    layout = plan.layout
    assert layout is not None
    found: dict[Any, Report] = {}
    for c, (d, moment) in enumerate(zip(device.tolist(), devices.moment[is_sale].tolist(), strict=True)):
        kind = kinds[done.kind[c]]
        names = [f"unknown_{i}" for i in range(len(spec.unknown))] + ["key_1"] * ("brands" in case.wishes)
        names += ["site"] * bool(case.wishes & {"shops", "own"})
        place = [kind[name] for name in names]
        if valued:
            place.append(-1e9 if kind["value_0"] is None else kind["value_0"] / 10**6)
        key = (buyers[d], moment // 2 // 10**6, tuple(place))
        report = Counter[tuple[str, int]]()
        row = rows[done.kind[c] if own else 0]
        for each in row:
            for level, credit in zip(each.levels, each.credit, strict=True):
                if done.given[level, c] < 0:
                    continue
                lands = int(done.lands[level, c])
                view = views[done.given[level, c]]
                held = spec.held(lands)[0]
                path = tuple(view[f"known_{i}"] for i in range(held))
                space = " ".join(
                    (
                        *([kind["site"]] if own else []),
                        "all" if spec.api.scheme != "A" or not held else spec.known[held - 1].name,
                    )
                )  # type: ignore[union-attr]
                amount = credit if len(each.levels) > 1 or each.value > 1 else 1
                if valued:
                    amount = int(done.amounts(rows[0], level)[c])
                report[each.name, layout.spaces[space].index(path)] += amount
        parts = ((name, i, part) for (name, i), part in report.items() if part)
        told = tuple(sorted((*found.get(key, ()), *parts)))
        found[key] = told
    return found


@pytest.mark.parametrize("scheme", first_of("BAC"))
def test_run_tells_what_is_lost_at_each_level(scheme: str, tmp_path: Path) -> None:
    case = Case(f"{scheme} day shops pages tight", devices=400)
    case.write(tmp_path)
    done = run(case.spec, str(tmp_path), rng=np.random.default_rng(0))
    counts = done.counts
    eligible = counts.conversions + sum(counts.table.column("conversions_beyond").to_pylist())
    assert counts.reported is not None
    assert eligible == counts.conversions + sum(counts.reported.lost.values())
    assert done.truth["count"][done.tree.level == 0].sum() == eligible
    assert {loss.level for loss in done.losses} <= set(case.spec.levels)
    tree, truth, est = done.tree, done.truth["count"], done.estimates["count"]
    noise = dict(zip(tree.level_names, rmsre.levels(tree, truth, est.variance, 10), strict=True))
    for loss in done.losses:
        assert loss.conversions == eligible
        assert loss.noise == pytest.approx(noise[loss.level])
        if scheme != "B":  # where two views of one second are mixed
            assert sum(loss.lost.values()) == pytest.approx(sum(counts.reported.lost.values()), abs=3)
    assert len(counts.reported.lost) > 1
    assert "Lost to budgets" in done.page()


@pytest.mark.parametrize(("site_epsilon", "lost"), [(1.0, (0.0135, 0.0726, 0.3117)), (1.2, (0.0726, 0.0726, 0.0726))])
def test_levels_of_scheme_a_lose_what_the_budget_says(site_epsilon: float, lost: tuple[float, ...]) -> None:
    """Reports of 0.1, 0.2 and 0.3, Poisson 0.8 conversions: E[(N − n)⁺]/0.8 where n conversions are paid for.

    Of a budget of 1 the levels pay for 3, 2 and 1 conversions; of 1.2, twice what one takes, all pay for 2.
    """
    section = {"kind": "w3c", "site_epsilon": site_epsilon, "scheme": "A"}
    attributes = [{"name": name} for name in ("campaign", "place", "shape")]
    spec = Spec(api=section, attribute=attributes, logs={"impressions": "i", "conversions": "c", "window": "30d"})
    number = np.random.default_rng(0).poisson(0.8, 200_000)
    number = number[number > 0]
    start = np.concatenate([[0], np.cumsum(number + 1)])
    place = np.arange(start[-1]) - np.repeat(start[:-1], number + 1)  # 0 is the view, conversions come after it
    views = pa.table({"code": [0], "known_0": ["a"], "known_1": ["b"], "known_2": ["c"]})
    kinds = pa.table({"code": [0], "unknown_0": [None]})
    moment = 2 * (BEGIN * 10**6 + 10**6 * place) + (place > 0)
    code = np.zeros(len(place), np.int64)
    devices = Devices(start, moment, code, views, kinds, True, (-(2**62), 2**62), 0)
    reports = [ReportKind(name, (i,), (1,), 10**5 * (i + 1), 1, 0) for i, name in enumerate(spec.levels)]
    done = walked(spec, devices, [reports], 3, 0)
    assert (done.given < 0).mean(axis=1) == pytest.approx(lost, abs=0.002)
    assert ((done.why == 1) == (done.given < 0)).all()  # the newest epoch is the only one, and its site cannot pay


def test_logs_are_counted_without_a_domain(tmp_path: Path) -> None:
    case = Case("A day", devices=60)
    case.write(tmp_path)
    attributes = [{"name": "campaign"}, {"name": "place"}, {"name": "day", "unknown": True}]
    free = Spec(api=case.spec.api, attribute=attributes, logs=case.spec.logs, tau=10)
    counts, given = count(free, str(tmp_path)), count(case.spec, str(tmp_path))
    assert counts.table.equals(given.table)
    assert run(free, str(tmp_path), rng=np.random.default_rng(0)).plan.spec.unknown[0].labels == DAYS


@pytest.mark.parametrize("order", ["above", "between"])
def test_with_large_budgets_nothing_is_lost_whatever_the_order(order: str, tmp_path: Path) -> None:
    """The sums of all nodes are those of a plain GROUP BY of conversions with their last impressions."""
    case = Case(f"A day {order}", devices=300)
    case.write(tmp_path)
    wide = case.spec.with_api({"site_epsilon": 900.0, "conversions_per_epoch": 300, "scheme": "A"})
    done = run(wide, str(tmp_path), method="equal", rng=np.random.default_rng(0))
    expected = Counter[tuple[str, ...]]()
    views = sorted(case.views, key=lambda v: (v[1], v[2:4]))
    for user, at, day, *_ in case.sales:
        mine = [v for v in views if v[0] == user and at - 30 * DAY <= v[1] <= at]
        if mine:
            _, _, campaign, place, _, _ = next(v for v in mine if v[1] == mine[-1][1])
            path = (day, campaign, place) if order == "above" else (campaign, day, place)
            expected.update(path[:i] for i in (1, 2, 3))
    tree, truth = done.tree, done.truth["count"]
    found = {tuple(tree.path(node)): int(truth[node]) for node in range(len(tree)) if truth[node]}
    assert found == expected and sum(expected.values()) > 1000
    assert not any(loss.lost or loss.moved for loss in done.losses) and len(done.losses) == 3
    free = Spec(**{**wide.model_dump(by_alias=True, exclude_none=True), "attribute": _without_domains(wide)})
    again = run(free, str(tmp_path), plan=done.plan, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(again.truth["count"], truth)
    assert done.impressions is not None
    seen = Counter(path[:i] for v in case.views for path in [v[2:4]] for i in (0, 1, 2))
    for node in range(len(tree)):
        assert done.impressions[node] == seen[tuple(label for label in tree.path(node) if label not in DAYS)]


def _without_domains(asks: Spec) -> list[dict[str, Any]]:
    return [{"name": a.name, **({"unknown": True} if a.unknown else {})} for a in asks.attributes]

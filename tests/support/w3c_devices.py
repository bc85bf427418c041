"""Devices that save impressions and measure conversions by a plan for W3C Attribution, and aggregators that add up."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from attributary import Spec, Tree, api, make_plan
from attributary.api.w3c.index_layout import known_paths
from attributary.api.w3c.page_calls import W3cClients
from attributary.browsers import UserAgent, UserAgentSettings
from attributary.noise import sample_dlap

START = 1_790_000_000
DAYS = ("mon", "tue")
DAY = {"name": "day", "unknown": True, "domain": list(DAYS)}


def spec(scheme: str | None = None, *, day: bool = False, above: int = 2, site: bool = False, **given: Any) -> Spec:
    """A spec of campaigns and locations, and of days if wanted, below so many of them; `api` adds to its section."""
    section = {"kind": "w3c", "site_epsilon": 2.0, "conversions_per_epoch": 2, **given.pop("api", {})}
    section |= {"scheme": scheme} if scheme else {}
    section |= {"site": "shop"} if site else {}
    known = [{"name": name} for name in (("shop", "campaign") if site else ("campaign", "location"))]
    attributes = [*known[:above], *([DAY] if day else []), *known[above:]]
    return Spec(**{"api": section, "attribute": attributes, "tau": 10, **given})


def paths(asks: Spec, first: int = 4, second: int = 5) -> dict[str, list[str]]:
    one, two = (attribute.name for attribute in asks.known)
    shop = ".example" if one == "shop" else ""
    rows = [(f"{one}{i}{shop}", f"{two}{j}") for i in range(first) for j in range(second)]
    return {one: [row[0] for row in rows], two: [row[1] for row in rows]}


def ready(asks: Spec, share: dict[str, float] | None = None, **size: int) -> tuple[W3cClients, Tree]:
    """A plan with these shares, laid out."""
    tree = asks.tree(paths(asks, **size))
    clients = api.clients(make_plan(asks, tree, share=share))
    assert isinstance(clients, W3cClients)
    return clients.with_tree(tree, start=START), tree


@dataclass
class Batch:
    """The reports of a task that are collected together."""

    options: Any
    sums: Any
    reports: int = 0


@dataclass
class Measured:
    """What many devices reported, and the true count of every leaf: conversions that reached some report."""

    batches: dict[tuple[str, str], Batch]
    leaves: Any
    partial: int = 0  # conversions that reached some reports, and not all

    def results(self, rng: np.random.Generator | None = None, aggregators: int = 0) -> list[dict[str, Any]]:
        """Aggregate results; each aggregator adds what libprio adds: DLap(ε / (2·maxValue)) to every sum."""
        made = []
        for (task, batch), one in self.batches.items():
            sums = one.sums.copy()
            for _ in range(aggregators):
                sums += sample_dlap(one.options.epsilon / (2 * one.options.max_value), len(sums), rng)
            item = {"task": task, "batch": json.loads(batch), "report_count": one.reports, "vector": sums.tolist()}
            made.append(item)
        return made


def browse(
    clients: W3cClients, tree: Tree, devices: int = 60, seed: int = 1, conversions: int = 4, apart: int = 3000
) -> Measured:
    """Devices see some ads and convert several times; the last ad gets the conversion."""
    asks, rng, batches = clients.plan.spec, Random(seed), dict[tuple[str, str], Batch]()
    known, partial, top = [attribute.name for attribute in asks.known], 0, int(asks.total)
    heads, both = (len(known_paths(asks, tree, top + i)) for i in (0, 1))
    under = both // heads
    leaves = np.zeros((heads * under, len(DAYS) if asks.unknown else 1))
    table = paths(asks, heads, under)
    for device in range(devices):
        agent = UserAgent(_browser(asks), Random(device))
        now, last = START + rng.randrange(10**5), 0
        for _ in range(rng.randrange(1, 4)):
            last = rng.randrange(heads * under)
            values = {name: table[name][last] for name in known}
            now += rng.randrange(1, apart)
            for options in clients.saved_impressions(values, now):
                agent.save_impression(options, "news.example", now)
        for _ in range(rng.randrange(conversions)):
            now += rng.randrange(1, apart)
            day = rng.randrange(leaves.shape[1])
            event = {"day": DAYS[day]} if asks.unknown else {}
            shop = table["shop"][last] if "shop" in table else "shop.example"
            event |= {"shop": shop} if "shop" in table else {}
            reached = []
            for call in clients.report_calls(event):
                histogram = agent.measure_conversion(call.options, shop, now)
                key = (call.task, json.dumps(call.batch))
                batch = batches.setdefault(key, Batch(call.options, np.zeros(len(histogram), np.int64)))
                batch.sums += histogram
                batch.reports += 1
                reached.append(any(histogram))
            leaves[last, day] += any(reached)
            partial += any(reached) and not all(reached)
    where = [attribute.unknown for attribute in asks.attributes].index(True) if asks.unknown else 2
    in_order = np.moveaxis(leaves.reshape(heads, under, -1), 2, where)
    return Measured(batches, in_order.ravel(), partial)


def _browser(asks: Spec) -> UserAgentSettings:
    assert asks.api is not None and asks.api.site_epsilon is not None
    return UserAgentSettings(
        site_budget=round(asks.api.site_epsilon * 1e6), activation_seconds=None, histogram_size=1000
    )

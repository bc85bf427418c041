"""bigquery: BigQuery's differential privacy behind the seam. A query for each level, and its results read back.

Each query has its level's share of ε. A privacy unit has one row of the table: then `max_groups_contributed = 1` and
bounds of (0, 1) cut off nothing, and all levels measure the same conversions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.api import register
from attributary.api.attribution_api import Answer, AttributionApi, Clients, Message, Query
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.noise import model
from attributary.plan import Plan
from attributary.spec.terms import BIGQUERY, ApiSection
from attributary.tables import read_table
from attributary.tables.table_columns import floats
from attributary.tree import Tree
from attributary.tree.labels import codes, text_labels
from attributary.tree.match import match

COUNT = "conversions"  # the column of counts
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True, eq=False)
class BigQueryClients(Clients):
    """A plan whose levels are queries: impressions and conversions are told nothing."""

    asks = ()

    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        raise InputError("BigQuery counts the rows of a table; impressions and conversions need not be told anything")

    conversion = impression

    def query(self, tree: Tree) -> Query:
        def write(path: str) -> None:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self.lines)

        return Query(int((self.plan.contribution(tree) > 0).sum()), write)


class BigQuery(AttributionApi):
    """BigQuery: SQL as the query, result tables as answers."""

    terms = BIGQUERY
    query_file = "queries.sql"

    def clients(self, plan: Plan, **wishes: Any) -> BigQueryClients:
        spec, section = plan.spec, plan.spec.api or ApiSection()
        if plan.roots or plan.nodes is not None or [measure.name for measure in spec.asked] != ["count"]:
            raise InputError("BigQuery has one ε for the counts of a level; plan counts alone, with one split for all")
        epsilons = {level: epsilon for level, epsilon in enumerate(plan.epsilon()) if epsilon > 0}
        std = np.sqrt(spec.noise_model.variance(np.array(list(epsilons.values()))))
        rows = [
            (plan.levels[level], f"{epsilons[level]:.4g}", f"{s:.3g}") for level, s in zip(epsilons, std, strict=True)
        ]
        lines = tuple(_sql(plan, level, epsilon, section, len(epsilons)) for level, epsilon in epsilons.items())
        idle = [name for level, name in enumerate(plan.levels) if level not in epsilons]
        why = "BigQuery drops groups of few privacy units, and sums of what it drops are unknown"
        return BigQueryClients(
            plan,
            table=[("level", "ε", "noise (standard deviation)"), *rows],
            heading=f"queries that together have ε = {sum(epsilons.values()):.4g} and δ = {section.delta:g}",
            notes=(f"no query for {', '.join(idle)}: {why}; plan with --share {idle[0]}=0.2",) if idle else (),
            lines=lines,
        )

    def answer(
        self,
        plan: Plan,
        files: Sequence[str],
        tree: Tree,
        rate: tuple[float, int] | None = None,
        name: str = "the plan",
    ) -> Answer:
        """What result tables say, each of one level; groups that BigQuery dropped are not measured."""
        noisy, measured, outside = np.zeros(len(tree)), np.zeros(len(tree), bool), 0
        for path in files:
            table = read_table(path)
            names = [attribute.name for attribute in plan.spec.attributes]
            here = [each for each in names if each in table.column_names]
            if here != names[: len(here)] or COUNT not in table.column_names:
                raise InputError(f"{path}: a result has {COUNT} and the attributes of a level, top to bottom")
            level = len(here) - 1 + int(plan.spec.total)
            if plan.default[level] == 0:
                raise InputError(
                    f"{path}: the plan has no query for {plan.levels[level]}; is it the plan of this result?"
                )
            node = _nodes(tree, table, here)
            there = (node >= 0) & (tree.level[node] == level)
            if measured[node[there]].any() or len(np.unique(node[there])) < there.sum():
                raise InputError(f"{path}: a node is measured twice; give the results of one run of the queries")
            noisy[node[there]], measured[node[there]] = floats(table, COUNT, path)[there], True
            outside += int((~there).sum())
        epsilon, l1 = rate or (plan.spec.epsilon, plan.spec.l1)
        contribution = plan.contribution(tree).astype(np.float64)
        variance = model(plan.spec.noise, epsilon, l1).variance(contribution * (epsilon / l1))
        dropped = int(((contribution > 0) & ~measured).sum())
        notes = [f"{dropped:,} nodes have no row and count as not measured"] if dropped else []
        notes += [f"{outside:,} rows are of no node of the tree, and left out"] if outside else []
        variance = np.where(measured, variance, np.inf)
        return Answer({"count": Measurements.of(tree, noisy, variance, plan.spec.noise_model.shape.name)}, tuple(notes))


def _sql(plan: Plan, level: int, epsilon: float, section: ApiSection, queries: int) -> str:
    """The query of a level."""
    columns = [_quoted(a.name) for a in plan.spec.attributes[: level + 1 - plan.spec.total]]
    counted = f"COUNT(*, contribution_bounds_per_group => (0, 1)) AS {COUNT}"
    lines = [
        f"-- {plan.levels[level]}",
        "SELECT WITH DIFFERENTIAL_PRIVACY",
        f"  OPTIONS(epsilon = {epsilon!r}, delta = {(section.delta or 0) / queries!r}, max_groups_contributed = 1, "
        f"privacy_unit_column = {_quoted(section.privacy_unit)})",
        f"  {', '.join([*columns, counted])}",
        f"FROM {_quoted(section.table)}",
        *([f"GROUP BY {', '.join(columns)}"] if columns else []),
    ]
    return "\n".join(lines) + ";"


def _quoted(name: str | None) -> str:
    if name is None or not NAME.fullmatch(name):
        raise InputError(f"names in BigQuery are letters, digits, _ and -, with dots between them; got {name!r:.80}")
    return f"`{name}`"


def _nodes(tree: Tree, table: Any, here: Sequence[str]) -> Any:
    """The node of each row, in the tree's order; -1 for none."""
    import pyarrow as pa

    whole = np.ones(table.num_rows, bool)
    for name in here:
        whole &= codes(text_labels(table, name)) >= 0
    paths = table.select(here).filter(pa.array(whole))
    for name in tree.attributes[len(here) :]:
        paths = paths.append_column(name, pa.nulls(paths.num_rows, pa.string()))
    node = np.full(table.num_rows, -1)
    node[whole] = match(tree, paths).node
    return np.where(node < 0, -1, node if tree.order is None else tree.order[node])


register(BigQuery())

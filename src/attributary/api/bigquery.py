"""bigquery: BigQuery's differential privacy behind the seam. A query for each level, and its results read back.

Each query has its level's share of ε. A privacy unit has one row of the table: then `max_groups_contributed = 1` and
bounds of (0, 1) cut off nothing, and all levels measure the same conversions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from attributary.api import register
from attributary.api.attribution_api import Answer, AttributionApi, Clients, Message, Query
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.noise import model
from attributary.plan import Plan
from attributary.spec.terms import ApiSection, Terms
from attributary.tables import read_table
from attributary.tables.table_columns import floats
from attributary.tree import Tree
from attributary.tree.match import nodes_of_level

COUNT = "conversions"  # the column of counts
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
DROPS = "BigQuery drops groups of few privacy units, and sums of what it drops are unknown"


class BigQuerySection(ApiSection):
    """Where the conversions are, and whom ε protects."""

    table: str = Field(description='the table of conversions, as in "project.dataset.conversions"')
    privacy_unit: str = Field(description='the column of whom ε protects, as in "user_id"')


BIGQUERY = Terms(
    kind="bigquery",
    title="BigQuery API",
    l1=65_536,  # parts of ε
    noise="bigquery",
    largest_epsilon=1e20,  # which means no noise
    conversions=1,  # rows of a privacy unit
    answer="a result",
    section=BigQuerySection,
    unit="whether the table has the rows of one {privacy_unit}",
)


@dataclass(frozen=True, eq=False)
class BigQueryClients(Clients):
    """A plan whose levels are queries: no client takes part."""

    asks = ()

    def impression(self, values: Mapping[str, object], **options: object) -> Message:
        raise InputError("BigQuery counts the rows of a table; impressions and conversions need not be told anything")

    conversion = impression

    def query(self, *trees: Tree) -> Query:
        def write(path: str) -> None:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in self.lines)

        return Query(int((self.plan.contribution(trees[0]) > 0).sum()), write)


class BigQuery(AttributionApi):
    """BigQuery: SQL as the query, result tables as answers."""

    terms = BIGQUERY
    query_file = "queries.sql"

    def clients(self, plan: Plan, **wishes: object) -> BigQueryClients:
        if plan.roots or plan.nodes is not None or plan.spec.values:
            raise InputError("BigQuery has one ε for the counts of a level; plan counts alone, with one split for all")
        epsilons = dict(zip(plan.levels, plan.epsilon(), strict=True))
        measured = [level for level, epsilon in epsilons.items() if epsilon > 0]
        idle = [level for level in epsilons if level not in measured]
        std = np.sqrt(plan.spec.noise_model.variance(np.array(plan.epsilon())))
        rows = [(level, f"{each:.4g}", f"{s:.3g}") for (level, each), s in zip(epsilons.items(), std, strict=True)]
        section = plan.spec.api
        assert isinstance(section, BigQuerySection)
        return BigQueryClients(
            plan,
            table=[("level", "ε", "noise (standard deviation)"), *rows],
            heading=f"queries that together have ε = {sum(epsilons.values()):.4g} and δ = {plan.spec.delta:g}",
            notes=(f"no query for {', '.join(idle)}: {DROPS}; plan with `share` {idle[0]}=0.2",) if idle else (),
            lines=tuple(_sql(plan, level, epsilons[level], section, len(measured)) for level in measured),
        )

    def answer(
        self, plan: Plan, files: Sequence[str], tree: Tree, rate: tuple[float, int] | None = None, name: str = ""
    ) -> Answer:
        """What result tables say, each of one level; groups that BigQuery dropped are not measured."""
        epsilon, l1 = rate or (plan.spec.epsilon, plan.spec.l1)
        budget = plan.contribution(tree).astype(np.float64) * (epsilon / l1)
        noisy, measured, outside = np.zeros(len(tree)), np.zeros(len(tree), bool), 0
        for path in files:
            table = read_table(path)
            here = [each for each in tree.attributes if each in table.column_names]
            if here != list(tree.attributes[: len(here)]) or COUNT not in table.column_names:
                raise InputError(f"{path}: a result has {COUNT} and the attributes of a level, top to bottom")
            table = table.select([*here, COUNT])
            rows = table.drop_null()
            try:
                nodes = nodes_of_level(tree, rows, len(here))
            except ValueError as error:
                raise InputError(f"{path}: {error}") from None
            node = nodes[nodes >= 0]
            if measured[node].any() or len(np.unique(node)) < len(node):
                raise InputError(f"{path}: a node is measured twice; give the results of one run of the queries")
            if not (budget[node] > 0).all():
                level = plan.levels[tree.level[node[0]]]
                raise InputError(f"{path}: the plan has no query for {level}; is it its result?")
            noisy[node], measured[node] = floats(rows, COUNT, path)[nodes >= 0], True
            outside += table.num_rows - len(node)
        dropped = int(((budget > 0) & ~measured).sum())
        notes = [f"{dropped:,} nodes have no row and count as not measured"] if dropped else []
        notes += [f"{outside:,} rows are of no node of the tree, and left out"] if outside else []
        page = model(plan.spec.noise, epsilon, l1, plan.spec.delta or 0.0)
        variance = np.where(measured, page.variance(budget), np.inf)
        return Answer({"count": Measurements.of(tree, noisy, variance, page.shape.name)}, tuple(notes))


def _sql(plan: Plan, level: str, epsilon: float, section: BigQuerySection, queries: int) -> str:
    columns = [_quoted(name) for name in plan.levels[int(plan.spec.total) : plan.levels.index(level) + 1]]
    counted = f"COUNT(*, contribution_bounds_per_group => (0, 1)) AS {COUNT}"
    lines = [
        f"-- {level}",
        "SELECT WITH DIFFERENTIAL_PRIVACY",
        f"  OPTIONS(epsilon = {epsilon!r}, delta = {(plan.spec.delta or 0) / queries!r}, max_groups_contributed = 1, "
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


register(BigQuery())

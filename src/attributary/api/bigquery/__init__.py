"""BigQuery's differential privacy: a query for each level; its section [api], and what planning goes by."""

from pydantic import Field

from attributary.spec.terms import TERMS, ApiSection, Terms


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
TERMS[BIGQUERY.kind] = BIGQUERY

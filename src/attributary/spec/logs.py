"""Logs: where impressions and conversions are, and what their columns are called."""

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing import Annotated

from attributary.spec.span import RULE, span


def _window(text: str) -> str:
    if span(text).number == 0:
        raise ValueError
    return text


class Logs(BaseModel):
    """The section [logs] of a spec."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    impressions: str | None = Field(None, description='a file, as in "impressions/*.parquet"')
    conversions: str | None = Field(None, description='a file, as in "conversions/*.parquet"')
    user: str | None = Field(None, description="the column that joins a conversion to its impressions")
    time: str | None = Field(None, description="the column that says when")
    window: Annotated[str, AfterValidator(_window)] | None = Field(None, description=RULE)

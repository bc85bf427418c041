"""Measured: what a plan with several measures, or with limits that it chose itself, holds besides a plan of counts."""

from pydantic import BaseModel, ConfigDict, Field

from attributary.plan.errors import Errors

Row = tuple[int, ...]


class Measured(BaseModel):
    """The part of one measure: the contributions of a conversion whose value is `clip` or more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="a measure's name")
    clip: float = Field(gt=0, description="the most that one conversion counts; 1 for counts")
    tau: float = Field(gt=0, description="the sum below which its errors stop being relative")
    default: Row = Field(description="contributions by level, for roots that have none of their own")
    roots: dict[str, Row] = Field(default={}, description="contributions by level, for each root")
    mean: float | None = Field(default=None, description="what a conversion brought on average in the prior")
    bias_known: bool = Field(default=True, description="whether the prior tells what limits cut off")
    expected: Errors | None = Field(default=None, description="the errors to expect")


class PerImpression(BaseModel):
    """How many conversions of an impression count, as the plan chose."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: int = Field(ge=1, description="for roots that have none of their own")
    roots: dict[str, int] = Field(default={}, description="for each root")


class Trade(BaseModel):
    """What would come of one limit, the others being as chosen: root mean squares over roots."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: float = Field(description="conversions of an impression, or where values are clipped")
    error: float = Field(description="the error to expect")
    bias: float = Field(description="the part of it that limits cut off")
    noise: float = Field(description="the part of it that is noise")
    chosen: float = Field(description="the part of the roots that it was chosen for")

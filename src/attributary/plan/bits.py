"""Bits: where an attribute's value stands in a key, as a plan stores it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Bits(BaseModel):
    """The bits of one attribute, and what is written in them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attribute: str = Field(description="an attribute's name")
    bits: int = Field(ge=1, le=64, description="a whole number from 1 to 64")
    coded: Literal["hash", "domain", "list"] = Field(
        description='"hash" (of any value), "domain" (its place in the domain) or "list" (its place among the values)'
    )
    values: tuple[str, ...] | None = Field(default=None, description="a list of values, where they are coded by one")

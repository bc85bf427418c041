"""sections: what a plan says besides its levels, spec and errors, as plan.json has it, section by section."""

from typing import Literal

from pydantic import BaseModel, Field

from attributary.plan.errors import PlanErrors
from attributary.types import Record

Row = tuple[int, ...]


class PriorNote(BaseModel, frozen=True, extra="forbid"):
    """What the plan was made from."""

    history: bool = Field(description="false if there was no prior, and the plan goes by the tree's structure")
    protected: bool = Field(description="true if the prior was protected itself, or if there was none")
    conversions: float | None = Field(
        default=None, description="how many conversions the prior has in the tree; none if it was not protected"
    )
    new: int = Field(default=0, ge=0, description="nodes of the tree that the prior does not have")
    gone: int = Field(default=0, ge=0, description="leaves of the prior that the tree does not have")
    lost: float | None = Field(default=None, description="how many conversions they had; none if not protected")


class MeasureShare(BaseModel, frozen=True, extra="forbid"):
    """One measure's share of the contributions: those of a conversion whose value is `clip` or more."""

    name: str = Field(description="a measure's name")
    clip: float = Field(gt=0, description="the most that one conversion counts; 1 for counts")
    tau: float = Field(gt=0, description="the sum below which its errors stop being relative")
    default: Row = Field(description="contributions by level, for roots that have none of their own")
    roots: dict[str, Row] = Field(default={}, description="contributions by level, for each root")
    mean: float | None = Field(default=None, description="what a conversion brought on average in the prior")
    bias_known: bool = Field(default=True, description="whether the prior tells what limits cut off")
    cut_off: float | None = Field(default=None, description="the part of the prior's sum that limits leave out")
    expected: PlanErrors | None = Field(default=None, description="the errors to expect, if there are other measures")

    @property
    def inexact(self) -> Record:
        """What takes the place of exact figures of the prior."""
        mean, cut_off = (None if x is None else float(f"{x:.2g}") for x in (self.mean, self.cut_off))
        return {"mean": mean, "cut_off": cut_off, "expected": self.expected and self.expected.unnamed()}

    @property
    def worth(self) -> float:
        """What a conversion brings on average, as far as is known; 1 for counts."""
        return self.mean if self.mean is not None and self.mean > 0 else self.clip


class PerImpression(BaseModel, frozen=True, extra="forbid"):
    """How many conversions of an impression count, as the plan chose."""

    default: int = Field(ge=1, description="for roots that have none of their own")
    roots: dict[str, int] = Field(default={}, description="for each root")


class Trade(BaseModel, frozen=True, extra="forbid"):
    """What would come of one limit, the others being as chosen: root mean squares over roots."""

    limit: float = Field(description="conversions of an impression, or where values are clipped")
    error: float = Field(description="the error to expect")
    bias: float = Field(description="the part of it that limits cut off")
    noise: float = Field(description="the part of it that is noise")
    chosen: float = Field(description="the part of the roots that it was chosen for")


class OtherNoise(BaseModel, frozen=True, extra="forbid"):
    """What the other kind of noise would mean: Gaussian beside Laplace, or Laplace beside Gaussian."""

    noise: str = Field(description="the name of its noise model")
    delta: float | None = Field(default=None, description="its δ, at the same ε")
    error: float = Field(description="the tree error to expect with it")
    keys: int = Field(ge=1, description="keys per conversion")

    def words(self, error: float) -> str:
        """Which noise has the smaller error, beside the plan's."""
        here, there = ("Laplace", "Gaussian") if self.delta else ("Gaussian", "Laplace")
        return (
            f"{there} noise at the same epsilon, delta = {self.delta or 0:g}: expected error {self.error:.1%} instead "
            f"of {error:.1%}; at {self.keys} keys per conversion {here if error <= self.error else there} is better"
        )


class SchemeCost(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """What one scheme of an API would mean for a plan."""

    scheme: str = Field(description="its name")
    words: str = Field(default="", description="what it does")
    error: float = Field(description="the error to expect: of the tree, or the median of roots with their own splits")
    credits: int | None = Field(default=None, description="whole credits of a conversion; none where ε is split")
    reports: int = Field(ge=1, description="reports of one conversion")
    bytes: int = Field(ge=1, description="their length together")
    histogram: int = Field(ge=1, description="indexes of the longest of them")
    impressions: int = Field(ge=1, description="impressions that one view of an ad saves")
    atomic: bool = Field(description="whether a conversion is measured at all levels or at none")
    by_root: bool = Field(default=False, description="whether roots have splits of their own")
    refused: str = Field(default="", description="why it cannot be taken; empty if it can")
    chosen: bool = Field(default=False, description="whether it was taken")
    why: str = Field(default="", description="why it was")


class IndexLayout(BaseModel, frozen=True, extra="forbid"):
    """Which node has which index of a histogram: dense numbers, in spaces of their own where reports are."""

    version: int = Field(ge=0, lt=2**28, description="part of every match value; a new one where indexes are reused")
    start: int = Field(description="the second since 1970 that priorities count from")
    spaces: dict[str, tuple[tuple[str, ...], ...]] = Field(
        description="for each space, the paths of its nodes by index, from the first attribute down"
    )


class OtherParts(BaseModel, frozen=True, extra="forbid"):
    """What other breakdowns of the same conversions take of one budget, in parts of it, as `Spent` has them."""

    names: tuple[str, ...] = Field(description="what they are called")
    path: float = Field(ge=0, le=1, description="a part of the budget")
    unknown: float = Field(ge=0, le=1, description="a part of the budget")
    purchase: float | None = Field(default=None, ge=0, le=2, description="a part of the budget")
    together: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="what one purchase takes in all breakdowns together, where that is less than the sum of each",
    )


class Sharing(BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="strings"):
    """What comes of one budget for several breakdowns, and what would come of other ways to plan them."""

    alone: tuple[float, ...] = Field(description="the error of each breakdown if it had all of the budget")
    costs: tuple[float, ...] = Field(description="by how much the others' error would fall without each breakdown")
    apart: float = Field(description="the error to expect if breakdowns were planned and denoised by themselves")
    equal: float = Field(description="the same with equal parts of the budget")
    direct: float = Field(description="the error to expect if each sum were asked directly, and figures not denoised")
    cells: float = Field(description="the same if all sums were added up from one table of all attributes' cells")
    joined: bool = Field(description="whether the joint estimate was part of planning, and of the errors to expect")


class Bits(BaseModel, frozen=True, extra="forbid"):
    """The bits of one attribute in a key, and what is written in them."""

    attribute: str = Field(description="an attribute's name")
    bits: int = Field(ge=1, le=64, description="a whole number from 1 to 64")
    coded: Literal["hash", "domain", "list"] = Field(
        description='"hash" (of any value), "domain" (its place in the domain) or "list" (its place among the values)'
    )
    values: tuple[str, ...] | None = Field(default=None, description="a list of values, where they are coded by one")

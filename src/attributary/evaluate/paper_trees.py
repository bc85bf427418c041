"""paper_trees: the trees of the paper's section 6, by dataset, and what it says came out."""

from typing import Any, NamedTuple

from attributary.plan.make import DELTA
from attributary.spec import Spec


class PaperTree(NamedTuple):
    name: str
    attributes: tuple[str, ...]  # known ones, top to bottom; the delay stands below them
    days: int  # of a bucket of the delay

    @property
    def spec(self) -> Spec:
        return self.at("api")

    def at(self, noise: str) -> Spec:
        """What is asked: a split for each root, under a noise model."""
        known: list[dict[str, Any]] = [{"name": name} for name in self.attributes]
        delay = {"name": "delay", "unknown": True, "bucket": f"{self.days}d", "buckets": DELAY_DAYS // self.days}
        return Spec(epsilon=1.0, split_by=self.attributes[0], attribute=[*known, delay]).with_noise(noise, DELTA)


class StatedFigure(NamedTuple):
    """A figure of the paper's text, of greedy-unbiased at ε = 4."""

    tree: str
    tau: float
    rmsre: float


class PaperDataset(NamedTuple):
    name: str
    prior_days: int  # whose impressions make the prior
    days: int  # that the log is said to have
    trees: tuple[PaperTree, ...]
    stated: tuple[StatedFigure, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The known ones of the deepest tree."""
        return self.trees[0].attributes


DELAY_DAYS = 30
STATED_EPSILON = 4.0
PAPER = {
    "csscl": PaperDataset(
        "csscl",
        45,
        90,
        (
            PaperTree("depth 5", ("partner", "country", "device", "age_group"), 2),
            PaperTree("depth 4", ("partner", "country", "device"), 6),
        ),
        (StatedFigure("depth 5", 10, 0.10), StatedFigure("depth 4", 5, 0.17)),
    ),
    "camb": PaperDataset(
        "camb",
        15,
        30,
        (PaperTree("depth 4", ("campaign", "cat1", "cat8"), 2), PaperTree("depth 3", ("campaign", "cat1"), 6)),
        (StatedFigure("depth 4", 10, 0.19), StatedFigure("depth 3", 5, 0.20), StatedFigure("depth 3", 10, 0.12)),
    ),
}

"""devices: what happened on each device, in order of time, and the rules by which an API attributes it.

Some APIs let a browser decide what a conversion may report, from all that the device has seen and reported before.
Their terms bring `DeviceRules`; all others are counted by SQL alone.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from attributary.errors import InputError
from attributary.spec import Spec
from attributary.types import Arrow, Ints

SITE = "site"  # the column of `views` and `kinds` that has the site, where one was asked for


class SiteColumns(NamedTuple):
    """The columns of the logs that say where an impression or a conversion was; None where nothing says so."""

    impression: str | None = None
    conversion: str | None = None


@dataclass(frozen=True, eq=False)
class Devices:
    """The events of devices that converted: device i has those from `start[i]` to `start[i + 1]`, in order of time.

    An event is a view or a conversion. What views have in common is a row of `views` (the known attributes as known_0…,
    what joins the logs besides the user as key_1…, `site`), what conversions have in common a row of `kinds` (the
    unknown attributes, the same keys, `site`, values as value_0…); both have a column `code`, kinds also `number`.
    """

    start: Ints
    moment: Ints  # twice the microseconds; one more for a conversion
    code: Ints  # of the view or the kind
    views: Arrow
    kinds: Arrow
    seconds: bool  # whether times are finer than days
    ends: tuple[int, int]  # microseconds: views of the period are from the first on, and before the second
    incomplete: int  # conversions without a user, another key, a site or a time


class Reported(NamedTuple):
    """What becomes of conversions: a table of groups for `counts.leaves`, and what is not reported, by reason."""

    groups: Arrow
    lost: Mapping[str, int]
    moved: int  # conversions that are reported for an older view than the last
    by_limit: Mapping[int, int]  # how many would be reported under other limits
    by_clip: Mapping[float, float] = {}  # the sum of a value that would be reported if clipped there
    whole: float = 0.0  # and of all values above 0


class LevelLoss(NamedTuple):
    """What a level does not learn of the conversions that have an impression, by reason, in conversions."""

    level: str
    conversions: int
    lost: Mapping[str, int]
    moved: int  # reported, but for an older view than the last, or for another level
    noise: float = math.nan  # the error of noise alone, relative as RMSRE


class DeviceRules(ABC):
    """How an API attributes what happens on devices."""

    @abstractmethod
    def sites(self, spec: Spec) -> SiteColumns:
        """What it needs to know of sites."""

    @abstractmethod
    def count(self, spec: Spec, devices: Devices) -> Reported:
        """What is reported whatever the split of ε: `number` conversions, AT by limit."""

    @abstractmethod
    def by_level(self, plan: Any, devices: Devices) -> tuple[Any, "tuple[LevelLoss, ...]"]:
        """What the reports of a Plan say: a table of groups with a column AT for each level, and what levels lose."""


def rules_of(spec: Spec) -> DeviceRules | None:
    """The rules of the spec's API; None where it attributes an impression and a conversion by themselves."""
    rules = spec.terms.devices and spec.terms.devices()
    if rules is not None and not isinstance(rules, DeviceRules):
        rule = f"the terms of the {spec.terms.title} give devices as logs.devices.DeviceRules"
        raise InputError(f"{rule}; got {rules!r:.60}")
    return rules

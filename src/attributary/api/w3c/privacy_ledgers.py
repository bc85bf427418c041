"""privacy_ledgers: what is left of a device's privacy budgets, in microepsilons (µε)."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from attributary.api.w3c.attribution_options import ConversionOptions, UserAgentSettings


@dataclass(slots=True)
class PrivacyLedgers:
    """µε left: of each conversion site and of each impression site by epoch, and of all sites together.

    Keys are (epoch, site) and epoch; what is not there has not been touched.
    """

    settings: UserAgentSettings
    site: dict[tuple[int, str], int] = field(default_factory=dict)
    impression_site: dict[tuple[int, str], int] = field(default_factory=dict)
    everyone: dict[int, int] = field(default_factory=dict)

    def charge(self, epoch: int, site: str, impression_sites: Collection[str], own: int, shared: int) -> bool:
        """Deducts from all three ledgers of an epoch, or from none where one has not enough left.

        `own` is deducted from the conversion site, `shared` from all sites together and from each impression site.
        """
        settings, key = self.settings, (epoch, site)
        quotas = [(epoch, each) for each in set(impression_sites)]
        left = self.site.get(key, settings.site_budget)
        left_of_all = self.everyone.get(epoch, settings.global_budget)
        left_of_quotas = [self.impression_site.get(each, settings.impression_site_quota) for each in quotas]
        if own > left or shared > min(left_of_all, *left_of_quotas):
            return False
        self.site[key] = left - own
        self.everyone[epoch] = left_of_all - shared
        self.impression_site.update((each, has - shared) for each, has in zip(quotas, left_of_quotas, strict=True))
        return True

    def forget(self, sites: Collection[str]) -> None:
        """Forgets what is left of some sites, or of all if there are none; of all together only with all of them."""
        for ledger in (self.site, self.impression_site):
            for key in [key for key in ledger if not sites or key[1] in sites]:
                del ledger[key]
        if not sites:
            self.everyone.clear()


def deduction(sensitivity: int, query: ConversionOptions) -> int:
    """µε that a histogram costs whose sum may change by `sensitivity`, at the noise that its report asks for."""
    noise_scale = 2 * query.max_value / query.epsilon
    return math.ceil(sensitivity / noise_scale * 1_000_000)

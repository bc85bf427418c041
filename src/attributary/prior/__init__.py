"""Prior: what is known of the counts before they are measured, and how far to trust it."""

from attributary.denoising.prior import Prior
from attributary.prior.earlier import from_counts, from_estimates, from_periods, none
from attributary.prior.learn import foreseen, learn

__all__ = ["Prior", "foreseen", "from_counts", "from_estimates", "from_periods", "learn", "none"]

"""Prior: what is known of the counts before they are measured, and how far to trust it."""

from attributary.denoising.prior import Prior
from attributary.prior.drift import drifted
from attributary.prior.earlier import from_counts, from_estimates, none
from attributary.prior.learn import foreseen, learn
from attributary.prior.robust import doubted

__all__ = ["Prior", "doubted", "drifted", "foreseen", "from_counts", "from_estimates", "learn", "none"]

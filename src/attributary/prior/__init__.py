"""Prior: what is known of the counts before they are measured, and how far to trust it."""

from attributary.denoising.prior import Prior
from attributary.prior.doubted import doubted
from attributary.prior.drift import drifted
from attributary.prior.earlier import from_counts, from_estimates, none
from attributary.prior.foreseen import foreseen
from attributary.prior.learn import learn

__all__ = ["Prior", "doubted", "drifted", "foreseen", "from_counts", "from_estimates", "learn", "none"]

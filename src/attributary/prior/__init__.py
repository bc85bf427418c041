"""Prior: what is known of the counts before they are measured, and how far to trust it."""

from typing import TYPE_CHECKING, Any

from attributary.denoising.prior import Prior
from attributary.prior.earlier import from_counts, from_estimates, none
from attributary.prior.learn import foreseen, learn

__all__ = ["Prior", "foreseen", "from_counts", "from_estimates", "from_periods", "learn", "none"]

if TYPE_CHECKING:
    from attributary.prior.history import from_periods


def __getattr__(name: str) -> Any:
    """`from_periods`, imported when it is asked for: few need periods."""
    if name == "from_periods":
        from attributary.prior.history import from_periods

        return from_periods
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The two published datasets of the paper, as their files are, and their look-alikes."""

from attributary.logs.criteo.attributed import attributed
from attributary.logs.criteo.figures import Figure, figures

__all__ = ["Figure", "attributed", "figures"]

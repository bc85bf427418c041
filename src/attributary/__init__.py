"""Attributary: hierarchical conversion counts under differential privacy that add up."""

from attributary import noise, rmsre
from attributary.denoising import Estimate, denoise
from attributary.measurements import Measurements
from attributary.tree import Tree

__all__ = ["Estimate", "Measurements", "Tree", "denoise", "noise", "rmsre"]

__version__ = "0.1.0"

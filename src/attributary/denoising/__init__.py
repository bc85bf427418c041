"""Noisy figures of a tree in, the best consistent figures out."""

from attributary.denoising.denoise import denoise
from attributary.denoising.estimate import Estimate

__all__ = ["Estimate", "denoise"]

"""Noisy figures of a tree in, the best consistent figures out."""

from attributary.denoising.denoise import denoise
from attributary.denoising.estimate import Estimate
from attributary.denoising.noise_level import NoiseLevel, estimate_noise

__all__ = ["Estimate", "NoiseLevel", "denoise", "estimate_noise"]

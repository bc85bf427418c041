"""Denoising on a cluster: forests beyond one machine's memory, in parts."""

from attributary.denoising.cluster.spark import denoise_spark

__all__ = ["denoise_spark"]

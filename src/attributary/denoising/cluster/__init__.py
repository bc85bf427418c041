"""Denoising on a cluster: forests beyond one machine's memory, in parts."""

from attributary.denoising.cluster.spark_denoise import denoise_spark

__all__ = ["denoise_spark"]

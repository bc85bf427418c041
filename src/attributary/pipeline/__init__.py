"""Pipelines: what the commands do, as library calls."""

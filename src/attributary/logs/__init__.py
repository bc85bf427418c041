"""Logs: impressions and conversions become counts per node; the published datasets and their look-alikes."""

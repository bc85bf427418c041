"""Explore: the same as a report, live, for trees too large for a page.

`sources_in` says what a file is, `open_store` opens tables of estimates, `plan_start` finds what the Plan tab starts
with, and `serve` answers a browser on this machine until it is interrupted.
"""

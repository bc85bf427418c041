"""Explore: the same, live, for trees too large for a page.

`given` says what a file is, `open_store` opens tables of estimates, `begin` finds what the Plan tab plays with, and
`serve` answers a browser on this machine until it is interrupted.
"""

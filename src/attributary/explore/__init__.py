"""Explore: the same as a report, live, for trees too large for a page.

`open_session` opens estimates, a plan, a spec or a folder, and `serve` answers a browser on this machine with it until
it is interrupted.
"""

from attributary.explore.explore_session import Session
from attributary.explore.open_session import open_session
from attributary.explore.server import serve

__all__ = ["Session", "open_session", "serve"]

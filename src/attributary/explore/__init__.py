"""Explore: the same as a report, live, for trees too large for a page.

`open_session` opens estimates, a plan, a spec or a folder, and `serve` answers a browser on this machine with it until
it is interrupted.
"""

from attributary.explore.server import serve
from attributary.explore.session import Session, open_session

__all__ = ["Session", "open_session", "serve"]

"""learned: what to expect of each node, from an earlier period's file and from today's figures."""

from typing import Any

from attributary.cli.asked import earlier
from attributary.prior import Prior, learn
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tree import Tree


def learned(
    tree: Tree, noisy: Any, variance: Any, path: str | None, today: bool, spec: Spec | None = None
) -> Prior | None:
    """Shares and their spread; None where neither a file nor today's figures are to be learned from."""
    if path is None and not today:
        return None
    known = None if spec is None else [attribute.name for attribute in spec.known]
    past = None if path is None else earlier(tree, known, read_table(path), path)
    return learn(tree, noisy, variance, past) if spec is None else learn(tree, noisy, variance, past, tau=spec.tau)

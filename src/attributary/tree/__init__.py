"""Tree: a forest of nodes with its labels, made from parents or from paths, and its verbs."""

from attributary.tree.tree import Family, Tree

__all__ = ["Family", "Tree"]

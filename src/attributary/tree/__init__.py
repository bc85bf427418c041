"""Tree: a forest of nodes with its labels, made from parents or from paths, and its verbs."""

from attributary.tree.tree import Tree

__all__ = ["Tree"]

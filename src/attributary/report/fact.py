"""Fact: a question that a reader has, and its answer."""

from typing import NamedTuple


class Fact(NamedTuple):
    """`more` explains, `warning` must not be missed."""

    name: str
    answer: str
    more: tuple[str, ...] = ()
    warning: str = ""

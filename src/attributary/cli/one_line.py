"""one_line: words for a terminal, whatever the labels and cells in them hold."""


def one_line(words: str) -> str:
    """The words with line breaks, escapes and the like spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)

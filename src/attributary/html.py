"""Html: a small table for notebooks, in which a label is only ever text."""

import re
from collections.abc import Iterable, Sequence
from html import escape

LONGEST = 80  # of a cell
ROOMY = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"  # wide ones first: what has room for them, has for all
ENDS = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))  # no characters at all
UNSEEN = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef{ENDS}]")


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """A table with words in its first column and figures in the others; notes stand below it."""
    sides = ["left"] + ["right"] * (len(heads) - 1)
    each = zip(heads, sides, strict=True)
    head = "".join(f'<th scope="col" style="text-align:{side}">{_text(h)}</th>' for h, side in each)
    body = "".join(f"<tr>{''.join(_cell(i, cell) for i, cell in enumerate(row))}</tr>" for row in rows)
    below = "".join(f"<div>{_text(note, None)}</div>" for note in notes)
    title = f'<caption style="text-align:left;font-weight:600">{_text(caption, None)}</caption>'
    return f"<div><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def html_alarm(words: str) -> str:
    """Words that nobody can miss, above a table; nothing if there are none."""
    style = "font-weight:700;color:#fff;background:#b00020;padding:.5em .8em"
    return f'<div role="alert" style="{style}">{_text(words, None)}</div>' if words else ""


def _cell(column: int, text: str) -> str:
    if column == 0:
        return f'<th scope="row" style="text-align:left;font-weight:400"><bdi>{_text(text)}</bdi></th>'
    return f'<td style="text-align:right;font-variant-numeric:tabular-nums">{_text(text)}</td>'


def _text(text: str, longest: int | None = LONGEST) -> str:
    return escape(text if longest is None or len(text) <= longest else text[:longest] + "…")

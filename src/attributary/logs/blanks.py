"""blanks: the SQL files of this folder, with their blanks filled in."""

from collections.abc import Iterable, Mapping
from importlib.resources import files

from attributary.logs.fate import IN_SQL


def filled(name: str, **blanks: str) -> str:
    """The SQL in a file, its blanks filled, the fates among them. A list begins with its comma, or is empty."""
    sql = files("attributary.logs").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    code = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
    return code.format_map(IN_SQL | blanks)


def listed(expressions: Iterable[str]) -> str:
    """A list for a blank."""
    return "".join(f", {expression}" for expression in expressions)


def select(values: Mapping[str, str], rows: str) -> str:
    """The values under their names."""
    return f"SELECT {', '.join(f'{value} AS {name}' for name, value in values.items())} FROM {rows}"

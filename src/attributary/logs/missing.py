"""missing: values that are not there, and the label that they have in a tree."""

from attributary.spec import Logs

MISSING = "missing"


def missing_cells(logs: Logs) -> tuple[str, ...]:
    """The cells that mean a missing value besides empty ones, as text."""
    return tuple(
        str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell) for cell in logs.missing
    )

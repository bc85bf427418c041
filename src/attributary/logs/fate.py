"""Fate: what becomes of a row, as a small number in SQL and a word everywhere else."""

FATES = (
    "impression",  # without a conversion, or not yet joined to one
    "conversion",  # counted; where rows have their conversions, an impression too
    "late",  # a conversion that is not within the window; likewise
    "undated",  # an impression without a time
    "unattributed",  # a conversion without an impression before it
    "within",  # a conversion that is within the window, whether or not it is its impression's first
    "incomplete",  # a conversion without a user, another key or a time
)
IN_SQL = {fate: f"CAST({number} AS TINYINT)" for number, fate in enumerate(FATES)}  # grouping by words takes longer

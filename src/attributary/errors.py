"""The user's mistake, kept apart from our bug."""


class InputError(ValueError):
    """The user's data or options are wrong: one line with the rule, the value and the remedy."""

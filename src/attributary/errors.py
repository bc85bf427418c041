"""What went wrong, by who can mend it: the user, or the machine with time."""


class InputError(ValueError):
    """The user's data or options are wrong: one line with the rule, the value and the remedy."""


class TryAgain(Exception):  # noqa: N818, it says what to do
    """The machine could not do it now (memory, disk, a service that does not start): the same call may work later."""

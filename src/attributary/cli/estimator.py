"""estimator: the options that say what estimates are to be like."""

from collections.abc import Callable
from typing import Any

import click

NONNEGATIVE = ["top-down", "joint"]
BETWEEN_0_AND_1 = click.FloatRange(0, 1, min_open=True, max_open=True)
OPTIONS = (
    click.option(
        "--nonnegative",
        type=click.Choice(NONNEGATIVE),
        is_flag=False,
        flag_value="top-down",
        help="No estimate below 0: top-down, unless told to fit all jointly.",
    ),
    click.option("--whole", is_flag=True, help="Whole numbers that add up."),
    click.option(
        "--confidence",
        type=BETWEEN_0_AND_1,
        default=0.95,
        show_default=True,
        help="That low and high hold the true count.",
    ),
)


def estimator_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

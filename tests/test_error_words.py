"""An error names options to whoever runs a command, and arguments to whoever calls from Python."""

import pickle

import pytest
from click.testing import CliRunner

from attributary import denoise
from attributary.cli import main
from attributary.errors import InputError, TryAgain, on_command_line
from attributary.measurements import Measurements

SAID = "give --no-totals, or see `attributary denoise --table`; got '--levels' of my--table"


@pytest.mark.parametrize("kind", [InputError, TryAgain])
def test_options_are_arguments_outside_of_commands(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind(SAID)))
    assert str(error) == SAID.replace("--no-totals", "`no_totals`")
    with on_command_line():
        assert str(error) == f"{error}" == SAID
    assert str(error) != SAID


def test_a_command_and_a_call_name_the_same_in_their_words() -> None:
    figures = {"shop": ["a", "b"], "visits": [9.0, 5.0]}
    with pytest.raises(InputError, match="give `variance`, or `std`, or `noise`"):
        denoise(Measurements.from_table(figures, levels=["shop"], value="visits"))
    said = CliRunner().invoke(main, "denoise --table -", input=b"shop,visits\na,9\nb,5\n")
    assert said.exit_code == 2 and "give --variance, or --std, or --noise" in said.stderr


def test_no_line_of_an_error_is_long_whatever_of_the_users_is_in_it() -> None:
    error = InputError(f"the rule; got {'x' * 10**6}: the remedy\nand {'y' * 5000}")
    for words in (str(error), str(pickle.loads(pickle.dumps(error)))):
        first, second = words.split("\n")
        assert len(first) <= 1000 and first.startswith("the rule; got xxx") and first.endswith("xxx: the remedy")
        assert len(second) <= 1000 and str(InputError("z" * 1000)) == "z" * 1000

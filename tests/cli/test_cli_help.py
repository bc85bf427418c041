"""The first screen, and what a shell completes."""

import pytest
from click.shell_completion import BashComplete

from attributary.cli import main
from command import attributary


def completions(*words: str) -> set[tuple[str, str]]:
    """The type and the value of what completes the last word."""
    shell = BashComplete(main, {}, "attributary", "_ATTRIBUTARY_COMPLETE")
    return {(item.type, item.value) for item in shell.get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("rep",), {("plain", "report")}),
        (("run", "--pl"), {("plain", "--plan")}),
        (("run", "--method", "opt"), {("plain", "optimal")}),
        (("plan", "--method", "al"), {("plain", "all")}),
        (("denoise", "--estimator", "lea"), {("plain", "learned")}),
        (("generate", "sh"), {("plain", "shop")}),
        (("run", "sp"), {("file", "sp")}),
        (("init", "impressions.csv", ""), {("file", "")}),
        (("denoise", "--table", "no"), {("file", "no")}),
    ],
)
def test_a_shell_completes_commands_options_values_and_files(
    words: tuple[str, ...], wanted: set[tuple[str, str]]
) -> None:
    assert completions(*words) == wanted


def test_the_help_begins_with_what_people_do() -> None:
    first = attributary("--help").stdout.partition("Data is written")[0]
    lines = [line.split() for line in first.splitlines() if line.strip().startswith("attributary")]
    assert [line[1] for line in lines] == ["denoise", "init", "run", "plan"]
    for line in lines:
        options = attributary(line[1], "--help").stdout
        assert all(word in options for word in line if word.startswith("-"))

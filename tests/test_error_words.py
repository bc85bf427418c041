"""An error names options to whoever runs a command, and arguments to whoever calls from Python."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import attributary
from attributary import denoise
from attributary.cli import COMMANDS, main
from attributary.cli.command_errors import ARGUMENT, with_options
from attributary.errors import InputError, TryAgain
from attributary.measurements import Measurements

SOURCE = Path(attributary.__file__).parent
SAID = "give `no_totals`, `totals=ALL` or `output`, as `attributary denoise --table` does; got '`levels`' in `plan`"


@pytest.mark.parametrize("kind", [InputError, TryAgain])
def test_a_command_names_its_own_options(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind(SAID)))
    assert str(error) == f"{error}" == SAID
    command = main.get_command(main.make_context("attributary", ["denoise"]), "denoise")  # type: ignore[attr-defined]
    said = SAID.replace("`no_totals`", "--no-totals").replace("`totals=ALL`", "--total ALL").replace("`output`", "-o")
    assert with_options(str(error), command) == said
    assert with_options(str(error), None) == SAID


def test_a_command_and_a_call_name_the_same_in_their_words() -> None:
    figures = {"shop": ["a", "b"], "visits": [9.0, 5.0]}
    with pytest.raises(InputError, match="Say it with `noise`, `std` or `variance`.*`noise=laplace:scale=3`"):
        denoise(Measurements.from_table(figures, levels=["shop"], value="visits"))
    said = CliRunner().invoke(main, "denoise --table -", input=b"shop,visits\na,9\nb,5\n")
    assert said.exit_code == 2 and "Say it with --noise, --std or --variance" in said.stderr
    assert "--noise laplace:scale=3" in said.stderr


def test_no_line_of_an_error_is_long_whatever_of_the_users_is_in_it() -> None:
    error = InputError(f"the rule; got {'x' * 10**6}: the remedy\nand {'y' * 5000}")
    for words in (str(error), str(pickle.loads(pickle.dumps(error)))):
        first, second = words.split("\n")
        assert len(first) <= 1000 and first.startswith("the rule; got xxx") and first.endswith("xxx: the remedy")
        assert len(second) <= 1000 and str(InputError("z" * 1000)) == "z" * 1000


def messages(tree: ast.Module) -> Iterator[str]:
    """The texts that a module raises: those in its `raise` statements, and the constants that these name."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Raise):
            named = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            for part in (statement, *(constants[name] for name in named & set(constants))):
                for node in ast.walk(part):
                    if isinstance(node, ast.JoinedStr):
                        yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield node.value


def test_the_library_names_arguments_and_no_options() -> None:
    library = {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py") if path.parent.name != "cli"}
    arguments = {node.arg for tree in library.values() for node in ast.walk(tree) if isinstance(node, ast.arg)}
    arguments |= {f.name for tree in library.values() for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
    context = main.make_context("attributary", ["plan"])
    commands = [main.get_command(context, name) for name in COMMANDS]  # type: ignore[attr-defined]
    arguments |= {param.name for command in commands for param in command.params}
    named = set[str]()
    for path, tree in library.items():
        for text in messages(tree):
            bare = re.sub("`[^`]*`", "", text)
            assert not re.search(r"(?<![\w-])(--[a-z]|-o\b)", bare), f"{path}: {text}"
            named |= {argument for argument, _ in ARGUMENT.findall(text)}
    assert {"noise", "levels", "output", "totals"} <= named
    assert named <= arguments, named - arguments

"""attributary denoise: a mistake is one line, a bug is ours, and the old file survives both and Ctrl-C."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attributary.cli import main
from attributary.errors import InputError, TryAgain
from attributary.tables import write_table
from support.command import PYTHON, SMALL, run
from support.effort import examples, first_of

NODES = "a,b,n,v\nx,,5,1\nx,p,2,1\nx,q,2,1\n"
ERRORS: dict[str, tuple[str, list[str], str]] = {
    "nan": (NODES.replace("x,p,2", "x,p,nan"), [], "row 2 (line 3): column 'n' has 'nan' where a finite number"),
    "infinite": (NODES.replace("x,p,2", "x,p,-inf"), [], "row 2 (line 3): column 'n' has '-inf'"),
    "empty figure": (NODES.replace("x,q,2", "x,q,"), [], "row 3 (line 4): column 'n' has an empty cell"),
    "text in figures": (NODES.replace("x,q,2", "x,q,two"), [], "row 3 (line 4): 'two' in column 'n' is not a number"),
    "comma and point": (NODES.replace("x,q,2", 'x,q,"2,5"').replace("5,1", "5.5,1"), [], "row 3 (line 4): '2,5' in"),
    "thousands or decimals": (NODES.replace("x,q,2", 'x,q,"2,512"'), [], "may be 2512 or 2.512: all signs there"),
    "text in variances": (NODES.replace("x,,5,1", "x,,5,?"), [], "row 1 (line 2): '?' in column 'v'"),
    "negative variance": (NODES.replace("x,,5,1", "x,,5,-1"), [], "row 1 (line 2): column 'v' has '-1'; variance"),
    "nan variance": (NODES.replace("x,,5,1", "x,,5,nan"), [], "row 1 (line 2): column 'v' has 'nan'"),
    "empty variance": (NODES.replace("x,,5,1", "x,,5,"), [], "row 1 (line 2): column 'v' has an empty cell"),
    "negative std": (NODES, ["--std", "-2"], "std must be 0 or more, up to 1e+150; got --std -2"),
    "nan as a number": (NODES, ["--variance", "nan"], "variance must be 0 or more, up to 1e+300; got --variance nan"),
    "duplicate path": (NODES + "x,p,3,1\n", [], "row 4 (line 5): row 2 is 'x', 'p' too; a path has one row"),
    "two totals": (NODES + "*,*,3,1\n,,3,1\n", [], "row 5 (line 6): row 4 is the total too"),
    "missing parent": (NODES + "y,p,3,1\n", [], "row 4 (line 5): the path 'y', 'p' has no row for its parent"),
    "missing parent, remedy": (NODES + "y,p,3,1\n", [], "--fill"),
    "hole in a path": (NODES + ",p,3,1\n", [], "row 4 (line 5): 'a' is empty but 'b' below it is not"),
    "contradiction": (NODES, ["--variance", "0"], "a=x is 5, but below it are exactly 2 (a=x, b=p) + 2 (a=x, b=q)"),
    "empty table": ("a,b,n,v\n", [], "an empty table"),
    "empty file": ("", [], "is empty"),
    "ragged row": (NODES + "x\n", [], "row 4 (line 5) has 1 cells, but the header has 4"),
    "no such level": (NODES, ["--levels", "a,B"], "has no column 'B'"),
    "no such level, hint": (NODES, ["--levels", "a,bb"], "did you mean 'b'? its columns are a, b, n, v"),
    "no level": (NODES, ["--levels", ""], "has no column ''"),
    "level twice": (NODES, ["--levels", "a,b,a"], "got levels a,b,a"),
    "no such value": (NODES, ["--value", "m"], "has no column 'm'"),
    "no such variance": (NODES, ["--variance", "var"], "has no column 'var', which is not a number either"),
    "beyond numbers": (
        NODES,
        ["--variance", "1e400"],
        "variance must be 0 or more, up to 1e+300; got --variance 1e400",
    ),
    "two separators": ("a;b,n;v\nx;,5;1\n", [], "may be separated by ',' or ';'"),
    "too few levels": (NODES, ["--variance", "1,2,3"], "each of the 2 levels (a, b); got 3"),
    "the total is a level": (NODES + "*,*,3,1\n", ["--variance", "1,2"], "each of the 3 levels (total, a, b); got 2"),
    "no way": (NODES, ["--variance", ""], "has no column ''"),
    "two ways": (NODES, ["--std", "2", "--variance", "4"], "got --variance and --std"),
    "three ways": (
        NODES,
        ["--std", "2", "--variance", "4", "--noise", "dlap:rate=1"],
        "--variance and --std and --noise",
    ),
    "epsilon alone": (NODES, ["--noise", "api:epsilon=1"], "'contribution' is missing"),
    "noise beside variance": (NODES, ["--variance", "1", "--noise", "laplace:scale=1"], "got --variance and --noise"),
    "other noise": (NODES, ["--noise", "gauss:std=1"], "noise is stated as one of laplace:scale=…"),
    "no parameter of it": (NODES, ["--noise", "laplace:rate=1"], "'rate' is not one of its parameters"),
    "no epsilon": (NODES, ["--noise", "api:epsilon=0,contribution=1"], "epsilon is a positive number; got 0"),
    "nan epsilon": (NODES, ["--noise", "api:epsilon=nan,contribution=1"], "epsilon must be 0 or more"),
    "tiny epsilon": (NODES, ["--noise", "api:epsilon=1e-300,contribution=1"], "rate of noise must be at least"),
    "no l1": (NODES, ["--noise", "api:epsilon=1,contribution=1,l1=0"], "l1 is a positive number; got 0"),
    "negative contribution": (NODES, ["--noise", "api:epsilon=1,contribution=-1"], "contribution must be 0 or more"),
    "clash": (NODES.replace("v\n", "low\n"), ["--variance", "1"], "already has a column 'low'"),
    "clash, remedy": (NODES.replace("v\n", "low\n"), ["--variance", "1"], "--prefix"),
    "clash with variance": (NODES.replace("v\n", "variance\n"), ["--variance", "1"], "has a column 'variance'"),
    "clash of both": (
        NODES.replace("n,v\n", "noise_variance,variance\n"),
        ["--variance", "variance", "--value", "noise_variance"],
        "already has a column 'noise_variance'",
    ),
    "negative exact figure": (
        NODES.replace("x,q,2", "x,q,-2"),
        ["--variance", "1,0", "--estimator", "nonnegative"],
        "a=x, b=q",
    ),
    "line breaks in a label": ('a,b,n,v\n"x\ny",,5,1\n"x\ny",,6,1\n', [], "row 2 (line 4): row 1 is 'x\\ny' too"),
}


@pytest.mark.parametrize(("data", "options", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_a_mistake_is_one_line_and_leaves_the_old_file(
    data: str, options: list[str], message: str, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(data)
    out.write_text("old")
    ways = {"--variance", "--std", "--noise"} & set(options)
    levels, value = (
        options[options.index(name) + 1] if name in options else usual
        for name, usual in (("--levels", "a,b"), ("--value", "n"))
    )
    rest = [*options, *([] if ways else ["--variance", "v"]), "-o", str(out)]
    result = run(*rest, table=str(source), levels=levels, value=value)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert message in result.stderr and result.stdout == ""
    assert out.read_text() == "old" and sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv"]


def test_no_way_to_give_the_variance_lists_them() -> None:
    result = run(data=SMALL)
    assert result.exit_code == 2
    assert "how much noise do the figures have? Say it with --noise, --std or --variance" in result.stderr


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([True, False]), "column 'n' is bool; numbers are needed"),
        (pa.array([[1], [2]]), "column 'n' is list<.*>; numbers are needed"),
        (pa.array([1, None]), r"in.parquet: row 2: column 'n' has an empty cell"),
        (pa.array(["1", "x"]).dictionary_encode(), "in.parquet: row 2: 'x' in column 'n' is not a number"),
    ],
    ids=["bool", "list", "null", "category"],
)
def test_parquet_columns_that_are_no_numbers(column: pa.Array, message: str, tmp_path: Path) -> None:
    write_table(pa.table({"a": ["x", "y"], "n": column}), str(tmp_path / "in.parquet"))
    result = run("--variance", "1", table=str(tmp_path / "in.parquet"), levels="a", value="n")
    assert result.exit_code == 2 and re.search(message, result.stderr), result.output


def test_lists_are_no_labels(tmp_path: Path) -> None:
    write_table(pa.table({"a": [[1], [2]], "n": [1, 2]}), str(tmp_path / "in.parquet"))
    result = run("--variance", "1", table=str(tmp_path / "in.parquet"), levels="a", value="n")
    assert result.exit_code == 2 and "the labels of a level are text, numbers or dates" in result.stderr


@pytest.mark.parametrize("out", ["no/out.csv", "out.ods", "."])
def test_a_bad_output_is_refused_before_reading(out: str, tmp_path: Path) -> None:
    result = run("--variance", "1", "-o", str(tmp_path / out), table="there is none")
    assert result.exit_code == 2 and "there is none" not in result.stderr and not list(tmp_path.iterdir())


def test_our_bug_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("two\nlines")

    monkeypatch.setattr("attributary.pipeline.written_table.with_metadata", broken)
    monkeypatch.delenv("ATTRIBUTARY_DEBUG", raising=False)
    result = run("--variance", "v", data=SMALL)
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert "internal error in attributary" in result.stderr and "ATTRIBUTARY_DEBUG=1" in result.stderr
    monkeypatch.setenv("ATTRIBUTARY_DEBUG", "1")
    assert isinstance(run("--variance", "v", data=SMALL).exception, ValueError)


WHOLE = {}
for _kind in ("csv", "parquet", "arrow", "arrows"):
    _out = CliRunner().invoke(
        main,
        ["denoise", "--table", "-", "--levels", "a,b,c", "--value", "noisy", "--variance", "v", "-q", "--prefix", "_",
         "--format", _kind],
        input=SMALL,
    )  # fmt: skip
    WHOLE[_kind] = _out.stdout_bytes


@pytest.mark.parametrize("kind", WHOLE)
def test_no_bytes_make_a_traceback(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / f"in.{kind}"
    whole = WHOLE[kind]
    places = st.integers(0, len(whole) - 1)

    def damaged(changes: list[tuple[int, int]], end: int) -> bytes:
        data = bytearray(whole)
        for place, byte in changes:
            data[place] = byte
        return bytes(data[:end])

    mutated = st.builds(
        damaged, st.lists(st.tuples(places, st.integers(0, 255)), max_size=4), st.one_of(st.just(len(whole)), places)
    )

    @settings(max_examples=examples(80), deadline=None)
    @given(data=st.one_of(mutated, st.binary(max_size=200), st.text('a,b\n"\r1\t;é').map(str.encode)))
    @example(data=whole)
    def survives(data: bytes) -> None:
        path.write_bytes(data)
        for fill in ([], ["--fill"]):
            result = run("--variance", "v", "-q", *fill, table=str(path))
            assert result.exit_code in (0, 2), (result.output, result.exception)
            assert (result.exit_code == 0) == (result.stderr == "")

    survives()


# --- the process -----------------------------------------------------------------------------------------------------


def command(*args: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PYTHON, *args], capture_output=True, timeout=60, check=False, **more)


ARGS = ["--levels", "a,b,c", "--value", "noisy", "--variance", "v"]


def test_standard_input_to_standard_output() -> None:
    result = command("denoise", "--table", "-", *ARGS, "-q", input=SMALL.encode())
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode() == run("--variance", "v", "-q", data=SMALL).stdout


def test_interrupted_while_reading_leaves_the_old_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out.csv").write_text("old")
    code = """
import io, os, signal, sys
from attributary.cli import main
from attributary.tables import table_source
class Pipe(io.FileIO):
    def read(self):
        super().read(10)
        os.kill(os.getpid(), signal.SIGINT)
        return super().read()
table_source.open = Pipe
main(sys.argv[1:])
"""
    args = [sys.executable, "-c", code, "denoise", "--table", "pipe", *ARGS, "-o", "out.csv"]
    with (
        subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process,
        open(tmp_path / "pipe", "w") as writing,  # waits until the command opens it for reading
    ):
        writing.write(SMALL)
        writing.flush()
        _, words = process.communicate(timeout=60)
    assert (process.returncode, words) == (130, "interrupted; nothing was written\n")
    assert (tmp_path / "out.csv").read_text() == "old" and sorted(os.listdir(tmp_path)) == ["out.csv", "pipe"]


def test_interrupted_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(SMALL)
    (tmp_path / "out.csv").write_text("old")
    code = """
import os, signal, sys
from attributary.cli import main
from attributary.errors import InputError, TryAgain
from attributary.tables import table_writer as write
whole = write.text
def slow(*args):
    for block in whole(*args):
        yield block
        assert any(name.endswith(".tmp") for name in os.listdir("."))
        os.kill(os.getpid(), signal.SIGINT)
write.text = slow
main(sys.argv[1:])
"""
    args = [sys.executable, "-c", code, "denoise", "--table", "in.csv", *ARGS, "-o", "out.csv"]
    result = subprocess.run(args, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (130, b"interrupted; nothing was written\n")
    assert (tmp_path / "out.csv").read_text() == "old" and sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv"]


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [*PYTHON, "denoise", "--table", "-", *ARGS], input=SMALL.encode(), stdout=writing, stderr=subprocess.PIPE,
        timeout=60, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.parametrize("args", ["--help", "--version", "denoise --help"])
def test_starting_up_imports_nothing_heavy(args: str) -> None:
    code = (
        "import sys; from attributary.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: print([m for m in ('pyarrow', 'numba', 'pandas', 'rich', 'scipy') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *args.split()], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0 and result.stdout.splitlines()[-1] == "[]"


# --- what ended it, as a line and a code -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("nothing", "no such command 'nothing'; see `attributary --help`"),
        ("--nothing", "no such option '--nothing'; see `attributary --help`"),
        ("denoise --nothing", "see `attributary denoise --help`"),
        ("denoise --confidence x", "invalid value for '--confidence': 'x' is not a valid float"),
        ("denoise --estimator best", "'unbiased', 'nonnegative', 'learned', 'posterior'; see"),
        ("plan", "missing argument 'SPEC'; see `attributary plan --help`"),
        ("evaluate x --draws 1", "1 draw has no standard error"),
        ("denoise plan.json", "got only one file"),
    ],
)
def test_a_mistake_in_the_options_is_one_line_too(args: str, words: str) -> None:
    result = CliRunner().invoke(main, args.split())
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert words in result.stderr and result.stdout == ""


def _raised(error: Exception) -> Exception:
    """The error as a reader of files would make one line of it."""
    try:
        try:
            raise error
        except Exception:
            raise InputError("in.csv cannot be read") from None
    except InputError as refused:
        return refused


FULL = OSError(errno.ENOSPC, "No space left on device")
ENDS: dict[str, tuple[BaseException, int]] = {
    "memory": (MemoryError(), 75),
    "Arrow's memory": (pa.ArrowMemoryError("malloc of size 1"), 75),
    "disk": (FULL, 75),
    "quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), 75),
    "files": (OSError(errno.EMFILE, "Too many open files"), 75),
    "disk behind a refusal": (_raised(FULL), 75),
    "memory behind a refusal": (_raised(MemoryError()), 75),
    "disk, of a library": (RuntimeError('Could not write "/tmp/x": No space left on device'), 75),
    "try again": (TryAgain("Spark does not start"), 75),
    "a refusal": (InputError("in.csv is empty"), 2),
    "depth": (RecursionError(), 2),
    "no text": (UnicodeEncodeError("utf-8", "\ud800" * 500, 0, 1, "surrogates not allowed"), 2),
    "a bug": (KeyError("x"), 1),
    "interrupted": (KeyboardInterrupt(), 130),
    "the reader has gone": (BrokenPipeError(), 141),
}


@pytest.mark.parametrize(("error", "code"), ENDS.values(), ids=ENDS.keys())
def test_whatever_ends_a_command_has_its_code_and_at_most_one_line(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object) -> None:
        raise error

    monkeypatch.setattr("attributary.pipeline.written_table.with_metadata", ends)
    monkeypatch.delenv("ATTRIBUTARY_DEBUG", raising=False)
    result = run("--variance", "v", data=SMALL)
    assert result.exit_code == code and result.stderr.count("\n") == (code != 141) and len(result.stderr) < 2100
    assert code != 75 or result.stderr.startswith("not now: ")


def shell(words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    line = words.replace("attributary", " ".join(PYTHON), 1)
    return subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, check=False, **more)


DENOISE = "attributary denoise --table {} --levels a,b,c --value noisy --variance v"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    first_of(
        [
            (DENOISE.format("-") + " -o out.csv <&-", 2, b"standard input is closed"),
            (DENOISE.format("in.csv") + " >&-", 2, b"standard output is closed"),
            (DENOISE.format("in.csv") + " -o out.csv >&- <&-", 0, b"rows written"),
            (DENOISE.format("in.csv") + " -o out.csv >&- <&- 2>&-", 0, b""),
            (DENOISE.format("in.csv") + " >/dev/full", 75, b"not now: "),
            (DENOISE.format("in.csv") + " -o /dev/full", 75, b"not now: "),
            ("attributary --help >/dev/full", 75, b"not now: "),
            ("attributary --help >&-", 2, b"standard output is closed"),
            ("attributary denoise --nothing 2>&-", 2, b""),
        ]
    ),
)
def test_closed_and_full_streams(words: str, code: int, says: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(SMALL)
    result = shell(words, cwd=tmp_path)
    assert result.returncode == code and says in result.stderr and b"Traceback" not in result.stderr, result.stderr
    if code == 0:
        assert (tmp_path / "out.csv").read_text() == run("--variance", "v", "-q", data=SMALL).stdout


@pytest.mark.parametrize("args", ["--help", "denoise --help", "--version"])
def test_whoever_reads_the_help_may_stop(args: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([*PYTHON, *args.split()], stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")


def test_whoever_reads_the_tables_of_messages_may_stop(tmp_path: Path) -> None:
    """As in `2>&1 | head -1`; Rich, which prints tables, would end with code 1."""
    reading, writing = os.pipe()
    os.close(reading)
    args = [*PYTHON, "denoise", "--table", "-", *ARGS, "-o", str(tmp_path / "out.csv")]
    result = subprocess.run(args, input=SMALL.encode(), stderr=writing, timeout=60, check=False)
    os.close(writing)
    assert result.returncode == 141


def test_names_that_are_not_utf8_are_refused() -> None:
    result = subprocess.run([*PYTHON, "count", b"\xff.toml"], capture_output=True, timeout=60, check=False)
    assert result.returncode == 2 and result.stderr.startswith(b"error: names of files and options are UTF-8; got")


def test_interrupted_after_a_file_was_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(SMALL)
    code = """
import os, signal, sys
from attributary.cli import main, print_results
def late(*args): os.kill(os.getpid(), signal.SIGINT)
print_results.print_estimates = late
main(sys.argv[1:])
"""
    args = [sys.executable, "-c", code, "denoise", "--table", "in.csv", *ARGS, "-o", "out.csv"]
    result = subprocess.run(args, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (130, b"interrupted; already written: out.csv\n")
    assert (tmp_path / "out.csv").exists()


def test_every_whole_number_that_an_option_takes_has_a_bound() -> None:
    """Numbers of hundreds of digits are no number of rows, threads or draws; any number may seed."""
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    options = [(name, option) for name, command in commands.items() if command for option in command.params]
    numbers = [(name, option) for name, option in options if isinstance(option.type, click.types.IntParamType)]
    assert len(numbers) > 10
    unbounded = [f"{name} {option.name}" for name, option in numbers if getattr(option.type, "max", None) is None]
    assert [words for words in unbounded if "seed" not in words] == []

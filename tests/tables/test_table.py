"""Tables survive the way into a file and out again; what is wrong with a file is said in one line."""

import csv
import datetime
import gzip
import io
import os
import stat
import sys
from collections.abc import Callable
from decimal import Decimal
from math import isnan, nan
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attributary.errors import InputError
from attributary.tables import check_output, place, read_table, write_table
from attributary.tables import table_writer as text_module
from attributary.tables import table_writer as write_module
from attributary.tables.table_columns import SEEDED, TRUE_COUNTS, mark, words_of
from support.effort import examples

TEXT = ["csv", "tsv"]
ENDINGS = [*TEXT, "csv.gz", "tsv.zst", "parquet", "arrow", "feather", "arrows"]
awkward = st.one_of(
    st.text(st.sampled_from("\", \t\r\n;\\'0x*é😀\ufeff\x00"), max_size=6),
    st.text(max_size=8),
    st.sampled_from(["007", " x ", "NA", "null", "nan", "1e5", '"', '""', "\r\n", "-", "a,b"]),
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(awkward, min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(1, 6))
    column = st.lists(awkward, min_size=rows, max_size=rows)
    return pa.table({name: draw(column) for name in names})


def empty_is_null(table: pa.Table) -> pa.Table:
    return pa.table({name: [cell or None for cell in table[name].to_pylist()] for name in table.column_names}).cast(
        table.schema
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_of_awkward_text_survives(ending: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("round") / f"t.{ending}")

    @settings(max_examples=examples(70), deadline=None)
    @given(table=tables())
    @example(table=pa.table({"\ufeffa": ["\ufeff", "x"], "": ["", "007"]}))
    @example(table=pa.table({"one": ["", "", "x", ""]}))
    def survives(table: pa.Table) -> None:
        write_table(table, path)
        text = ending.startswith(("csv", "tsv"))
        assert read_table(path).equals(empty_is_null(table) if text else table)

    survives()


@settings(max_examples=examples(70), deadline=None)
@given(table=tables(), kind=st.sampled_from(TEXT))
def test_text_reads_the_same_elsewhere(table: pa.Table, kind: str) -> None:
    delimiter = "," if kind == "csv" else "\t"
    written = b"".join(bytes(block) for block in text_module.text(table, delimiter)).decode()
    rows = list(csv.reader(io.StringIO(written, newline=""), delimiter=delimiter))
    assert rows == [table.column_names, *(list(map(str, row.values())) for row in table.to_pylist())]


@settings(max_examples=examples(100), deadline=None)
@given(values=st.lists(st.floats(), min_size=1) | st.lists(st.sampled_from([0.0, -0.0, 0.1, nan]), min_size=9))
def test_numbers_keep_all_their_digits(values: list[float]) -> None:
    blocks = text_module.text(pa.table({"x": values}), ",")
    lines = b"".join(bytes(block) for block in blocks).decode().splitlines()
    assert [repr(float(line)) for line in lines[1:]] == ["nan" if isnan(v) else repr(v) for v in values]


def test_text_is_quoted_only_where_needed_and_null_is_empty(tmp_path: Path) -> None:
    table = pa.table(
        {
            "name": ["plain", 'say "hi"', "a,b", "two\nlines", None],
            "n": pa.array([1, None, 3, 4, 2**60]),
            "x": [0.1, 1e300, None, float("inf"), -0.0],
            "when": pa.array([datetime.date(2024, 2, 29)] * 5),
            "money": [Decimal("1.50")] * 5,
            "yes": [True, False, None, True, True],
            "kind": pa.array(["p", "q", None, "p", "q"]).dictionary_encode(),
        }
    )
    write_table(table, str(tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").read_text().split("\n") == [
        "name,n,x,when,money,yes,kind",
        "plain,1,0.1,2024-02-29,1.50,true,p",
        '"say ""hi""",,1e+300,2024-02-29,1.50,false,q',
        '"a,b",3,,2024-02-29,1.50,,',
        '"two',
        'lines",4,inf,2024-02-29,1.50,true,p',
        ",1152921504606846976,-0,2024-02-29,1.50,true,q",
        "",
    ]


def test_many_blocks_and_chunks_keep_their_order(tmp_path: Path) -> None:
    n = 3 * text_module.ROWS + 5
    half = pa.table({"i": [str(i) for i in range(n)], "note": ["a,b" if i % 7 == 0 else "c" for i in range(n)]})
    table = pa.concat_tables([half, half.slice(3), half])
    write_table(table, str(tmp_path / "t.csv"))
    assert read_table(str(tmp_path / "t.csv")).equals(table)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_types_survive(ending: str, tmp_path: Path) -> None:
    piece = pa.table({"k": pa.array(["a", "b"]).dictionary_encode(), "l": [[1], [2, 3]], "d": [datetime.date.min] * 2})
    other = pa.table({"k": pa.array(["z", "a"]).dictionary_encode(), "l": [[1], None], "d": [None, datetime.date.max]})
    table = pa.concat_tables([piece, other.cast(piece.schema)])
    write_table(table, str(tmp_path / f"t.{ending}"))
    assert read_table(str(tmp_path / f"t.{ending}")).to_pydict() == table.to_pydict()


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfa,b\r\n007,\xc3\xa9\r\n",
        b"a,b\n007,\xc3\xa9",
        b'"a","b"\n\n"007","\xc3\xa9"\n\n',
        b"a\tb\n007\t\xc3\xa9\n",
        gzip.compress(b"a,b\r007,\xc3\xa9\r"),
    ],
    ids=["BOM and CRLF", "no last line end", "blank lines and quotes", "tabs", "gzip and CR"],
)
@pytest.mark.parametrize("where", ["standard input", "file of unknown ending"])
def test_text_is_read_as_it_stands(data: bytes, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    table = read_table("-" if where == "standard input" else str(tmp_path / "data"))
    assert table.to_pydict() == {"a": ["007"], "b": ["é"]}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows", "tsv"])
def test_first_bytes_tell_the_format(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"a": ["x"], "b": ["y"]})
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    write_table(table, "-", kind)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.buffer.getvalue())))  # type: ignore[attr-defined]
    assert read_table("-").equals(table)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a,b\n1,2\n")
    os.close(writing)
    assert read_table(f"/dev/fd/{reading}").to_pydict() == {"a": ["1"], "b": ["2"]}
    os.close(reading)


def parquet_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


WHOLE = parquet_of(pa.table({"a": ["x"] * 1000}))
INPUTS = {
    "empty": ("t.csv", b"", "is empty"),
    "blank": ("t.csv", b"\n\n\n", "is empty"),
    "header only": ("t.csv", b"a,b\n", "an empty table: it has 2 columns and no rows"),
    "header without line end": ("t.csv", b"a,b", "t.csv"),
    "no rows in Parquet": ("t.parquet", parquet_of(pa.table({"a": pa.array([], pa.string())})), "an empty table"),
    "short row": ("t.csv", b"a,b\n1,2\n3\n4,5\n", r"row 2 \(line 3\) has 1 cells, but the header has 2"),
    "long row after odd ones": ("t.csv", b'a,b\n\n"1\n1",2\n3,4,5\n', r"row 2 \(line 5\) has 3 cells"),
    "short row in TSV": ("t.tsv", b"a\tb\n1,2\n", r"row 1 \(line 2\) has 1 cells"),
    "short row far down": ("t.csv", b"a,b\n" + b"1,2\n" * 300_000 + b"3\n", r"row 300001 \(line 300002\) has 1"),
    "two separators": ("t.csv", b"a;b,c\n1;2,5\n", "may be separated by ',' or ';'"),
    "semicolons and a short row": ("t.csv", b"a;b;c\n1;2\n3;4;5\n", "row 1 .* has"),
    "open quotes": ("t.csv", b'a,b\n1,2\n"3,4\n5,6\n', "quotes do not close in the row after line 2"),
    "open quotes, long": ("t.csv", b'a,b\n1,2\n"3,4\n' + b"5,6\n" * 600_000, "quotes do not close"),
    "neither UTF-8 nor cp1252": ("t.csv", b"a,b\n1,2\ncaf\x81,3\n", "line 3 is not UTF-8"),
    "no text in the header": ("t.csv", b"caf\xe9\x00,b\n1,2\n", "line 1 is not UTF-8"),
    "short row in cp1252": ("t.csv", b"a,b\ncaf\xe9,2\n3\n", r"row 2 \(line 3\) has 1 cells"),
    "text called a spreadsheet": ("t.xlsx", b"a,b\n1,2\n", "is not a whole spreadsheet"),
    "UTF-16 cut": ("t.csv", "a,b\n1,2\n".encode("utf-16")[:-1], "begins as UTF-16, but is not"),
    "spreadsheet": ("t.csv", b"PK\x03\x04" + bytes(range(256)), "a spreadsheet, not text"),
    "Parquet called CSV": ("t.csv", WHOLE, "is Parquet, whatever its ending says"),
    "CSV called Parquet": ("t.parquet", b"a,b\n1,2\n", "not a whole Parquet file"),
    "CSV called Arrow": ("t.arrow", b"a,b\n1,2\n", "not a whole Arrow file"),
    "truncated Parquet": ("t.parquet", WHOLE[:-20], "not a whole Parquet file"),
    "truncated gzip": ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 99)[:-9], "ends too early or is damaged"),
    "damaged gzip": ("t.csv.gz", b"\x1f\x8b" + b"?" * 99, "cannot be read"),
    "two columns of a name": ("t.csv", b"a,b,a\n1,2,3\n", "two columns called 'a'"),
    "two columns of a name in Parquet": (
        "t.parquet",
        parquet_of(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])),
        "two columns called 'a'",
    ),
    "text that is not UTF-8 in Parquet": (
        "t.parquet",
        parquet_of(pa.table({"a": pa.array([b"\xff"]).view(pa.string())})),
        "not a whole Parquet file: .*UTF8",
    ),
}


@pytest.mark.parametrize(("name", "data", "message"), INPUTS.values(), ids=INPUTS.keys())
def test_a_bad_file_is_refused(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        read_table(str(tmp_path / name))
    assert "\n" not in str(error.value) and name in str(error.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file .*none.csv"):
        read_table(str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match="is a folder"):
        read_table(str(tmp_path))


OUTPUTS = {
    "unknown ending": ("t.ods", None, "does not end like a table; end it in .csv"),
    "no ending": ("t", None, "does not end like a table"),
    "compressed Parquet": ("t.parquet.gz", None, "does not end like a table"),
    "no such folder": ("none/t.csv", None, "there is no folder .*none; make it"),
    "a folder": ("", None, "is a folder"),
    "unknown format": ("t.csv", "ods", "format is one of csv, tsv, xlsx, parquet, arrow, arrows; got 'ods'"),
}


@pytest.mark.parametrize(("name", "kind", "message"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_a_bad_output_is_refused_before_the_work(name: str, kind: None, message: str, tmp_path: Path) -> None:
    for refuse in (lambda p: check_output(p, kind), lambda p: write_table(pa.table({"a": [1]}), p, kind)):
        with pytest.raises(InputError, match=message):
            refuse(str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_lists_have_no_place_in_text_and_leave_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("old")
    with pytest.raises(InputError, match="no room for column 'l', which is list"):
        write_table(pa.table({"l": [[1], [2]]}), str(tmp_path / "t.csv"))
    assert [(f.name, f.read_text()) for f in tmp_path.iterdir()] == [("t.csv", "old")]


def test_a_full_disk_is_the_users_to_mend() -> None:
    with pytest.raises(InputError, match="/dev/full cannot be written: No space left"):
        write_table(pa.table({"a": [1]}), "/dev/full")
    write_table(pa.table({"a": [1]}), "/dev/null")


def test_a_terminal_gets_no_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match="parquet is not for the eye"):
        check_output("-", "parquet")
    assert check_output("-").format == "csv"


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_an_interrupted_write_leaves_the_old_file(
    error: type[BaseException], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(table: pa.Table, delimiter: str, newline: str) -> Callable[[], bytes]:
        yield b"half\n" * 100_000
        raise error

    path = tmp_path / f"t.{ending}"
    path.write_text("old")
    monkeypatch.setattr(write_module, "text", interrupted)
    with pytest.raises(error):
        write_table(pa.table({"a": [1]}), str(path))
    assert [(f.name, f.read_text()) for f in tmp_path.iterdir()] == [(path.name, "old")]


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    target, link, new = tmp_path / "t.csv", tmp_path / "link.csv", tmp_path / "new.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_table(pa.table({"a": [1]}), str(link))
    assert link.is_symlink() and target.read_text() == "a\n1\n" and stat.S_IMODE(target.stat().st_mode) == 0o640
    new.touch()
    usual = new.stat().st_mode
    new.unlink()
    write_table(pa.table({"a": [1]}), str(new))
    assert new.stat().st_mode == usual


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_a_row_is_found_in_its_line(ending: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"t.{ending}")
    write_table(pa.table({"a": ["1", "two\nlines", "3", "4"], "b": ["x"] * 4}), path)
    assert [place(path, row).removeprefix(path) for row in (0, 1, 2, 3, 4)] == [
        ": row 1 (line 2)",
        ": row 2 (line 3)",
        ": row 3 (line 5)",
        ": row 4 (line 6)",
        ": row 5",
    ]


def test_a_row_without_lines_is_a_row(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1]}), str(tmp_path / "t.parquet"))
    assert place(str(tmp_path / "t.parquet"), 0).endswith("t.parquet: row 1")
    assert place("-", 0) == "standard input: row 1"
    assert place("/none.csv", 0) == "/none.csv: row 1"


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_names_of_columns_that_are_blank_are_no_title(ending: str, tmp_path: Path) -> None:
    table = pa.table([["0"], [";"], ["00"]], names=["0", " ", ""])
    write_table(table, str(tmp_path / f"t.{ending}"))
    assert read_table(str(tmp_path / f"t.{ending}")).equals(table)


def _shards(folder: Path, *tables: pa.Table) -> str:
    folder.mkdir()
    for i, table in enumerate(tables):
        parquet.write_table(table, folder / f"part-{i}.parquet")
    return str(folder)


def test_a_folder_of_shards_is_as_little_private_as_any_of_them(tmp_path: Path) -> None:
    plain = pa.table({"a": ["x"]})
    marked = [mark(plain, TRUE_COUNTS), mark(plain, SEEDED)]
    assert words_of(read_table(_shards(tmp_path / "s", plain, *marked))) == f"{TRUE_COUNTS} | {SEEDED}"
    assert words_of(read_table(_shards(tmp_path / "p", plain, plain))) == ""
    column = plain.append_column("not_private", pa.array([TRUE_COUNTS]))
    assert words_of(read_table(_shards(tmp_path / "c", column, column))) == TRUE_COUNTS


def test_shards_may_be_without_rows_and_have_columns_of_other_types_in_another_order(tmp_path: Path) -> None:
    first = pa.table({"a": pa.array(["x"]).dictionary_encode(), "b": pa.array([1], pa.int32())})
    other = pa.table({"b": pa.array([2**40]), "a": pa.array(["y"], pa.large_string())})
    rows = [{"a": "x", "b": 1}, {"a": "y", "b": 2**40}]
    assert read_table(_shards(tmp_path / "s", first.slice(0, 0), first, other)).to_pylist() == rows
    assert read_table(_shards(tmp_path / "t", other.slice(0, 0), first, other)).to_pylist() == rows
    with pytest.raises(InputError, match="e is an empty table: it has 2 columns and no rows"):
        read_table(_shards(tmp_path / "e", first.slice(0, 0)))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"a": ["y"]}, "part-1.parquet has no column 'b', which .*part-0.parquet has"),
        ({"a": ["y"], "b": [2], "c": [3]}, "part-0.parquet has no column 'c', which .*part-1.parquet has"),
        ({"a": ["y"], "b": ["2"]}, "part-1.parquet does not go with the other shards: .*string"),
        ({"a": ["y"], "b": [0.5]}, "part-0.parquet does not go with the other shards: .*9007199254740993"),
    ],
)
def test_a_shard_of_another_kind_is_named(other: dict[str, list[object]], words: str, tmp_path: Path) -> None:
    one = pa.table({"a": ["x"], "b": [2**53 + 1]})
    with pytest.raises(InputError, match=words):
        read_table(_shards(tmp_path / "s", one, pa.table(other)))

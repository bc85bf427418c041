"""The published files are read as they are, however packed; last touch is a plain program's; wrong files are told."""

import gzip
import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attributary.errors import InputError
from attributary.paper import generate, load
from attributary.paper.load import DATASETS, Name, figures, published_table
from attributary.paper.look_alike import user_ids
from support.effort import examples, first_of

CSSCL, CAMB = DATASETS["csscl"].columns, DATASETS["camb"].columns

ROWS = 20_000
PACKED = ["tsv", "tsv.gz", "tar.gz", "zip", "tar"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Look-alikes of both datasets in Parquet and in the published format, packed in every way."""
    folder = tmp_path_factory.mktemp("criteo")
    for kind, inside in (("csscl", "CriteoSearchData"), ("camb", "criteo_attribution_dataset.tsv.gz")):
        generate(kind, str(folder / f"{kind}.parquet"), ROWS, 4)
        generate(kind, str(folder / f"{kind}.tsv.gz"), ROWS, 4)
        (folder / f"{kind}.tsv").write_bytes(gzip.decompress((folder / f"{kind}.tsv.gz").read_bytes()))
        pack(folder, kind, inside)
    return folder


def pack(folder: Path, kind: str, inside: str) -> None:
    readme, data = b"about the data\n", (folder / f"{kind}.tsv{'.gz' if inside.endswith('.gz') else ''}").read_bytes()
    with zipfile.ZipFile(folder / f"{kind}.zip", "w") as archive:
        archive.writestr("data/README.md", readme)
        archive.writestr(f"data/{inside if inside.endswith('.gz') else inside + '.tsv'}", data)
    text = (folder / f"{kind}.tsv").read_bytes()
    for mode, ending in (("w:gz", "tar.gz"), ("w", "tar")):
        with tarfile.open(folder / f"{kind}.{ending}", mode) as tar:
            for name, content in (("data/README", readme), ("data/CriteoSearchData", text)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def rows(connection: Any, path: Path | str, name: Name, **options: Any) -> list[dict[str, Any]]:
    found = load(connection, str(path), name, **{"expect": "any", **options})
    return connection.sql(found.sql).to_arrow_table().to_pylist()  # type: ignore[no-any-return]


# The file, however it is packed


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("name", first_of(DATASETS))
def test_the_published_format_says_the_same_as_parquet(name: Any, packing: str, folder: Path, connection: Any) -> None:
    table = parquet.read_table(folder / f"{name}.parquet")
    if name == "csscl":
        place = table.schema.get_field_index("user")
        table = table.set_column(place, "user", user_ids(table["user"].to_numpy()))
    found = rows(connection, folder / f"{name}.{packing}", name)
    assert Counter(map(str, found)) == Counter(map(str, table.to_pylist()))


@pytest.mark.parametrize("packing", ["parquet", "tsv.gz", "zip"])
@pytest.mark.parametrize("name", DATASETS)
def test_a_table_can_be_read_again_and_again(name: Any, packing: str, folder: Path, connection: Any) -> None:
    found = load(connection, str(folder / f"{name}.{packing}"), name, expect="any")
    for _ in range(2):
        assert connection.sql(f"SELECT COUNT(*) FROM ({found.sql}) AS t").fetchall() == [(ROWS,)]
    types = {"csscl": ["TINYINT", "BIGINT", "DOUBLE"], "camb": ["TINYINT", "BIGINT", "TINYINT"]}[name]
    description = connection.sql(f"DESCRIBE {found.sql}").fetchall()
    assert [kind for column, kind, *_ in description if column in ("conversion", "delay", "amount", "click")] == types


def test_a_name_that_looks_like_a_pattern_is_a_name(folder: Path, connection: Any, tmp_path: Path) -> None:
    path = tmp_path / "it's [1]*?.tsv"
    path.write_bytes((folder / "camb.tsv").read_bytes())
    assert len(rows(connection, path, "camb")) == ROWS


def line(columns: dict[str, str], **cells: object) -> str:
    return "\t".join(str(cells.get(name, -1)) for name in columns) + "\n"


def header(columns: dict[str, str]) -> str:
    return "\t".join(columns) + "\n"


def csscl_row(**cells: object) -> str:
    return line(CSSCL, **{"Sale": 0, "click_timestamp": 5, "partner_id": "p", "user_id": "u", **cells})


@pytest.mark.parametrize("first", ["", header(CSSCL)], ids=["no header", "header"])
def test_missing_values_are_values_of_their_own(first: str, tmp_path: Path, connection: Any) -> None:
    sale = {"Sale": 1, "SalesAmountInEuro": 9.5, "Time_delay_for_conversion": 60}
    given = csscl_row(product_country="c", **sale) + csscl_row(click_timestamp=0, device_type="d", product_title='a "b')
    (tmp_path / "x").write_text(first + given)
    assert rows(connection, tmp_path / "x", "csscl") == [
        {"partner": "p", "country": "c", "device": "missing", "age_group": "missing", "time": 5, "user": "u"}
        | {"conversion": 1, "delay": 60, "amount": 9.5},
        {"partner": "p", "country": "missing", "device": "d", "age_group": "missing", "time": None, "user": "u"}
        | {"conversion": 0, "delay": None, "amount": None},
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("keep", (1, None, 9.5)), ("drop", (0, None, None)), ("first", (1, 0, 9.5))],
)
@pytest.mark.parametrize("ending", ["tsv", "parquet"])
def test_a_sale_without_a_delay_is_what_was_asked_for(
    choice: Any, expected: tuple[Any, ...], ending: str, tmp_path: Path, connection: Any
) -> None:
    path = tmp_path / f"x.{ending}"
    sale = {"Sale": 1, "SalesAmountInEuro": 9.5}
    given = csscl_row(**sale) + csscl_row(Time_delay_for_conversion=7, **sale) + csscl_row()
    (tmp_path / "x.tsv").write_text(given)
    if ending == "parquet":
        kept = pa.Table.from_pylist(rows(connection, tmp_path / "x.tsv", "csscl"))
        parquet.write_table(kept.replace_schema_metadata({"kind": "csscl"}), path)
    chosen = rows(connection, path, "csscl", unknown_delay=choice)
    found = [tuple(row[k] for k in ("conversion", "delay", "amount")) for row in chosen]
    assert found == [expected, (1, 7, 9.5), (0, None, None)]


# Last touch


touches = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 4),
        "campaign": st.sampled_from("ab"),
        "cat1": st.sampled_from("xy"),
        "conversion_id": st.integers(0, 2),
        "clicked": st.booleans(),
        "converted": st.booleans(),
    }
)


def published(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as Criteo would write them: positions count the clicks of a conversion in the order of time."""
    found = []
    for row in sorted(drawn, key=lambda row: row["timestamp"]):
        mine = [r for r in found if r["conversion_id"] == row["conversion_id"] and r["click_pos"] >= 0]
        counted = row["converted"] and row["clicked"]
        found.append(
            {k: row[k] for k in ("timestamp", "campaign", "cat1")}
            | {"uid": 1, "conversion": int(row["converted"]), "click": int(row["clicked"])}
            | {"conversion_id": row["conversion_id"] if row["converted"] else -1}
            | {"conversion_timestamp": 3 if row["converted"] else -1}
            | {"click_pos": len(mine) if counted else -1}
        )
    for row in found:
        same = [r for r in found if r["conversion_id"] == row["conversion_id"]]
        row["click_nb"] = 1 + max(r["click_pos"] for r in same) if row["conversion"] else -1
    return found


def plain_last_touch(given: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """For every conversion the row of its last click, or of the last impression before it; ties by what rows say."""
    kept: Counter[tuple[Any, ...]] = Counter()
    for number in {row["conversion_id"] for row in given} - {-1}:
        mine = [row for row in given if row["conversion_id"] == number]
        clicked = [row for row in mine if row["click_pos"] == row["click_nb"] - 1 and row["click_nb"] > 0]
        before = [row for row in mine if row["timestamp"] <= row["conversion_timestamp"]]
        choice = clicked or sorted(before, key=lambda row: (-row["timestamp"], row["campaign"], row["cat1"]))
        if choice and (clicked or all(row["click_nb"] <= 0 for row in mine)):
            row = choice[0]
            kept[row["campaign"], row["cat1"], row["timestamp"], row["conversion_timestamp"] - row["timestamp"]] += 1
    return kept


SEEN = {"timestamp": 2, "campaign": "a", "cat1": "x", "conversion_id": 0, "clicked": False, "converted": True}


@settings(max_examples=examples(60), deadline=None)
@given(drawn=st.lists(touches, min_size=1, max_size=12))
@example(drawn=[SEEN | {"campaign": "b"}, SEEN, SEEN | {"timestamp": 1}])  # a tie
@example(drawn=[SEEN | {"cat1": "y"}, SEEN, SEEN | {"timestamp": 4}])  # a tie, and one after the conversion
@example(drawn=[SEEN | {"timestamp": 4}])  # only after it
@example(drawn=[SEEN, SEEN | {"timestamp": 1, "clicked": True}])  # a click before the last impression
def test_last_touch_is_what_a_plain_program_says(drawn: list[dict[str, Any]], folder: Path, connection: Any) -> None:
    given = published(drawn)
    path = folder / "touch.tsv"
    path.write_text(header(CAMB) + "".join(line(CAMB, **row) for row in given))
    found = rows(connection, path, "camb")
    assert len(found) == len(given)
    touched = Counter((r["campaign"], r["cat1"], r["time"], r["delay"]) for r in found if r["conversion"])
    assert touched == plain_last_touch(given)
    assert all((row["delay"] is None) == (row["conversion"] == 0) for row in found)


def test_both_ways_to_find_the_last_touch_agree(folder: Path, connection: Any) -> None:
    camb = DATASETS["camb"]
    relation = published_table(connection, str(folder / "camb.tsv"), camb)
    quick, thorough = (
        Counter(connection.sql(sql.format(published=relation)).fetchall())
        for sql in (camb.impressions, camb.last_touch)
    )
    assert quick == thorough


# Wrong files


def test_the_published_file_is_told_from_others(folder: Path, connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(folder / "csscl.tsv")
    with pytest.raises(InputError, match="not CriteoSearchData as published: rows 20,000 instead of 15,995,634"):
        load(connection, path, "csscl")
    found = load(connection, path, "csscl", expect="any").figures
    assert not all(figure.agrees for figure in found)
    monkeypatch.setitem(DATASETS, "csscl", DATASETS["csscl"]._replace(published={f.name: f.value for f in found}))
    assert all(figure.agrees for figure in load(connection, path, "csscl").figures)


def test_figures_count_what_they_say(folder: Path, connection: Any) -> None:
    table = parquet.read_table(folder / "camb.parquet").to_pylist()
    found = figures(connection, f"SELECT * FROM '{folder}/camb.parquet'", DATASETS["camb"])
    assert [figure.value for figure in found] == [
        ROWS,
        sum(row["conversion_id"] is not None for row in table),
        sum(row["click_pos"] == 0 for row in table),
        len({row["campaign"] for row in table}),
        0,
    ]


@pytest.fixture(scope="module")
def damaged(folder: Path) -> dict[str, bytes]:
    """What is in files that are damaged or wrong."""
    text = (folder / "csscl.tsv").read_bytes()
    packed = (folder / "csscl.tsv.gz").read_bytes()
    camb = (folder / "camb.tsv").read_bytes()
    lines = text.splitlines(keepends=True)
    return {
        "cut.tsv.gz": packed[: len(packed) // 2],
        "cut.tar.gz": (folder / "csscl.tar.gz").read_bytes()[:-5_000],
        "cut.zip": (folder / "csscl.zip").read_bytes()[:-5_000],
        "flipped.tsv.gz": packed[:5_000] + bytes(10) + packed[5_010:],
        "cut.tsv": text[:-20],
        "commas.csv": text.replace(b"\t", b","),
        "word.tsv": b"".join([*lines[:9], b"zero" + lines[9][1:], *lines[10:]]),
        "short.tsv": b"".join([*lines[:9], b"0\t1\n", *lines[10:]]),
        "camb.tsv": camb,
        "empty.tsv": b"",
        "other.zip": _zip("notes.md", b"nothing"),
        "cut-inside.zip": _zip("x.tsv.gz", gzip.compress(text)[:-5_000]),
        "word.tar.gz": _tar(b"".join([*lines[:9], b"zero" + lines[9][1:], *lines[10:]])),
    }


def _zip(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, data)
    return file.getvalue()


def _tar(data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        member = tarfile.TarInfo("CriteoSearchData")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return file.getvalue()


@pytest.mark.parametrize("expect", ["published", "any"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut.tsv.gz", "cut off or damaged .*; fetch it again|ended before|ends too early"),
        ("cut.tar.gz", "cut off or damaged"),
        ("cut.zip", "cut off or damaged"),
        ("cut-inside.zip", "cut off or damaged"),
        ("flipped.tsv.gz", "damaged"),
        ("cut.tsv", "ends in the middle of a line"),
        ("commas.csv", "separated by ','; CriteoSearchData is separated by tabs"),
        ("word.tsv", "line 10: 'zero' in column Sale is not a number"),
        ("word.tar.gz", "invalid value 'zero'"),
        ("short.tsv", "line 10 has 2 cells instead of 23"),
        ("camb.tsv", "has 22 columns; CriteoSearchData has 23"),
        ("empty.tsv", "is empty; CriteoSearchData has 23 columns"),
        ("other.zip", "holds no .tsv"),
        ("no such file", "there is no file"),
        (".", "is a folder"),
    ],
)
def test_a_damaged_or_wrong_file_is_refused(
    name: str, words: str, expect: Any, damaged: dict[str, bytes], tmp_path: Path, connection: Any
) -> None:
    path = tmp_path / name
    if name in damaged:
        path.write_bytes(damaged[name])
    with pytest.raises(InputError, match=words) as error:
        load(connection, str(path), "csscl", expect=expect)
    assert str(path).rstrip(".") in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_file_without_its_columns_is_refused(folder: Path, tmp_path: Path, connection: Any) -> None:
    text = (folder / "camb.tsv").read_text()
    for change, words in (
        (
            text.replace("click_nb", "clicks", 1),
            "has no column 'click_nb'; criteo_attribution_dataset.tsv.gz has",
        ),
        (text.partition("\n")[2], "does not begin with its column names"),
        ((folder / "csscl.tsv").read_text(), "does not begin with its column names"),
    ):
        (tmp_path / "x.tsv").write_text(change)
        with pytest.raises(InputError, match=words):
            load(connection, str(tmp_path / "x.tsv"), "camb", expect="any")


def test_columns_in_another_order_are_found_by_name(folder: Path, tmp_path: Path, connection: Any) -> None:
    lines = [row.split("\t") for row in (folder / "camb.tsv").read_text().splitlines()]
    (tmp_path / "x.tsv").write_text("".join("\t".join([row[0], *row[:0:-1]]) + "\n" for row in lines))
    one, other = (rows(connection, path, "camb") for path in (folder / "camb.tsv", tmp_path / "x.tsv"))
    assert Counter(map(str, one)) == Counter(map(str, other))


def test_only_look_alikes_are_read_from_parquet(folder: Path, tmp_path: Path, connection: Any) -> None:
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_bytes(b"PAR1")
    for path, words in (
        (tmp_path / "x.parquet", "`attributary generate csscl` writes; .*x.parquet is not one"),
        (folder / "camb.parquet", "camb.parquet is a look-alike of camb"),
        (tmp_path / "y.parquet", "is not a whole Parquet file"),
        (tmp_path / "z.parquet", "there is no file"),
    ):
        with pytest.raises(InputError, match=words):
            load(connection, str(path), "csscl", expect="any")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "criteo"}, "the published datasets are csscl and camb; got 'criteo'"),
        ({"expect": "all"}, "expect is published or any; got 'all'"),
        ({"unknown_delay": "zero"}, "unknown_delay is one of keep, drop, first; got 'zero'"),
    ],
)
def test_options_that_do_not_exist_are_refused(options: Any, words: str, folder: Path, connection: Any) -> None:
    with pytest.raises(InputError, match=words):
        load(connection, str(folder / "csscl.tsv"), **{"name": "csscl", **options})

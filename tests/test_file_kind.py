"""What is this file? Every command says the same."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from click.testing import CliRunner

from attributary import Tree, denoise
from attributary.changes.period_files import table_of_period
from attributary.cli import main
from attributary.errors import InputError
from attributary.file_kind import KINDS, TAKES, Kind, file_kind, files_in
from attributary.measurements import Measurements
from attributary.tables import write_table

SPEC = """epsilon = 4
[[attribute]]
name = "campaign"
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Kind]:
    """A file of every kind in a folder, in several formats and under misleading endings."""
    import pyarrow as pa

    monkeypatch.chdir(tmp_path)
    tree = Tree.from_paths(pa.table({"campaign": ["a", "b", "c"]}), ["campaign"])
    est = denoise(Measurements(np.array([5.0, 7.0, 9.0]), np.array([1.0, 2.0, 3.0]), tree=tree))
    estimates = est.table()
    figures: dict[str, list[Any]] = {name: [1.0] for name in ("estimate", "variance", "low", "high")}
    ratios = pa.table({"measure": ["value per conversion"], "campaign": ["a"], **figures})
    tables: dict[str, tuple[Any, Kind]] = {
        "estimates": (estimates, "estimates"),
        "ratios": (ratios, "ratios"),
        "evaluation": (pa.table({"method": ["m"], "epsilon": [1.0], "tau": [5.0], "rmsre": [0.1]}), "evaluation"),
        "counts": (pa.table({"campaign": ["a"], "conversions": [3]}), "counts"),
        "raw": (pa.table({"campaign": ["a"], "visits": [3.5]}), "table"),
    }
    kinds: dict[str, Kind] = {}
    for name, (table, kind) in tables.items():
        for ending in ("csv", "tsv", "parquet", "arrow", "csv.gz"):
            write_table(table, f"{name}.{ending}")
            kinds[f"{name}.{ending}"] = kind
    Path("semicolon.csv").write_text(Path("estimates.csv").read_text().replace(",", ";"))
    Path("no_ending").write_bytes(Path("estimates.parquet").read_bytes())
    Path("text").write_bytes(Path("estimates.csv").read_bytes())
    kinds |= {"semicolon.csv": "estimates", "no_ending": "estimates", "text": "estimates"}
    Path("spec.toml").write_text(SPEC)
    assert CliRunner().invoke(main, ["plan", "spec.toml", "--prior", "counts.csv", "-o", "plan.json"]).exit_code == 0
    Path("plan_too").write_bytes(b"\xef\xbb\xbf" + Path("plan.json").read_bytes())
    Path("report.json").write_text('{"aggregation_service_payloads": [], "shared_info": "{}"}')
    Path("reports.avro").write_bytes(b"Obj\x01 and so on")
    Path("list.json").write_text("[1, 2]")
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\xff")
    Path("readme.txt").write_text("some words, and more of them\n")
    Path("folder").mkdir()
    kinds |= {"spec.toml": "spec", "plan.json": "plan", "plan_too": "plan", "report.json": "reports"}
    kinds |= {"reports.avro": "reports", "list.json": "JSON", "picture.png": "other", "readme.txt": "other"}
    return kinds | {"folder": "folder"}


def test_a_file_of_every_kind_is_known(made: dict[str, Kind]) -> None:
    assert {name: file_kind(name).kind for name in made} == made
    assert set(made.values()) == set(get_args(Kind)) == set(KINDS)
    assert {name: file_kind(name, command).kind for command in TAKES for name in made} == made


def test_every_command_says_the_same_kind(made: dict[str, Kind]) -> None:
    def said(*arguments: str) -> str:
        return CliRunner().invoke(main, list(arguments)).stderr

    for name, kind in made.items():
        refusal = f"{name} {KINDS[kind]}"
        assert (table_of_period(name) == name) == (kind == "estimates"), name
        report = said("report", name, "-o", "page.html")
        assert (refusal in report) == (kind in ("counts", "ratios", "spec", "reports", "other")), report
        if kind not in ("estimates", "table", "plan", "spec", "folder", "JSON"):
            assert refusal in said("explore", "--no-browser", name)
        aggregate = said("aggregate", name, "reports.avro", "--domain", "reports.avro", "-o", "out.avro")
        assert (refusal in aggregate) == (kind not in ("plan", "JSON", "folder")), aggregate
        tree = said("plan", "spec.toml", "--tree", name, "-o", "other.json")
        assert (refusal in tree) == (kind in ("plan", "spec", "reports", "JSON")), tree


def test_a_folder_is_its_tables_and_plans(made: dict[str, Kind]) -> None:
    for hidden in (".estimates.csv", "plan.nodes.parquet"):
        Path(hidden).write_bytes(Path("estimates.csv").read_bytes())
    endings = (".csv", ".tsv", ".parquet", ".arrow", ".gz", ".json")
    assert files_in(".") == sorted(f"./{name}" for name in made if name.endswith(endings))


def test_a_table_is_read_once(made: dict[str, Kind]) -> None:
    file = file_kind("estimates.csv")
    assert file.table is file.table and list(file.names) == file.table.column_names


@pytest.mark.parametrize("command", TAKES)
def test_what_is_not_there_or_empty_is_refused_with_what_the_command_takes(command: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text(" \n")
    for path, words in ((empty, "is empty"), (tmp_path / "none.csv", "there is no file")):
        with pytest.raises(InputError, match=words) as refused:
            file_kind(str(path), command)
        assert TAKES[command] in str(refused.value)

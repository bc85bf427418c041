"""The house: data order is import order, down to single modules; a class name is there once."""

import ast
import importlib.util
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "attributary"
ORDER = [
    *(
        "errors",
        "types",
        "arrow",
        "kernel",
        "html",
        "whole_files",
        "generated",
        "shop",
        "tables",
        "tree",
        "rmsre",
        "noise",
        "spec",
        "logs",
    ),
    *("measurements", "denoising", "estimates", "read_estimates", "ratio", "file_kind", "changes"),
    *("budget", "prior", "estimators", "denoising/cluster", "plan"),
    *("api", "pipeline", "facts", "report", "explore", "evaluate", "browsers", "paper", "cli"),
]
# Doors: methods of early values that import, when called, what stands later.
DOORS = {
    ("measurements.py", "pipeline/node_rows.py"),  # Measurements.from_table
    ("measurements.py", "api/__init__.py"),  # Measurements.from_summary
    ("measurements.py", "plan/__init__.py"),  # the type of a plan
    ("denoising/estimate.py", "estimates.py"),  # Estimate.table
    ("denoising/estimate.py", "report/notebook.py"),
    ("pipeline/denoise_table.py", "facts/quantity.py"),  # Denoised.quantities
    ("denoising/denoise.py", "prior/whole_counts.py"),  # denoise(posterior=True)
    ("plan/plan.py", "plan/file.py"),  # Plan.load, Plan.save
    ("plan/plan.py", "report/notebook.py"),
    ("pipeline/run.py", "report/__init__.py"),  # Run.page
    ("pipeline/run.py", "report/page.py"),
    ("pipeline/run_parts.py", "report/__init__.py"),  # upper_levels
    ("pipeline/run_by_root.py", "report/__init__.py"),  # RootTask.save
    ("pipeline/run_by_root.py", "report/page.py"),
    ("pipeline/spark_run.py", "report/__init__.py"),  # SparkRun.save
    ("pipeline/spark_run.py", "report/page.py"),
    ("pipeline/denoise_table.py", "report/__init__.py"),  # DenoisedTable.report
    ("pipeline/denoise_table.py", "report/page.py"),
    ("pipeline/denoise_table.py", "report/notebook.py"),  # as a notebook shows it
}

FILES = sorted(f.relative_to(PACKAGE) for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py")


@cache
def syntax(file: Path) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def module_file(name: str) -> Path | None:
    """The file of a module of the package; None for what is none."""
    path = Path(*name.split(".")[1:])
    for file in (path.with_suffix(".py") if path.name else path, path / "__init__.py"):
        if name.startswith("attributary.") and (PACKAGE / file).is_file():
            return file
    return None


@cache
def imports(file: Path) -> frozenset[Path]:
    """The files of the package that a file imports, at its top or within functions."""

    def named() -> Iterator[Path | None]:
        for node in ast.walk(syntax(file)):
            if isinstance(node, ast.Import):
                yield from (module_file(alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: imports are absolute"
                for alias in node.names:
                    yield module_file(f"{node.module}.{alias.name}") or module_file(node.module or "")

    return frozenset(other for other in named() if other and other != file)


def room(file: Path) -> str:
    """The folder or file that has a place in the order; a sub-folder may have one of its own."""
    return str(file.parent) if str(file.parent) in ORDER else file.parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_module_imports_only_what_stands_before_it(file: Path) -> None:
    here = ORDER.index(room(file))
    for other in imports(file):
        allowed = (str(file), str(other)) in DOORS
        assert allowed or ORDER.index(room(other)) <= here, f"{file} imports {other}, which comes after {ORDER[here]}"


def test_every_part_has_its_place() -> None:
    assert {room(f) for f in FILES} == set(ORDER)


def test_doors_are_in_use() -> None:
    assert {(file, other) for file, other in DOORS if Path(other) not in imports(Path(file))} == set()


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    refuse_cycles({str(file): {str(other) for other in imports(file)} for file in FILES})


def test_folders_within_a_room_do_not_import_each_other_in_a_circle() -> None:
    def folder(file: Path) -> str:  # a room's own files stand for themselves
        return str(file.parent) if len(file.parts) > 2 else str(file)

    graph = defaultdict(set)
    for file in FILES:
        graph[folder(file)] |= {folder(other) for other in imports(file)} - {folder(file)}
    refuse_cycles(graph)


def refuse_cycles(graph: dict[str, set[str]]) -> None:
    kept = {file: {other for other in others if (file, other) not in DOORS} for file, others in graph.items()}
    try:
        TopologicalSorter(kept).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_a_class_name_is_there_once() -> None:
    places = defaultdict(list)
    for file in FILES:
        for node in ast.walk(syntax(file)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_product_imports_nothing_from_the_browsers_or_the_paper() -> None:
    for part, commands in {"browsers": set[str](), "paper": {"cli/paper.py", "cli/generate.py"}}.items():
        for file in FILES:
            if room(file) != part and str(file) not in commands:
                assert part not in {room(other) for other in imports(file)}, f"{file} imports from {part}"


def test_product_code_imports_nothing_from_evaluate() -> None:
    apart = {"paper", "evaluate"}
    commands = {"cli/evaluate.py", "cli/paper.py"}
    for file in FILES:
        if room(file) not in apart and str(file) not in commands:
            assert "evaluate" not in {room(other) for other in imports(file)}, f"{file} imports from evaluate"


def test_the_explorer_computes_no_errors_or_estimates_of_its_own() -> None:
    computing = {"budget", "denoising", "rmsre", "rmsre.py"}
    found = {(str(f), str(other)) for f in FILES if room(f) == "explore" for other in imports(f)}
    assert {pair for pair in found if Path(pair[1]).parts[0] in computing} == set()


@pytest.mark.parametrize("statement", ["import attributary", "import attributary.cli"])
def test_heavy_packages_are_imported_only_when_needed(statement: str) -> None:
    heavy = ("numba", "pyarrow", "pandas", "polars", "scipy", "publicsuffixlist", "http_sf")
    code = f"{statement}; import sys; print([m for m in {heavy!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


@pytest.mark.parametrize("kind", ["ara", "w3c"])
def test_the_terms_of_an_api_need_no_plans(kind: str) -> None:
    code = f"from attributary.spec.terms import terms_named; import sys; terms_named({kind!r})"
    ask = "print([m for m in ('attributary.plan', 'attributary.budget', 'attributary.prior') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", f"{code}; {ask}"], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


@pytest.mark.parametrize("folder", ["bench", "examples", "fuzz"])
def test_scripts_beside_the_package_import_what_there_is(folder: str) -> None:
    for file in (PACKAGE.parent.parent / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attributary":
                assert node.module is not None
                module = importlib.import_module(node.module)
                for name in node.names:
                    there = hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}")
                    assert there, f"{file.name} imports {name.name} from {node.module}"

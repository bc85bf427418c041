"""Data order is import order: a module imports only what stands before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "attributary"
ORDER = [
    *("errors", "types", "kernel", "html", "tables", "tree", "noise", "spec", "logs"),
    *("measurements", "denoising", "estimates", "ratio", "rmsre", "budget", "prior", "profile", "plan"),
    *("api", "datasets", "evaluate", "report", "explore", "cli"),
]
# Doors: methods of early values that import, when called, what stands later.
DOORS = {
    ("denoising/estimate.py", "estimates"),  # Estimate.table
}


def imports(file: Path) -> set[str]:
    """The parts of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "attributary" else []
            names += [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("attributary.")}
    return found


def part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


MODULES = sorted(f for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py")


@pytest.mark.parametrize("file", MODULES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_a_module_imports_only_what_stands_before_it(file: Path) -> None:
    here = ORDER.index(part(file))
    late = {name for name in imports(file) if name in ORDER and ORDER.index(name) > here}
    late -= {name for door, name in DOORS if door == file.relative_to(PACKAGE).as_posix()}
    assert not late, f"{file.name} imports {late}, which come after {ORDER[here]}"


def test_every_part_has_its_place() -> None:
    assert {part(f) for f in MODULES} == set(ORDER)


@pytest.mark.parametrize("statement", ["import attributary", "import attributary.cli"])
def test_heavy_packages_are_imported_only_when_needed(statement: str) -> None:
    heavy = ("numba", "pyarrow", "pandas", "polars", "scipy", "publicsuffixlist")
    code = f"{statement}; import sys; print([m for m in {heavy!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"

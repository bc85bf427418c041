"""The extra `spark` is all that Spark needs: the documented commands in an environment that has nothing else."""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
ROWS = "campaign,location,noisy\nautumn,,419\nautumn,Paris,262\nautumn,New York,151\nbrand,,13\n"


def needed() -> set[str]:
    """The distributions that attributary and its extra need, and what these need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [(text, "") for text in (*project["dependencies"], *project["optional-dependencies"]["spark"])]
    names: set[str] = set()
    while wanted:
        text, extra = wanted.pop()
        asked = Requirement(text)
        if asked.marker is not None and not asked.marker.evaluate({"extra": extra}):
            continue
        if asked.name not in names:
            names.add(asked.name)
            extras = ["", *asked.extras]
            wanted += [(more, each) for more in distribution(asked.name).requires or [] for each in extras]
    return names


def with_extra_alone(folder: Path) -> Path:
    """The Python of an environment with these distributions, each as a link."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in needed():
        there = distribution(name)
        for top in {file.parts[0] for file in there.files or () if file.parts[0] not in ("..", "__pycache__")}:
            target = Path(str(there.locate_file(top)))
            if target.exists() and not (site / top).exists():
                (site / top).symlink_to(target)
    (site / "attributary").symlink_to(ROOT / "src" / "attributary")
    return folder / "bin" / "python"


@pytest.mark.sweep
def test_the_extra_installs_all_that_is_needed(tmp_path: Path) -> None:
    if not shutil.which("java") and not os.environ.get("CI"):
        pytest.skip("no Java")
    python = with_extra_alone(tmp_path / "env")
    (tmp_path / "figures.csv").write_text(ROWS)
    command = "denoise --table figures.csv --levels campaign,location --value noisy --std 4 --engine spark -o out"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL"))}
    how = {"cwd": tmp_path, "env": clean, "capture_output": True, "text": True}
    absent = subprocess.run([python, "-c", "import pytest"], check=False, **how)
    assert "No module named 'pytest'" in absent.stderr
    told = subprocess.run([python, "-m", "attributary.cli", *command.split()], check=False, **how)
    assert told.returncode == 0, told.stderr
    assert "4 rows written to out" in told.stderr + told.stdout
    assert sys.version_info >= (3, 11) and list((tmp_path / "out").glob("*.parquet"))

"""The notebook of the docs gives what it shows."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def outputs(notebook: dict[str, Any]) -> list[Any]:
    return [(cell["source"], cell.get("outputs", [])) for cell in notebook["cells"]]


def test_executed_anew_it_shows_the_same() -> None:
    code = "import json; from examples.notebook import notebook; print(json.dumps(notebook()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    stored = json.loads((ROOT / "docs" / "example.ipynb").read_text(encoding="utf-8"))
    joined = [
        ("".join(source), [{**out, "data": {k: "".join(v) for k, v in out["data"].items()}} for out in found])
        for source, found in outputs(stored)
    ]
    assert outputs(json.loads(done.stdout.splitlines()[-1])) == joined, "make pictures executes it anew"

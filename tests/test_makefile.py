"""make: what it needs is said before anything is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
OLD = '#!/bin/sh\ncase "$1" in --version) echo "Python 3.9.2";; -c) exit 1;; *) echo "$@" >> {log};; esac\n'


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
@pytest.mark.parametrize("made", [False, True], ids=["chosen", "in .venv"])
def test_an_older_python_is_named_before_pip(made: bool, tmp_path: Path) -> None:
    python = tmp_path / ("venv/bin/python" if made else "python3.9")
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(OLD.format(log=tmp_path / "log"))
    python.chmod(0o755)
    args = ["make", "-s", "demo", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"]
    result = subprocess.run(args, cwd=TOP, capture_output=True, text=True, timeout=60, check=False)
    line = result.stderr.splitlines()[0]
    assert result.returncode == 2 and not (tmp_path / "log").exists()
    assert line.startswith(f"Attributary needs Python 3.11 or newer; {python} is Python 3.9.2")
    assert "`make demo PYTHON=python3.12`" in line

"""On a cluster of two executors, every stage is that of one machine, also when one of them is killed at its work."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import support.local_cluster


@pytest.mark.sweep
def test_an_executor_may_be_lost_in_every_stage(shop_of: Callable[[int], Path]) -> None:
    if not shutil.which("java") and not os.environ.get("CI"):
        pytest.skip("no Java")
    told = subprocess.run(
        [sys.executable, str(support.local_cluster.__file__), str(shop_of(20_000))],
        check=False,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    for stage in ("count", "run", "keys", "denoise"):
        assert f"{stage}: executor" in told.stdout

"""Compiled functions need no place to keep what was compiled, and use no more threads than they may."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from numba.core import caching

import attributary
from attributary import Prior, Tree, denoise
from attributary.cli.options import threads
from attributary.denoising import compiled, linear
from attributary.denoising.passes import engine, passes_once
from attributary.kernel import LIMIT, kernel, limit_threads, usable_threads
from support.forests import grown
from support.runners import running

CODE = """# as in a read-only image without a home
import numpy as np
from numba.core import caching
(getattr(caching, "CacheImpl", None) or caching._CacheImpl)._locator_classes = []
from attributary import Tree, denoise, prior
n = 150_000
tree = Tree.from_parents(np.concatenate([[-1], np.zeros(n // 2, int), np.arange(n // 2) + 1]))
noisy, variance = np.arange(len(tree)) % 7.0, 1.0 + np.arange(len(tree)) % 3
est = denoise(tree, noisy, variance, nonnegative=True)
learned = denoise(tree, noisy, variance, prior=prior.learn(tree, noisy, variance))
print(est.count.min() >= 0, np.isfinite(learned.count).all())
"""


@pytest.mark.sweep
def test_large_trees_need_no_writable_folder() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_a_kernel_needs_no_place_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert kernel()(lambda x: x + 1)(1) == 2


def test_nothing_else_keeps_what_is_compiled() -> None:
    package = Path(attributary.__file__).parent
    assert [path.name for path in package.rglob("*.py") if "cache=True" in path.read_text()] == ["kernel.py"]


def test_threads_are_limited_only_within() -> None:
    every = usable_threads()
    with limit_threads(1):
        assert usable_threads() == 1
        with limit_threads(None):
            assert usable_threads() == every
    assert usable_threads() == every >= 1


def test_the_option_limits_the_compiled_passes_of_its_command_alone() -> None:
    @click.command()
    @threads
    def command(threads: int | None) -> None:
        click.echo(f"{threads} {usable_threads()}")

    every = usable_threads()
    assert CliRunner().invoke(command, ["--threads", "1"]).output == "1 1\n"
    assert CliRunner().invoke(command).output == f"None {every}\n"


def test_a_command_line_that_is_refused_limits_nothing() -> None:
    @click.command()
    @threads
    @click.option("--number", type=int)
    def command(**params: int | None) -> None:
        raise AssertionError("not called")

    every = usable_threads()
    refused = CliRunner().invoke(command, ["--threads", "1", "--number", "x"])
    assert refused.exit_code == 2 and usable_threads() == every and LIMIT.get() is None


@pytest.mark.parametrize("whole", [False, True])
def test_sweeps_give_the_same_digits_in_python_and_compiled(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, rng = grown(2_000, 3), np.random.default_rng(0)
    counts = tree.roll_up(rng.poisson(rng.pareto(0.9, len(tree.leaves))).astype(float))
    variance = np.exp(rng.uniform(-1, 4, len(tree)))
    variance[rng.random(len(tree)) < 0.1] = np.inf
    noisy = counts + rng.normal(0, 3, len(tree))
    size = np.bincount(tree.parent[tree.parent >= 0], minlength=len(tree))
    share = 1 / np.where(tree.parent >= 0, size[tree.parent], 1)
    known = Prior(counts, share=share, spread=np.exp(rng.uniform(0, 6, len(tree))))
    for prior in (None, known):
        made = []
        for runner in ("plain", "compiled"):
            with running(runner):
                made.append(denoise(tree, noisy, variance, prior=prior, nonnegative=True, whole=whole))
                for room in ("passes", "nonnegative", "prior"):  # of the passes, the last digits may differ
                    monkeypatch.setattr(import_module(f"attributary.denoising.{room}"), "engine", lambda *_: linear)
                made.append(denoise(tree, noisy, variance, prior=prior, nonnegative=True, whole=whole))
                monkeypatch.undo()
        np.testing.assert_allclose(made[0].count, made[2].count, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(made[0].variance, made[2].variance, rtol=1e-12)
        np.testing.assert_array_equal(made[1].count, made[3].count)
        np.testing.assert_array_equal(made[1].variance, made[3].variance)


def test_a_command_begins_without_numba_where_numpy_is_done_before() -> None:
    tree = Tree.from_parents(np.concatenate([[-1], np.zeros(150_000, int)]))
    noisy = np.arange(len(tree)) % 7.0
    with passes_once():
        assert engine(tree) is linear
        once = denoise(tree, noisy, 2.0)
    assert engine(tree) is compiled
    np.testing.assert_allclose(once.count, denoise(tree, noisy, 2.0).count, rtol=1e-12, atol=1e-9)


PILED = """
import sys
import numpy as np
from attributary import Tree, denoise
from attributary.kernel import LOADING
tree = Tree.from_parents(np.concatenate([[-1], np.zeros(9, int), np.repeat(np.arange(1, 10), 100)]))
figures, calls, counts = np.random.default_rng(0).normal(1, 3, len(tree)), 0, []
while "numba" not in sys.modules:
    counts.append(denoise(tree, figures, 2.0, nonnegative=True).count)
    calls += 1
counts.append(denoise(tree, figures, 2.0, nonnegative=True).count)
print((counts[-1] == counts[0]).all(), 0.9 < calls * len(tree) * 30 / LOADING < 1.1)
"""


def test_compiled_sweeps_are_loaded_once_work_has_piled_up_and_change_no_digit() -> None:
    done = subprocess.run([sys.executable, "-c", PILED], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"

"""Compiled functions need no place to keep what was compiled."""

import subprocess
import sys

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


def test_large_trees_need_no_writable_folder() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr

"""Plain denoising: against merely copying the arrays, as trees grow, and against other people's tools."""

import time
import warnings

import numpy as np

from attributary import Tree, denoise
from attributary.denoising import compiled
from bench.timing import best, heading
from bench.trees import binary, figures, four_levels


def main() -> None:
    against_copying()
    growth()
    columns()
    against_peers()


def against_copying() -> None:
    heading("Denoising against noisy.copy(), variance.copy() (checks included, warm, best of five)")
    for name, tree, bar in (("4 levels, 10^7 nodes", four_levels(10**7), 3), ("binary, 2^24 nodes", binary(24), 8)):
        noisy, variance = figures(tree)
        copy = best(lambda: (noisy.copy(), variance.copy()))  # noqa: B023
        ours = best(lambda: denoise(tree, noisy, variance))  # noqa: B023
        print(
            f"{name:24} copy {copy * 1e3:7.1f} ms   denoise {ours * 1e3:7.1f} ms   {ours / copy:5.2f}x   (bar {bar}x)"
        )
        del noisy, variance, tree
    tree = four_levels(10**7)
    noisy, variance = figures(tree)
    plain = best(lambda: denoise(tree, noisy, variance))
    place = np.random.default_rng(2).permutation(len(tree))
    shuffled = np.empty(len(tree), np.int64)
    shuffled[place] = np.where(tree.parent < 0, -1, place[tree.parent])
    start = time.perf_counter()
    moved = Tree.from_parents(shuffled)
    build = time.perf_counter() - start
    other = best(lambda: denoise(moved, noisy, variance), 3)
    print(
        f"the same nodes in random order: {other / plain:.1f}x the time in level order (and {build:.1f} s for the tree)"
    )


def growth() -> None:
    heading("Cost per node as trees grow (4 levels)")
    for n in (10**3, 10**4, 10**5, 10**6, 10**7):
        tree = four_levels(n)
        noisy, variance = figures(tree)
        took = best(lambda: denoise(tree, noisy, variance), 5 if n > 10**5 else 30)  # noqa: B023
        print(f"{len(tree):>12,} nodes {took * 1e3:10.3f} ms {took / len(tree) * 1e9:8.1f} ns a node", flush=True)


def columns(many: int = 50) -> None:
    heading(f"{many} columns of figures of one tree of 10^5 nodes, against one column and against copying them")
    tree, rng = four_levels(10**5), np.random.default_rng(4)
    noisy, variance = rng.normal(100, 10, (len(tree), many)), rng.uniform(1, 10, (len(tree), many))
    x, shared = noisy[:, 0].copy(), variance[:, 0].copy()
    one, cached = best(lambda: denoise(tree, x, shared), 20), best(lambda: compiled.blue(tree, x, shared), 20)
    print(f"one column: denoise {one * 1e3:.2f} ms; its compiled passes alone, in the cache, {cached * 1e3:.2f} ms")
    for name, var, bar in (("variances shared", shared, 20), ("each its own", variance, 45)):
        ours, copy = best(lambda: denoise(tree, noisy, var)), best(lambda: (noisy.copy(), var.copy()))  # noqa: B023
        print(
            f"{name:24} {ours * 1e3:7.1f} ms   {ours / one:5.1f}x one column (bar {bar}x), {ours / cached:5.1f}x its "
            f"compiled passes, {ours / copy:4.1f}x copying",
            flush=True,
        )


def against_peers() -> None:
    heading("Against other tools at 10^6 nodes (4 levels, uneven variances)")
    tree = four_levels(10**6)
    noisy, variance = figures(tree)
    ours = best(lambda: denoise(tree, noisy, variance))
    exact = denoise(tree, noisy, variance).count
    print(f"{'attributary':46} {ours * 1e3:10.1f} ms")
    for name, peer, bar in (
        ("SciPy spsolve on the Schur complement", _schur, 10),
        ("hierarchicalforecast MinTraceSparse (wls_var)", _min_trace_sparse, 100),
    ):
        took, found = peer(tree, noisy, variance)
        error = np.abs(found - exact).max() / np.sqrt(variance.mean())
        print(
            f"{name:46} {took * 1e3:10.1f} ms   {took / ours:8.1f}x ours (bar {bar}x)   off by up to {error:.1e} sd",
            flush=True,
        )
    _open_dp()


def _schur(tree: Tree, noisy: np.ndarray, variance: np.ndarray) -> tuple[float, np.ndarray]:
    """x̂ = x − V·Aᵀ·(A·V·Aᵀ)⁻¹·A·x, with one row of A for each internal node; building it is part of the work."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    start = time.perf_counter()
    inner = np.flatnonzero(~tree.is_leaf)
    row = np.empty(len(tree), np.int64)
    row[inner] = np.arange(len(inner))
    child = np.flatnonzero(tree.parent >= 0)
    data = np.concatenate([np.ones(len(inner)), -np.ones(len(child))])
    where = (np.concatenate([row[inner], row[tree.parent[child]]]), np.concatenate([inner, child]))
    a = sparse.csr_matrix((data, where), shape=(len(inner), len(tree)))
    weighted = a.multiply(variance).tocsr()
    price = spsolve((weighted @ a.T).tocsc(), a @ noisy)
    found = noisy - weighted.T @ price
    return time.perf_counter() - start, found


def _min_trace_sparse(tree: Tree, noisy: np.ndarray, variance: np.ndarray) -> tuple[float, np.ndarray]:
    """Weighted least squares by hierarchicalforecast, which takes variances from residuals: two that have them."""
    from hierarchicalforecast.methods import MinTraceSparse
    from scipy import sparse

    leaves = np.flatnonzero(tree.is_leaf)
    at, rows, columns = leaves.astype(np.int64), [], []
    while len(at):
        rows.append(at)
        columns.append(np.arange(len(leaves)))
        at = tree.parent[at] if (tree.parent[at] >= 0).all() else at[:0]
    summing = sparse.csr_matrix(
        (np.ones(len(leaves) * len(rows)), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(tree), len(leaves)),
    )
    half = np.sqrt(variance / 2)
    residuals = np.stack([1 + half, 1 - half], axis=1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = MinTraceSparse("wls_var")
        fitted = method.fit(summing, noisy[:, None], y_insample=residuals, y_hat_insample=np.zeros_like(residuals))
        found = fitted.predict(summing, noisy[:, None])["mean"]
    return time.perf_counter() - start, np.asarray(found).ravel()


def _open_dp() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    tree = binary(20)
    rng = np.random.default_rng(3)
    noisy = rng.integers(0, 1000, len(tree))
    ours = best(lambda: denoise(tree, noisy, 1.0))
    theirs = dp.t.make_consistent_b_ary_tree(2)
    given = noisy.tolist()
    took = best(lambda: theirs(given), 1, 0)
    difference = np.abs(np.array(theirs(given)) - denoise(tree, noisy, 1.0).count[tree.is_leaf]).max()
    print(
        f"{'OpenDP consistent b-ary tree (binary, 2^20)':46} {took * 1e3:10.1f} ms   {took / ours:8.1f}x ours"
        f"   largest difference {difference:.1e} (equal variances only, leaves only)"
    )


if __name__ == "__main__":
    main()

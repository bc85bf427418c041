"""join: a prior's means as one more measurement of each node, in one sweep where there are many."""

import numpy as np

from attributary.kernel import kernel
from attributary.types import Floats

INF = np.inf


def joined(x: Floats, var: Floats, mean: Floats, wide: Floats) -> tuple[Floats, Floats] | None:
    """Both made one by inverse variance (Algorithm 1); None where a figure makes no sense or is exact."""
    both, variance = np.empty_like(x), np.empty_like(x)
    return (both, variance) if _join(x, var, mean, wide, both, variance) else None


@kernel(nogil=True)
def _join(x, var, mean, wide, both, variance):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        v, w = var[i], wide[i]
        if not (v > 0.0 and w > 0.0) or (v < INF and not abs(x[i]) < INF) or (w < INF and not abs(mean[i]) < INF):
            return False
        if w == INF:
            both[i], variance[i] = x[i] if v < INF else 0.0, v
        elif v == INF:
            both[i], variance[i] = mean[i], w
        else:
            trust = v / (v + w)
            both[i] = w / (v + w) * x[i] + trust * mean[i]
            variance[i] = trust * w
    return True

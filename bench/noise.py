"""Draws per second of exact discrete Laplace and Gaussian noise: OpenDP's, ours, and the limit of reading entropy."""

import os
import time
from collections.abc import Callable
from fractions import Fraction

import opendp.prelude as dp

from attributary.noise import rate, sample_dgauss, sample_dlap

OURS, THEIRS, REPEATS = 10**6, 10**5, 5
RATES = {
    "0.1/65536": Fraction(1, 655360),
    "1/65536": Fraction(1, 65536),
    "4/65536": Fraction(4, 65536),
    "16/65536": Fraction(16, 65536),
    "0.1": 0.1,
    "1/3 (float)": 1 / 3,
    "1": 1,
    "4": 4,
}
GAUSSIAN_THEIRS = 10**4  # at a time: it takes some 40 µs for each
SIGMAS = {"0.5": 0.25, "1.5": Fraction(9, 4), "5.5": 30.0, "100": 10**4, "2^20": 2**40}


class Counted:
    """The operating system's entropy, counted."""

    read = 0

    def bytes(self, length: int) -> bytes:
        self.read += length
        return os.urandom(length)


def best(run: Callable[[], object]) -> float:
    """The shortest of several times, in seconds: others use the machine too."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def entropy_alone(length: int) -> None:
    for _ in range(0, length, 2**18):
        os.urandom(2**18)


def main() -> None:
    dp.enable_features("contrib")
    print(f"draws per second, best of {REPEATS}: OpenDP {THEIRS:,} at a time, ours {OURS:,} at a time;")
    print("limit: only reading the same bytes from the operating system")
    heading("a")
    whole = dp.vector_domain(dp.atom_domain(T=int))
    for name, a in RATES.items():
        laplace = dp.m.make_laplace(whole, dp.l1_distance(T=int), scale=float(1 / rate(a)))
        line(name, lambda n, m=laplace: m([0] * n), THEIRS, lambda rng=None, a=a: sample_dlap(a, OURS, rng))
    print(f"\ndiscrete Gaussian: OpenDP {GAUSSIAN_THEIRS:,} at a time")
    heading("σ")
    for name, s2 in SIGMAS.items():
        gaussian = dp.m.make_gaussian(whole, dp.l2_distance(T=float), scale=float(s2) ** 0.5)
        line(
            name, lambda n, m=gaussian: m([0] * n), GAUSSIAN_THEIRS, lambda rng=None, s=s2: sample_dgauss(s, OURS, rng)
        )


def heading(scale: str) -> None:
    print(f"{scale:>12} {'OpenDP':>12} {'ours':>14} {'ratio':>7} {'ns/draw':>8} {'bytes/draw':>11} {'of limit':>9}")


def line(name: str, draw: Callable[[int], object], size: int, sample: Callable[..., object]) -> None:
    """Theirs, `size` at a time, beside ours."""
    theirs = size / best(lambda: draw(size))
    seconds = best(sample)
    counted = Counted()
    sample(counted)
    limit = best(lambda: entropy_alone(counted.read))
    ours = OURS / seconds
    print(
        f"{name:>12} {theirs:12,.0f} {ours:14,.0f} {ours / theirs:6.0f}x {1e9 / ours:8.1f}"
        f" {counted.read / OURS:11.1f} {limit / seconds:9.0%}"
    )


if __name__ == "__main__":
    main()

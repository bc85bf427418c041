"""Draws per second of exact discrete Laplace noise: OpenDP's, ours, and the limit that reading entropy sets."""

import os
import time
from collections.abc import Callable
from fractions import Fraction

import opendp.prelude as dp

from attributary.noise import rate, sample_dlap

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
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    zeros = [0] * THEIRS
    print(f"draws per second, best of {REPEATS}: OpenDP {THEIRS:,} at a time, ours {OURS:,} at a time;")
    print("limit: only reading the same bytes from the operating system")
    print(f"{'a':>12} {'OpenDP':>12} {'ours':>14} {'ratio':>7} {'ns/draw':>8} {'bytes/draw':>11} {'of limit':>9}")
    for name, a in RATES.items():
        theirs = THEIRS / best(lambda a=a: dp.m.make_laplace(*space, scale=float(1 / rate(a)))(zeros))
        seconds = best(lambda a=a: sample_dlap(a, OURS))
        counted = Counted()
        sample_dlap(a, OURS, counted)
        limit = best(lambda counted=counted: entropy_alone(counted.read))
        ours = OURS / seconds
        print(
            f"{name:>12} {theirs:12,.0f} {ours:14,.0f} {ours / theirs:6.0f}x {1e9 / ours:8.1f}"
            f" {counted.read / OURS:11.1f} {limit / seconds:9.0%}"
        )


if __name__ == "__main__":
    main()

"""Discrete Laplace noise DLap(a), P(k) ∝ exp(-a·|k|): its variance, the rates that can be drawn, and exact draws."""

import builtins
import os
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from math import inf
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.types import Values

LARGEST = 2**32 - 1  # numerator and denominator of a rate: their products then fit 64 bits
CHUNK = 2**15  # candidates at a time: a chunk's arrays stay in the cache, whatever the size asked for
GRID = 12  # bits of U/t that look up the digits of exp(-U/t)
FEW = 8  # successes that one word can tell; more are rarer than 1 in 2,900 and take another word

Read: TypeAlias = Callable[[int], bytes]


class Entropy(Protocol):
    """Anything with `bytes(n)`, such as a `numpy.random.Generator`."""

    def bytes(self, length: int, /) -> builtins.bytes: ...


@overload
def dlap_variance(a: Fraction | float) -> float: ...
@overload
def dlap_variance(a: Values) -> NDArray[np.float64]: ...
def dlap_variance(a: Fraction | float | Values) -> float | NDArray[np.float64]:
    """The variance of DLap(a), 1/(2·sinh²(a/2)).

    For a single number, of the noise that `sample_dlap(a, ...)` draws, at `rate(a)`; an array is taken as it is.
    """
    rates = np.asarray(rate(a) if isinstance(a, (int, float, Fraction)) else a, np.float64)
    bad = ~((rates > 0) & (rates < inf))
    if bad.any():
        raise InputError(f"a rate of noise must be positive and finite, got {rates[bad][0]}; leave out such rates")
    with np.errstate(over="ignore"):  # below 1e-154 the variance is no longer a float64, and inf says so
        deviation = np.exp(-rates / 2) / np.expm1(-rates)  # 1/(2·sinh(a/2)), which neither cancels nor overflows
        variance = 2 * deviation * deviation
    return np.asarray(variance) if isinstance(a, np.ndarray) else float(variance)


def dlap_log_likelihood(k: Values, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """log P(k) = log tanh(a/2) − a·|k|, for rates above 0."""
    value: NDArray[np.float64] = np.log(np.tanh(a / 2)) - a * np.abs(k)
    return value


def rate(a: Fraction | float) -> Fraction:
    """The rate that is drawn for `a`: the largest fraction up to `a` whose terms are both below 2³².

    Never above `a`, so never less noise than asked for. Fractions with such terms stay; 2³² - 1 is the largest.
    """
    if not 0 < a < inf:
        raise InputError(f"a rate of noise must be positive and finite, got {a}; give epsilon / L1, as in 4 / 65536")
    n, d = Fraction(a).as_integer_ratio()
    # Stern and Brocot: low <= a < high, and whatever lies between them has terms at least those of their mediant.
    # All steps in one direction are taken at once, as in a continued fraction, until the mediant's terms are too large.
    (p, q), (P, Q) = (0, 1), (1, 0)
    while p + P <= LARGEST and q + Q <= LARGEST and p * d < n * q:
        below, above = n * q - p * d, P * d - n * Q
        steps = min(below // above, _room(p, P), _room(q, Q))
        p, q = p + steps * P, q + steps * Q
        below -= steps * above
        if below:
            steps = (above - 1) // below  # high may pass the limit: then so does the mediant, and low stays
            P, Q = P + steps * p, Q + steps * q
    if p == 0:
        raise InputError(f"a rate of noise must be at least 1/{LARGEST}, got {a}; give a larger one")
    return Fraction(p, q)


def _room(term: int, step: int) -> int:
    return (LARGEST - term) // step if step else LARGEST


def sample_dlap(a: Fraction | float, size: int | tuple[int, ...], rng: Entropy | None = None) -> NDArray[np.int64]:
    """Exact draws of DLap(rate(a)), by Canonne, Kamath and Steinke's Algorithm 2 (2020) in whole numbers only.

    Randomness is the operating system's. `rng` is for experiments and tests: with a `numpy.random.Generator` the
    same seed gives the same draws, and no privacy. Draws of one size are not the beginning of those of another.
    """
    read = reader(rng)
    s, t = rate(a).as_integer_ratio()
    return filled(size, lambda left: _accepted(s, t, min(CHUNK, 2 * left + 8), read))


def filled(size: int | tuple[int, ...], accepted: Callable[[int], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Draws from what is `accepted` time and again, given how many are left to draw."""
    draws = np.empty(size, np.int64)
    flat, done = draws.reshape(-1), 0
    while done < flat.size:
        some = accepted(flat.size - done)[: flat.size - done]  # the surplus goes by its place, never by its value
        flat[done : done + some.size] = some
        done += some.size
    return draws


def reader(rng: Entropy | None) -> Read:
    """Where random bytes come from: the operating system, unless a generator is given."""
    if rng is not None and not callable(getattr(rng, "bytes", None)):
        raise InputError(f"rng must have a method bytes(n), got {rng!r}; give numpy.random.default_rng(seed)")
    return os.urandom if rng is None else rng.bytes


def sample_each(rates: NDArray[np.float64], rng: Entropy | None = None) -> NDArray[np.int64]:
    """A draw of DLap(rate) for each rate, those of one rate together; 0 where the rate is 0, which is for no key."""
    return drawn_for_each(rates, sample_dlap, rng)


def drawn_for_each(scales: NDArray[np.float64], sample: Callable[..., Any], rng: Entropy | None) -> NDArray[np.int64]:
    """A draw for each scale, those of one scale together; 0 where it is 0 or inf, which is for no key."""
    drawn, flat = np.zeros(scales.size, np.int64), scales.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[(flat[order] > 0) & (flat[order] < inf)]
    for here in np.split(order, np.flatnonzero(np.diff(flat[order])) + 1) if order.size else []:
        drawn[here] = sample(float(flat[here[0]]), here.size, rng)
    return drawn.reshape(scales.shape)


def _accepted(s: int, t: int, n: int, read: Read) -> NDArray[np.int64]:
    """Of n candidates of Algorithm 2 for the rate s/t, those that it accepts, in order.

    We depart from it in one place: exp(-U/t) and exp(-1) are not built of trials with rational chances; a uniform
    number is compared with their digits, and only on equality with more digits. Entropy costs more than arithmetic.
    """
    words = read(8 * n)
    # U uniform on 0..t-1 (Lemire 2019): 2³² mod t of the words would favour some values, and are not used.
    product = np.frombuffer(words, "<u4", n).astype(np.uint64) * t  # < 2⁶⁴, as both are < 2³²
    U = product >> 32
    uniform = product.astype(np.uint32) >= 2**32 % t

    # D: accept with chance exp(-U/t), which lies between exp(-(cell + 1)/2¹²) and exp(-cell/2¹²).
    first = np.frombuffer(words, "<u2", n, 4 * n)
    cell = ((U << GRID) // t).view(np.int64)
    digits = _exp_grid()
    accept = uniform & (first < digits[1:].take(cell))
    unsure = uniform & ~accept & (first <= digits.take(cell))
    for i in np.flatnonzero(unsure).tolist():
        accept[i] = below(int(first[i]), 16, int(U[i]), t, read)

    # V: how many trials with chance exp(-1) succeed before one fails.
    last = np.frombuffer(words, "<u2", n, 6 * n)
    V = _successes_table().take(last >> 1).astype(np.uint64)
    for i in np.flatnonzero(accept & (V == FEW)).tolist():
        V[i] = _successes(int(last[i]) >> 1, read)

    # U + t·V < 2³²·(V + 1) fits int64 unless V reaches 2³¹ - 1, at a chance of exp(-2³¹).
    magnitude = ((U + t * V) // s).view(np.int64)
    negative = (last & 1).astype(np.int8)
    accept &= (negative == 0) | (magnitude > 0)  # or 0 would come twice as often as it should
    return (magnitude * (1 - 2 * negative)).compress(accept)


@cache
def _exp_grid() -> NDArray[np.uint32]:
    """The first 16 binary digits of exp(-j/2¹²), for j from 0 to 2¹²."""
    return np.array([digits_of_exp(j, 2**GRID, 16) for j in range(2**GRID + 1)], np.uint32)


@cache
def _successes_table() -> NDArray[np.uint8]:
    """For each word of 15 bits, how many trials succeed; FEW if the word does not tell."""
    word = np.arange(2**15)[:, None]
    powers = np.array([digits_of_exp(k, 1, 15) for k in range(1, FEW + 1)])
    return np.where((word == powers).any(1), FEW, (word < powers).sum(1)).astype(np.uint8)


def _successes(word: int, read: Read) -> int:
    """How many trials with chance exp(-1) succeed before one fails: at least k if a uniform number is below exp(-k).

    Where FEW succeed, the rest are as many as if none had been made yet, and take a new number.
    """
    total = 0
    while True:
        # The powers differ in their first 15 digits, so that at most one comparison reads on.
        count = sum(below(word, 15, k, 1, read) for k in range(1, FEW + 1))
        total += count
        if count < FEW:
            return total
        word = int.from_bytes(read(2), "little") >> 1


def below(word: int, bits: int, n: int, d: int, read: Read) -> bool:
    """Whether a uniform number from 0 to 1 with these first bits is below exp(-n/d); reads on while that is open."""
    while word == (digits := digits_of_exp(n, d, bits)):
        word, bits = word << 64 | int.from_bytes(read(8), "little"), bits + 64
    return word < digits


@lru_cache(1024)  # the powers of exp(-1) come again and again
def digits_of_exp(n: int, d: int, bits: int, spare: int = 32) -> int:
    """The first binary digits of exp(-n/d): ⌊2^bits · exp(-n/d)⌋, exactly."""
    if n == 0:
        return 1 << bits
    if n >= d * bits:
        return 0  # as exp(-bits) is below 2^-bits
    while True:  # ends: exp(-n/d) is irrational, so that it has some distance from every whole number
        total = term = 1 << (bits + spare)
        k = 0
        while term:
            k += 1
            term = term * n // (d * k)
            total += -term if k % 2 else term
        # Rounding down a term by less than 1 moves those after it by less than 1·(n/d)^m/m!: in all less than
        # exp(n/d) for each of the k terms. The terms left out alternate and fall, the first below exp(n/d).
        error: int = (k + 1) * 3 ** (n // d + 1)
        if (total - error) >> spare == (total + error) >> spare:
            return (total - error) >> spare
        spare *= 2

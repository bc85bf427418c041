"""Laws of the noise: DLap(a) to the last digit, never less of it than asked for."""

import tracemalloc
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import cache
from unittest import mock

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from attributary.errors import InputError
from attributary.noise import discrete_laplace as noise
from attributary.noise.discrete_laplace import LARGEST, dlap_variance, rate, sample_dlap, sample_each
from support.effort import first_of

MILLION = 10**6
AWKWARD = [
    Fraction(1, 655360),  # epsilon 0.1 over L1 = 65536
    1e-5,
    Fraction(1, 65536),
    Fraction(16, 65536),
    Fraction(1, 10),
    0.3,
    1 / 3,  # its terms nearly reach 2³²
    Fraction(3, 7),
    0.7,
    1,
    1.1,
    2.5,
    4,
    Fraction(2**31 + 11, 2**31 + 10),  # almost half of the words are not used for U
]


def seeded(seed=20):
    return np.random.default_rng(seed)


def cells(a):
    """The upper ends of cells of about equal chance, and of rare ones far out in both tails."""
    tail = np.geomspace(2e-5, 5e-3, 8)
    chance = np.concatenate([tail, np.linspace(0.01, 0.49, 49)])
    lower = np.floor(np.log(chance * (1 + np.exp(-a))) / a)
    return np.unique(np.concatenate([lower, -lower - 1])).astype(np.int64)


def counts(draws, ends):
    return np.bincount(np.searchsorted(ends, draws), minlength=len(ends) + 1)


def p_value(draws, a):
    """Of the χ² test against the closed form P(k) = tanh(a/2)·exp(-a·|k|)."""
    a, ends = float(a), cells(float(a))
    left = np.exp(a * np.minimum(ends, -1)) / (1 + np.exp(-a))
    upto = np.where(ends < 0, left, 1 - np.exp(-a * (np.maximum(ends, 0) + 1)) / (1 + np.exp(-a)))
    expected = np.diff(upto, prepend=0, append=1) * len(draws)
    seen, enough = counts(draws, ends), expected >= 5
    rest = [seen[~enough].sum()], [expected[~enough].sum()]
    pairs = [np.append(seen[enough], rest[0]), np.append(expected[enough], rest[1])]
    keep = pairs[1] > 0
    return chisquare(pairs[0][keep], pairs[1][keep]).pvalue


@pytest.mark.parametrize("a", first_of(AWKWARD))
def test_draws_follow_the_closed_form(a):
    assert p_value(sample_dlap(a, MILLION, seeded()), a) > 1e-4


def test_so_do_draws_from_the_operating_system():
    assert p_value(sample_dlap(0.3, MILLION), 0.3) > 1e-9


def test_each_rate_has_its_own_noise():
    rates = np.tile([0.0, 2.0, 0.5], 100_000)
    drawn = sample_each(rates, seeded())
    assert (drawn[rates == 0] == 0).all()
    for a in (0.5, 2.0):
        assert p_value(drawn[rates == a], a) > 1e-4


@pytest.mark.parametrize("a", first_of(AWKWARD))
def test_a_tenth_less_noise_would_be_seen(a):
    assert p_value(sample_dlap(float(a) / 0.9, MILLION, seeded()), a) < 1e-9


@pytest.mark.parametrize("a", first_of([a for a in AWKWARD if a < 1]))
def test_a_tail_cut_off_would_be_seen(a):
    draws = sample_dlap(a, MILLION, seeded())
    end = int(8 / a)  # beyond it lies one draw in 3,000
    assert p_value(np.clip(draws, -end, end), a) < 1e-9
    assert p_value(draws[abs(draws) <= end], a) < 1e-9


@pytest.mark.parametrize("a", first_of([Fraction(3, 7), 4]))
def test_a_small_draw_is_not_biased_by_what_it_leaves(a):
    rng = seeded()
    assert p_value(np.concatenate([sample_dlap(a, 3, rng) for _ in range(20_000)]), a) > 1e-4


def test_neighbours_are_independent():
    draws = sample_dlap(Fraction(1, 100), MILLION, seeded())
    for value in draws, abs(draws), np.sign(draws):
        assert abs(np.corrcoef(value[1:], value[:-1])[0, 1]) < 5 / np.sqrt(MILLION)


@pytest.mark.parametrize("a", first_of([1 / 65536, 0.3, 2.5]))
def test_opendp_draws_the_same_noise(a):
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=1 / a)([0] * 100_000))
    assert two_samples(sample_dlap(a, MILLION, seeded()), theirs, a) > 1e-9


def test_algorithm_2_to_the_letter_draws_the_same_noise():
    rng, a = seeded(), Fraction(3, 7)

    def bernoulli_exp(n, d):  # Algorithm 1, for n/d up to 1
        k = 1
        while rng.integers(d * k) < n:
            k += 1
        return k % 2 == 1

    def algorithm_2(s, t):
        while True:
            U = int(rng.integers(t))
            if not bernoulli_exp(U, t):
                continue
            V = 0
            while bernoulli_exp(1, 1):
                V += 1
            Y = (U + t * V) // s
            if rng.integers(2) == 0:
                return Y
            if Y > 0:
                return -Y

    letter = np.array([algorithm_2(3, 7) for _ in range(30_000)])
    assert p_value(letter, a) > 1e-4
    assert two_samples(sample_dlap(a, MILLION, seeded(21)), letter, a) > 1e-4


def two_samples(ours, theirs, a):
    table = np.array([counts(ours, cells(float(a))), counts(theirs, cells(float(a)))])
    return chi2_contingency(table[:, table.sum(0) >= 50]).pvalue


# --- word by word -----------------------------------------------------------------------------------------------


@cache
def exp_digits(x, bits):
    """⌊2^bits · exp(-x)⌋, by the decimal library."""
    with localcontext(prec=120):
        value = (-Decimal(x.numerator) / x.denominator).exp() * 2**bits
        return int(value.to_integral_value(ROUND_FLOOR))


def slow(s, t, n, read):
    """What `_accepted` should make of these words: real numbers compared with real numbers, one by one."""
    words = read(8 * n)

    def word(start, width, i):
        return int.from_bytes(words[start * n + width * i :][:width], "little")

    def below(u, bits, x):
        while u == exp_digits(x, bits):
            u, bits = u << 64 | int.from_bytes(read(8), "little"), bits + 64
        return u < exp_digits(x, bits)

    accepted = []
    for i in range(n):
        U, low = divmod(word(0, 4, i) * t, 2**32)
        if low >= 2**32 % t and below(word(4, 2, i), 16, Fraction(U, t)):
            accepted.append((U, word(6, 2, i)))
    draws = []
    for U, last in accepted:
        V, more, u = 0, 8, last >> 1
        while more == 8:
            more = sum(below(u, 15, Fraction(k)) for k in range(1, 9))
            V += more
            u = int.from_bytes(read(2), "little") >> 1 if more == 8 else u
        Y = (U + t * V) // s
        if last % 2 == 0 or Y > 0:
            draws.append(-Y if last % 2 else Y)
    return draws


@pytest.mark.parametrize("a", [Fraction(1, 65536), 1 / 3, Fraction(3, 7), 4.5, Fraction(37, 5), 12, 50, 1e6, LARGEST])
def test_fast_equals_slow_word_by_word(a):
    size, read, draws = 1000, seeded(5).bytes, []
    while len(draws) < size:
        draws += slow(*rate(a).as_integer_ratio(), 2 * (size - len(draws)) + 8, read)
    assert sample_dlap(a, size, seeded(5)).tolist() == draws[:size]


class Words:
    """Candidates of chosen words, then further words of chosen bytes."""

    def __init__(self, x, first, last, further):
        n = np.broadcast(x, first, last).size
        kinds = (x, "<u4"), (first, "<u2"), (last, "<u2")
        self.n, self.head = n, b"".join(np.broadcast_to(np.asarray(v, kind), n).tobytes() for v, kind in kinds)
        self.further = further if callable(further) else lambda _: further

    def bytes(self, length):
        head, self.head = self.head, b""
        return head or bytes([self.further(length)]) * length

    def accepted(self, s, t):
        return noise._accepted(s, t, self.n, self.bytes)


ZERO, ONES = 0, 255
PLUS = 65534  # the last word of a candidate with V = 0 and a positive sign


@pytest.mark.parametrize(("U", "t"), [(1, 10), (6, 7), (0, 1), (12345, 65536), (1, LARGEST), (LARGEST - 1, LARGEST)])
def test_of_all_words_the_share_that_accepts_has_the_digits_of_exp(U, t):
    x, words = -(-((U << 32) + 2**32 % t) // t), np.arange(2**16)
    upto = exp_digits(Fraction(U, t), 16)
    assert (Words(x, words, PLUS, ONES).accepted(1, t) == U).sum() == upto
    assert (Words(x, words, PLUS, ZERO).accepted(1, t) == U).sum() == min(upto + 1, 2**16)


def test_of_all_words_the_share_with_k_successes_has_the_digits_of_its_power():
    last = np.arange(2**16)
    for further, equal in (lambda _: ONES, 0), (lambda length: ZERO if length == 8 else ONES, 1):
        draws = Words(0, 0, last, further).accepted(1, 1)
        for k in range(1, 9):
            assert (draws >= k).sum() == (draws <= -k).sum() == exp_digits(Fraction(k), 15) + equal
        assert (draws == 0).sum() == 2**15 - (draws > 0).sum()  # minus zero is dropped
        assert draws.max() == 8


def test_many_successes_take_further_words():
    further = iter([ZERO, ZERO, ONES])
    assert Words(0, 0, 0, lambda _: next(further)).accepted(1, 1).tolist() == [3 * 8]
    further = iter([ZERO, ONES])
    assert Words(2**32 - 1, 0, 1, lambda _: next(further)).accepted(LARGEST, LARGEST).tolist() == [-16]
    assert next(further, None) is None


@pytest.mark.parametrize("t", [1, 2, 3, 7, 10, 65536, 655360, 2**31 - 1, 2**31 + 1, LARGEST])
def test_each_uniform_value_has_as_many_words_as_the_next(t):
    for U in {0, t // 3, t // 2, t - 1} | set(range(min(t, 10))):
        start, end = -(-(U << 32) // t), -(-((U + 1) << 32) // t)  # the words x with ⌊x·t/2³²⌋ = U
        tried = sorted({*range(start, min(end, start + 3)), end - 1})  # only the first can be refused
        used = Words(tried, 0, PLUS, ONES).accepted(1, t)
        assert set(used.tolist()) <= {U}
        assert end - start - (len(tried) - len(used)) == 2**32 // t


@pytest.mark.parametrize("x", [Fraction(1), Fraction(8), Fraction(1, 10), Fraction(65535, 65536), Fraction(1, LARGEST)])
@pytest.mark.parametrize(("step", "below"), [(-1, True), (1, False)])
def test_equal_digits_are_read_on_until_they_differ(x, step, below):
    digits = exp_digits(x, 144) + step
    further = [(digits >> shift) % 2**64 for shift in (0, 64)]
    n, d = x.as_integer_ratio()
    assert noise.below(digits >> 128, 16, n, d, lambda length: further.pop().to_bytes(length, "little")) == below
    assert not further


@given(st.integers(0, 9 * 2**32), st.integers(1, LARGEST), st.integers(0, 200), st.integers(1, 9))
def test_digits_of_exp(n, d, bits, spare):
    n = min(n, 9 * d)
    assert noise.digits_of_exp(n, d, bits, spare) == exp_digits(Fraction(n, d), bits)


# --- rate and variance --------------------------------------------------------------------------------------------

rates = st.one_of(
    st.floats(1 / LARGEST, 2.0**40, exclude_min=True),
    st.fractions(Fraction(1, LARGEST), 2**34, max_denominator=2**70),
)


@given(rates)
def test_a_rate_never_grows_and_its_terms_are_small(a):
    used = rate(a)
    assert 0 < used <= a
    assert max(used.as_integer_ratio()) <= LARGEST
    assert used == rate(used)


@given(st.fractions(Fraction(1, LARGEST), 1, max_denominator=2**70))
def test_no_small_fraction_lies_between_a_rate_below_1_and_what_was_asked(a):
    p, q = rate(a).as_integer_ratio()
    # The next fraction in the Farey sequence has the largest denominator for which p'·q - p·q' = 1.
    after = LARGEST - (LARGEST + pow(p, -1, q)) % q
    assert rate(a) == a or Fraction(1 + p * after, q * after) > a


@given(st.integers(1, 14), st.fractions(Fraction(1, 14), 20, max_denominator=200))
def test_a_rate_is_the_best_of_all_fractions(largest, a):
    terms = range(1, largest + 1)
    lower = [Fraction(p, q) for p in terms for q in terms if Fraction(p, q) <= a]
    with mock.patch.object(noise, "LARGEST", largest):
        if lower:
            assert rate(a) == max(lower)
        else:
            with pytest.raises(InputError, match="at least"):
                rate(a)


@given(st.integers(1, LARGEST), st.integers(1, LARGEST))
def test_small_fractions_stay(p, q):
    assert rate(Fraction(p, q)) == Fraction(p, q)


def test_rates_people_write():
    assert rate(0.1) == Fraction(1, 10)  # the float is a little above
    assert rate(4 / 65536) == Fraction(1, 16384)
    assert rate(3) == 3
    assert rate(2**40) == rate(Fraction(10**400)) == LARGEST
    assert rate(Fraction(1, LARGEST)) == Fraction(1, LARGEST)


def exact_variance(a):
    with localcontext(prec=60):
        q = (-Decimal(a.numerator) / a.denominator).exp()
        return 2 * q / (1 - q) ** 2


@pytest.mark.parametrize("a", [1e-9, 1e-5, 1 / 65536, 0.1, 1 / 3, 1, 4, 16, 50, 100, 700, 1000, 1e5])
def test_variance_to_the_last_digits(a):
    assert dlap_variance(a) == pytest.approx(float(exact_variance(rate(a))), rel=4e-15)
    assert dlap_variance(np.array([[a]])) == pytest.approx(np.array([[float(exact_variance(Fraction(a)))]]), rel=4e-15)


@pytest.mark.parametrize("a", [Fraction(1, 100), Fraction(3, 7), 0.5, 4, 30])
def test_variance_is_the_sum_over_all_values(a):
    k = np.arange(1, 10_000, dtype=np.longdouble)
    mass = np.exp(-k * np.longdouble(Fraction(a).numerator) / Fraction(a).denominator)
    assert dlap_variance(a) == pytest.approx(float(2 * (k * k * mass).sum() / (1 + 2 * mass.sum())), rel=1e-14)


@pytest.mark.parametrize("a", AWKWARD)
def test_draws_have_the_variance(a):
    draws = sample_dlap(a, MILLION, seeded(3))
    variance = dlap_variance(a)
    deviation = np.sqrt((5 * variance**2 + variance) / MILLION)  # the fourth moment of DLap is 6·var² + var
    assert abs((draws.astype(float) ** 2).mean() - variance) < 5 * deviation


def test_the_variance_of_a_number_is_that_of_the_noise_drawn():
    a = 2.7e-10  # far down, the fractions are 1e-10 apart
    assert dlap_variance(a) == dlap_variance(rate(a)) > dlap_variance(np.array([a]))[0]


def test_a_variance_too_large_for_a_float_is_infinite():
    assert dlap_variance(np.array([1e-200, 5e-324, 2e-150])).tolist() == [np.inf, np.inf, pytest.approx(5e299)]


# --- examples and errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 100_000, (), (2, 3), (0, 4)])
def test_shapes(size):
    draws = sample_dlap(0.1, size)
    assert draws.dtype == np.int64
    assert draws.shape == np.empty(size).shape


def test_the_same_seed_gives_the_same_draws():
    first, again, other = (sample_dlap(0.1, 100_000, seeded(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("a", [50, 1e6, LARGEST])
def test_a_large_rate_gives_zeros(a):
    assert not sample_dlap(a, 100_000, seeded()).any()


def test_memory_beside_the_result_is_bounded():
    sample_dlap(0.1, 1)
    tracemalloc.start()
    draws = sample_dlap(0.1, 2 * MILLION)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < draws.nbytes + 4e6


BAD = [0, -1, -0.5, float("nan"), float("inf"), -float("inf"), Fraction(-1, 3)]


@pytest.mark.parametrize("a", BAD)
def test_a_rate_must_be_positive_and_finite(a):
    for refuse in rate, dlap_variance, lambda a: sample_dlap(a, 3), lambda a: dlap_variance(np.array([1.0, a])):
        with pytest.raises(InputError, match="positive and finite, got"):
            refuse(a)


@pytest.mark.parametrize("a", [1e-10, 5e-324, Fraction(1, LARGEST + 1)])
def test_a_rate_must_not_be_too_small(a):
    for refuse in rate, dlap_variance, lambda a: sample_dlap(a, 3):
        with pytest.raises(InputError, match="at least 1/4294967295, got"):
            refuse(a)


def test_a_seed_is_not_a_source_of_words():
    with pytest.raises(InputError, match=r"bytes\(n\), got 7; give numpy\.random\.default_rng"):
        sample_dlap(1, 3, 7)


def test_a_source_that_runs_dry_is_refused():
    with pytest.raises(ValueError, match="buffer"):
        sample_dlap(1, 3, mock.Mock(bytes=lambda length: b"\0" * (length - 1)))


def test_a_size_must_not_be_negative():
    with pytest.raises(ValueError, match="negative"):
        sample_dlap(1, -1)

"""Shares of two aggregators: added modulo the prime, they are the sums again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary.api.w3c.aggregate_shares import FIELD128, unwrap_shares
from attributary.errors import InputError

SUMS = st.lists(st.tuples(st.integers(-(2**100), 2**100), st.integers(0, FIELD128 - 1)), max_size=5)


def test_the_prime_is_that_of_field128() -> None:
    assert FIELD128 == 340282366920938462946865773367900766209  # draft-irtf-cfrg-vdaf, its table of fields
    assert FIELD128 == 2**66 * 4611686018427387897 + 1


@given(SUMS)
def test_sums_that_were_split_come_back(split: list[tuple[int, int]]) -> None:
    first = [share for _, share in split]
    second = [(total - share) % FIELD128 for total, share in split]
    assert unwrap_shares(first, second) == [total for total, _ in split]


@pytest.mark.parametrize("prime", [5, 7, 11])
def test_every_number_of_a_small_field_has_one_sign(prime: int) -> None:
    numbers = unwrap_shares(range(prime), [0] * prime, prime)
    assert sorted(numbers) == list(range(-(prime // 2), prime // 2 + 1))
    assert [number % prime for number in numbers] == list(range(prime))


@pytest.mark.parametrize(("first", "second"), [([1], [1, 2]), ([-1], [0]), ([0], [FIELD128])])
def test_shares_that_do_not_fit_are_refused(first: list[int], second: list[int]) -> None:
    with pytest.raises(InputError, match="shares must be"):
        unwrap_shares(first, second)

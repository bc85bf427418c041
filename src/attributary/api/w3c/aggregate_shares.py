"""aggregate_shares: what two aggregators of W3C Attribution answer, added up."""

from collections.abc import Sequence

from attributary.errors import InputError

FIELD128 = 2**128 - 7 * 2**66 + 1  # the prime of VDAF's Field128


def unwrap_shares(first: Sequence[int], second: Sequence[int], prime: int = FIELD128) -> list[int]:
    """Two decrypted aggregate shares added up: whole numbers, of which noise makes some negative.

    Shares add up modulo a prime, so that sums above half of it mean negative numbers.
    """
    if len(first) != len(second):
        raise InputError(f"shares must be of one length; got {len(first)} and {len(second)}: are they of one batch?")
    if not all(0 <= share < prime for shares in (first, second) for share in shares):
        raise InputError(f"shares must be from 0 to {prime - 1}: are they of another field?")
    sums = ((a + b) % prime for a, b in zip(first, second, strict=True))
    return [total - prime if total > prime // 2 else total for total in sums]

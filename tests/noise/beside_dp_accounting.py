"""Privacy accounts beside those of Google's dp-accounting, which `make test-peers` installs: never below its lower
bound, and at most 1 % above its upper one."""

import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle

from attributary.noise import PrivacyAccount

FINE = 1e-4  # the oracle's grid
CASES = [
    PrivacyAccount(0.5),
    PrivacyAccount(2.7),
    PrivacyAccount(0.0, (0.3,) * 5),
    PrivacyAccount(0.0, (2.0, 0.1)),
    PrivacyAccount(0.3, (0.5,)),
    PrivacyAccount(0.84, (1.0, 0.2, 0.05)),
    PrivacyAccount(2.7, (4.0, 1.0)),
    PrivacyAccount(0.1, (0.01, 0.02)),
    PrivacyAccount(0.2, ((1.0, 1), (0.5, 10))),
]


def bound(account: PrivacyAccount, upper: bool) -> "oracle.PrivacyLossDistribution":
    options = {"value_discretization_interval": FINE, "pessimistic_estimate": upper, "use_connect_dots": upper}
    parts = []
    for level in account.laplace:
        epsilon, steps = level if isinstance(level, tuple) else (level, None)
        if steps is None:
            parts.append(oracle.from_laplace_mechanism(1 / epsilon, **options))
        else:
            parts.append(oracle.from_discrete_laplace_mechanism(epsilon / steps, sensitivity=steps, **options))
    if account.mu:
        parts.append(oracle.from_gaussian_mechanism(1 / account.mu, log_mass_truncation_bound=-60, **options))
    first, *others = parts
    for part in others:
        first = first.compose(part)
    return first


@pytest.mark.parametrize("account", CASES, ids=str)
def test_epsilon_is_never_below_the_oracle_and_at_most_a_hundredth_above(account: PrivacyAccount) -> None:
    upper, lower = bound(account, True), bound(account, False)
    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = account.epsilon(delta)
        assert lower.get_epsilon_for_delta(delta) <= epsilon <= 1.01 * upper.get_epsilon_for_delta(delta)
        assert account.delta(epsilon) <= delta

"""compared: the errors of several plans side by side, for standard error."""

from attributary.cli.planned import Earlier
from attributary.cli.printing import console, percent, print_table
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.expected_errors import PlanErrors
from attributary.spec import Spec
from attributary.spec.mistakes import Mistakes


def print_methods(plans: dict[str, Plan], earlier: Earlier | None) -> None:
    """Prints the errors of each method, and of an earlier plan."""
    first = next(iter(plans.values()))
    own = bool(first.spec.split_by) and not first.spec.total
    rows = [["method", *first.levels, "all", *[f"a {first.spec.split_by} for itself"] * own]]
    rows += [[name, *_figures(plan.expected, own)] for name, plan in plans.items()]
    if earlier:
        rows += [["last plan", *map(percent, [*earlier.levels, earlier.tree, *[earlier.roots] * own])]]
    out = console()
    out.print(f"expected errors at epsilon = {first.spec.epsilon:g} by method")
    print_table(out, rows)


def print_what_if(found: dict[float, Plan]) -> None:
    """Prints the errors under other budgets."""
    first = next(iter(found.values()))
    rows = [["epsilon", *first.levels, "all", "all, equal split"]]
    for epsilon, plan in found.items():
        rows += [[f"{epsilon:g}", *_figures(plan.expected, False), percent(plan.expected.tree.equal)]]
    out = console()
    out.print(f"\nexpected errors under other budgets, {first.method} split")
    print_table(out, rows)


def _figures(errors: PlanErrors, own: bool) -> list[str]:
    figures = [*(level.error.plan for level in errors.levels), errors.tree.plan, *[errors.roots.plan] * own]
    return [percent(figure) for figure in figures]


def epsilons(what_if: str | None, spec: Spec) -> list[float]:
    """The budgets in `epsilon=1,2,4`."""
    if what_if is None:
        return []
    name, _, values = what_if.partition("=")
    try:
        found = [float(value) for value in values.split(",")]
    except ValueError:
        found = []
    if name.strip() != "epsilon" or not found:
        raise InputError(f"--what-if takes budgets, as in epsilon=1,2,4,8; got {what_if}")
    for epsilon in found:
        try:
            spec.at(epsilon)
        except Mistakes as mistakes:
            raise InputError(f"--what-if {mistakes.lines[0]}") from None
    return found


def parts(share: tuple[str, ...], levels: tuple[str, ...]) -> dict[str, float]:
    """The parts of ε in `level=part`, for each level that has one."""
    found: dict[str, float] = {}
    for given in share:
        level, _, part = given.rpartition("=")
        try:
            found[level] = float(part)
        except ValueError:
            raise InputError(
                f"--share takes a level and its part of epsilon, as in {levels[0]}=0.25; got {given}"
            ) from None
    return found

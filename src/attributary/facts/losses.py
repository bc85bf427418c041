"""Losses: what is not reported since budgets run out: of all levels together, and of each level by itself."""

from collections.abc import Sequence

from attributary.facts.numerals import Fact, Numeral, Table, percent, sentence
from attributary.logs.devices import LevelLoss, Reported

NOT_PROTECTED = "these shares are counted in the logs without noise: no browser tells them, and no ε protects them"
USED_UP = "the budget of {} is used up"
OLDER = "credited to an older impression, or to another level"


def count_lines(reported: Reported, paid: int | None, name: str = "") -> list[str]:
    """What becomes of conversions under the limit of the spec, and how many are lost under others."""
    whole = max(reported.by_limit.get(paid or 0, 0) + sum(reported.lost.values()), 1)
    each = [(times, 1 - number / whole) for times, number in reported.by_limit.items()]
    others = [f"{times}{' (the spec)' * (times == paid)}: {lost:.1%}" for times, lost in each]
    lines = [f"lost by how many conversions of a device one epoch pays for: {', '.join(others)}"]
    if reported.by_clip:
        parts = ", ".join(f"{clip:g}: {1 - here / reported.whole:.1%}" for clip, here in reported.by_clip.items())
        what = f"{reported.whole:,.2f} of {name} are on conversions with an impression"
        lines += [f"{what}; clips and budgets leave out, by the clip: {parts}"]
    if reported.moved:
        lines += [f"{reported.moved:,} conversions are credited to an older impression, whose epoch can still pay"]
    return lines


def loss_table(losses: Sequence[LevelLoss]) -> Table:
    """A row for each level: its conversions, and the part that it does not learn, by ledger, and the error of noise."""
    ledgers = list(dict.fromkeys(name for loss in losses for name in loss.lost))
    moved = any(loss.moved for loss in losses)
    rows = []
    for loss in losses:
        whole, lost = max(loss.conversions, 1), sum(loss.lost.values())
        cells = [Numeral(f"{loss.conversions:,}", loss.conversions), percent(lost / whole)]
        cells += [percent(loss.lost.get(name, 0) / whole) for name in ledgers]
        rows.append([loss.level, *cells, *[percent(loss.moved / whole)] * moved, percent(loss.noise)])
    heads = ["level", "conversions", "lost", *(f"to {name}" for name in ledgers), *["moved"] * moved]
    heads += ["error of noise"]
    return Table("conversions that find no budget left", heads, rows)


def loss_facts(losses: Sequence[LevelLoss]) -> list[Fact]:
    """The same for a page; nothing where no budget runs out."""
    if not losses:
        return []
    parts = {loss.level: sum(loss.lost.values()) / max(loss.conversions, 1) for loss in losses}
    alike = len({percent(part) for part in parts.values()}) == 1
    answer = f"{percent(max(parts.values()))} of conversions{'' if alike else ' at the level that loses most'}"
    more = [] if alike else [f"{', '.join(f'{level} {percent(part)}' for level, part in parts.items())}."]
    worst = max(losses, key=lambda loss: parts[loss.level])
    more += [f"{percent(n / worst.conversions)}: {USED_UP.format(name)}." for name, n in worst.lost.items()]
    moved = max(loss.moved / max(loss.conversions, 1) for loss in losses)
    more += [f"{percent(moved)} more are {OLDER}."] if moved else []
    noise = ", ".join(f"{loss.level} {percent(loss.noise)}" for loss in losses)
    more += [f"Beside it, the error of noise: {noise}."]
    more += ["Intervals and errors of the estimates are of noise alone; what is lost is missing from all figures."]
    return [Fact("Lost to budgets", answer, tuple(more), sentence(NOT_PROTECTED) if any(parts.values()) else "")]

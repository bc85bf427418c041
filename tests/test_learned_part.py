"""Learning with measures: the same noise, a smaller error, in whatever unit."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from attributary.cli import main
from attributary.cli.learned_part import learned_part, worth_of
from attributary.cli.run_parts import measured_part
from attributary.logs.generate import generate
from attributary.plan import make_plan
from attributary.plan.parts import parts
from attributary.prior import from_counts
from attributary.profile import profile
from test_values_plan import rows, spec

MEASURES = '\n[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nclip = '


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    generate("shop", f"{folder}/", 20_000, 0)
    text = (folder / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 2")
    (folder / "auto.toml").write_text(f'conversions_per_impression = "auto"\n{text}{MEASURES}"auto"\n')
    (folder / "fixed.toml").write_text(f"conversions_per_impression = 2\n{text}{MEASURES}100\n")
    return folder


def run(*args: object) -> str:
    result = CliRunner().invoke(main, ["run", *map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stderr


def test_learning_leaves_the_noise_and_lowers_the_error(shop: Path, tmp_path: Path) -> None:
    errors: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(3):
        for name, more in (("without", []), ("with", ["--learn"])):
            asked = ["--prior-until", "2026-02-02", "--nonnegative", "--seed", seed, "-o", tmp_path / name]
            told = run(shop / "auto.toml", *asked, *more)
            errors[name] += [float(e) for e in re.findall(r"error of this draw: ([0-9.]+)%", told)]
        plain, learned = (pq.read_table(tmp_path / name / "estimates.parquet") for name in ("without", "with"))
        assert plain.column("noisy").equals(learned.column("noisy"))
        assert "from_prior" in learned.column_names and "from_prior" not in plain.column_names
    assert len(errors["with"]) == 6
    for measure in (0, 1):
        one, other = (np.mean(np.square(errors[name][measure::2])) for name in ("with", "without"))
        assert one < other


def test_learning_goes_without_an_earlier_period(shop: Path, tmp_path: Path) -> None:
    run(shop / "fixed.toml", "--learn", "--whole", "--seed", 1, "-o", tmp_path)
    found = pq.read_table(tmp_path / "estimates.parquet").to_pylist()
    counts = [row["estimate"] for row in found if row["measure"] == "count"]
    assert counts == [round(count) for count in counts]
    assert max(row["from_prior"] for row in found if row["measure"] == "revenue") > 0


def times(table: pa.Table, factor: float) -> pa.Table:
    for name in ("revenue", "revenue_from"):
        cells = table.column(name).to_numpy() * factor
        table = table.set_column(table.column_names.index(name), name, [cells])
    return table


def test_what_is_learned_does_not_depend_on_the_unit() -> None:
    found = []
    for unit in (1, 100):  # euros, and cents
        asked, table = spec(2, 40 * unit), times(rows(0, 30, size=60), unit)
        tree = asked.tree(table)
        known, prior = profile(tree, asked, table), from_counts(tree, table)
        plan = make_plan(asked, tree, prior, profile=known)
        part = parts(plan)[1]
        limited = known.limited(part.measure, 2, part.clip)
        noisy = limited + unit * np.random.default_rng(0).normal(0, 50, len(tree))
        past = measured_part(part, tree, limited, prior, np.random.default_rng(1))
        assert past.protected and past.history
        for before in (None, past):
            expected = learned_part(part, tree, noisy, before, worth_of(plan, 1))
            assert expected.share is not None and expected.spread is not None
            found.append(np.concatenate([expected.share, expected.mean / unit, expected.spread / unit**2]))
    assert found[0] == pytest.approx(found[2], rel=1e-6)
    assert found[1] == pytest.approx(found[3], rel=1e-6)
    assert np.isfinite(found[0][-90:]).any() and not np.allclose(found[0], found[1])
    assert worth_of(plan, 0) == 1.0

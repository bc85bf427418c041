"""Things to report on: a generated shop's run, labels that bite, a flat tree, an evaluation."""

import atexit
import shutil
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from click.testing import CliRunner

from attributary import Tree, denoise
from attributary.cli import main
from attributary.paper import generate
from attributary.tables import write_table

BITING = [
    "<script>document.title='run'</script>",
    "</script><img src=x onerror=\"document.title='run'\">",
    "\"double\" & 'single' \\ `tick` ${7*7} {{7*7}}",
    "<!-- <b>bold</b> ]]>",
    "שלום עולם",
    "مرحبا \u202e over \u2067 there",
    "👩‍👩‍👧 🎉 é e\u0301",
    "long " * 2_000,
    "\u200b",
    "tab\tline\nnull\x00escape\x1bdel\x7f",
    " spaces  inside and out ",
    "javascript:document.title='run'",
]


def estimates(tree: Tree, seed: int = 0, wrong: dict[int, float] | None = None, **options: Any) -> pa.Table:
    """The table of estimates of a tree whose leaves have a few conversions each; `wrong` moves noisy figures."""
    rng = np.random.default_rng(seed)
    truth = np.where(tree.to_level_order(tree.is_leaf), rng.poisson(rng.gamma(1, 30, len(tree))), 0).astype(float)
    for i in range(tree.depth - 1, 0, -1):
        here = tree.slice(i)
        np.add.at(truth, tree.family[here], truth[here])
    variance = tree.by_level(np.linspace(2, 5, tree.depth))
    noisy = tree.from_level_order(truth) + rng.laplace(0, np.sqrt(variance / 2))
    for node, by in (wrong or {}).items():
        noisy[node] += by
    est = denoise(tree, noisy, variance, **options)
    interval = est.interval()
    columns = {
        "noisy": noisy,
        "noise_variance": variance,
        "estimate": est.count,
        "variance": est.variance,
        "low": interval.low,
        "high": interval.high,
        "correction": est.correction,
    }
    table = tree.table()
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, mask=np.isnan(values)))
    return table


def labelled(labels: list[str], below: list[str]) -> Tree:
    """Every first label with every second below it."""
    rows = {"first": [a for a in labels for _ in below], "second </script>": below * len(labels)}
    paths = Tree.from_paths(rows, list(rows), fill=True).table().select(list(rows))
    return Tree.from_paths(paths, list(rows))


def biting(folder: Path) -> Path:
    path = folder / "biting.parquet"
    write_table(estimates(labelled(BITING, ["<i>p</i>", "q"]), wrong={0: 400.0}), str(path))
    return path


def evaluation(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    rows = [
        {
            "dataset": "generated <b>",
            "tree": "campaign > day",
            "method": method,
            "noise": "api",
            "epsilon": epsilon,
            "tau": tau,
            "level": level,
            "rmsre": worse / epsilon / tau * (1 + 0.1 * rng.random()),
            "standard_error": 0.002,
        }
        for method, worse in (("optimal", 1.0), ("equal", 1.4), ("leaves", 1.9))
        for epsilon in (1.0, 4.0, 16.0)
        for tau in (5.0, 10.0)
        for level in (None, "campaign", "day")
    ]
    path = folder / "evaluation.csv"
    write_table(pa.Table.from_pylist(rows), str(path))
    return path


def shop(folder: Path) -> Path:
    """The folder that `attributary run` writes for a generated shop."""
    return Path(shutil.copytree(_ran("spec.toml"), folder / "run"))


def values(folder: Path) -> Path:
    """The same for conversions and what they brought, with limits that the plan chose."""
    return Path(shutil.copytree(_ran("values.toml"), folder / "run"))


MEASURES = (
    '\n[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nunit = "EUR"\nclip = "auto"\n'
)


@cache
def _ran(spec: str) -> Path:
    """The folder that `attributary run` writes for the shop and this spec, made once in a process."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder)
    generate("shop", f"{folder}/", 20_000, 0)
    text = (folder / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 20")
    (folder / "values.toml").write_text(f'conversions_per_impression = "auto"\n{text}{MEASURES}')
    args = ["run", f"{folder}/{spec}", "--prior-until", "2026-02-02", "-o", f"{folder}/run", "--seed", "3", "-q"]
    with patch.object(import_module("attributary.report.page"), "inline", return_value="<svg></svg>"):
        assert CliRunner().invoke(main, args).exit_code == 0
    return folder / "run"


def write(path: Path, *files: Path, **options: Any) -> Path:
    """The page of some files."""
    from attributary.report import page, read

    path.write_text(page(read([str(file) for file in files]), **options).html, encoding="utf-8")
    return path

"""Seven tasks of an analyst, each with its file and in at most two commands or calls, none of them refused.

Of every task: sums are exact; intervals of 95 % hold 93 to 97 % of the measured cells over many draws; the root mean
square error of no level is above that of the raw figures.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

import attributary as library
from attributary.tables import read_table, write_table
from support.command import attributary

DRAWS = 40
Path_ = tuple[str, ...]
Cells = dict[Path_, float]


class Outcome(NamedTuple):
    """What a task gave, by node: the estimate and its interval; and the noisy figures, where there are such."""

    estimate: Cells
    low: Cells
    high: Cells
    noisy: Cells


class Task(NamedTuple):
    sizes: tuple[int, ...]  # of families, level by level
    mean: float  # of a leaf's count
    solve: Callable[[Cells, np.random.Generator, Path], Outcome]


def nodes_of(counts: Cells) -> Cells:
    """The count of every node above leaves, too, the total left out."""
    sums: Cells = {}
    for path, count in counts.items():
        for depth in range(1, len(path) + 1):
            sums[path[:depth]] = sums.get(path[:depth], 0) + count
    return sums


def laplace(rng: np.random.Generator, nodes: Cells, scale: float = 4.0) -> Cells:
    return {path: count + float(rng.laplace(0, scale)) for path, count in nodes.items()}


def told(table: pa.Table, levels: list[str], figure: str = "") -> dict[str, Cells]:
    """The columns of a table as it is read, by path."""
    read: dict[str, Cells] = {"estimate": {}, "low": {}, "high": {}}
    for row in table.to_pylist():
        if figure and row.get("measure") != figure:
            continue
        path = tuple(str(row[name]) for name in levels if row[name] not in (None, ""))
        for name, cells in read.items():
            cells[path] = float(row[name])
    return read


def run(*args: str) -> None:
    result = attributary(*args)
    assert result.exit_code == 0, result.output


def german(x: float) -> str:
    return f"{x:,.1f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def clean_room(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """A German export with semicolons, totals, a small group left out, and a store that is called otherwise."""
    noisy = {
        tuple("Köln Süd" if part == "b1.1" else part for part in path): x for path, x in laplace(rng, nodes).items()
    }
    gone = next(path for path in noisy if len(path) == 3)
    kept = {path: x for path, x in noisy.items() if path != gone}
    lines = ["Region;Filiale;Woche;Besuche"]
    lines += [";".join([*path, *["Gesamt"] * (3 - len(path)), german(x)]) for path, x in kept.items()]
    (folder / "besuche.csv").write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    run("denoise", "--table", str(folder / "besuche.csv"), "--noise", "laplace:scale=4", "--fill", "-q",
        "-o", str(folder / "zahlen.csv"))  # fmt: skip
    written = (folder / "zahlen.csv").read_bytes().decode("cp1252").split("\r\n")
    assert written[0].startswith("Region;Filiale;Woche;Besuche;estimate;") and "Gesamt;Gesamt;" in written[1]
    assert written[1].startswith(lines[1]) and "," in written[1].split(";")[4]
    read = told(read_table(str(folder / "zahlen.csv")), ["Region", "Filiale", "Woche"])
    back = {path: tuple("b1.1" if part == "Köln Süd" else part for part in path) for path in read["estimate"]}
    named = {name: {back[path]: x for path, x in cells.items()} for name, cells in read.items()}
    return Outcome(**named, noisy={back[path]: x for path, x in kept.items() if path in back})


def rollup(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """Parquet of a ROLLUP, without the groups below 12, and nobody states the noise."""
    noisy = laplace(rng, nodes)
    kept = {path: x for path, x in noisy.items() if len(path) < 2 or x >= 12}
    rows = {name: [path[i] if len(path) > i else None for path in kept] for i, name in enumerate(["shop", "day"])}
    write_table(pa.table({**rows, "orders": list(kept.values())}), str(folder / "rollup.parquet"))
    run("denoise", "--table", str(folder / "rollup.parquet"), "--noise", "estimated", "--fill", "-q",
        "-o", str(folder / "out.parquet"))  # fmt: skip
    return Outcome(**told(read_table(str(folder / "out.parquet")), ["shop", "day"]), noisy=kept)


def pivot(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """A pivot in a spreadsheet: a title, merged regions, months side by side, and their total at the end."""
    noisy = laplace(rng, nodes)
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    stores = [path for path in nodes if len(path) == 2]
    months = list(dict.fromkeys(path[2] for path in nodes if len(path) == 3))
    sheet.append(["Visits by month"])
    sheet.append(["Region", "Store", *months, "Total"])
    for store in stores:
        row = [noisy[(*store, month)] for month in months]
        sheet.append([store[0], store[1], *row, noisy[store]])
    for first, last in ((3, 2 + len(stores) // 2), (3 + len(stores) // 2, 2 + len(stores))):
        sheet.merge_cells(start_row=first, end_row=last, start_column=1, end_column=1)
    book.save(folder / "pivot.xlsx")
    run("denoise", "--table", str(folder / "pivot.xlsx"), "--noise", "laplace:scale=4", "-q",
        "-o", str(folder / "out.xlsx"))  # fmt: skip
    sheet = openpyxl.load_workbook(folder / "out.xlsx").active
    assert sheet is not None
    heads, *rows = sheet.iter_rows(values_only=True)
    assert list(heads[: len(months) + 3]) == ["Region", "Store", *months, "Total"] and len(rows) == len(stores)
    for row in rows:
        assert sum(row[2 : len(months) + 2]) == pytest.approx(row[len(months) + 2], abs=1e-9)  # type: ignore[arg-type]
    read = told(read_table(str(folder / "out.xlsx")), ["Region", "Store", "month"])
    return Outcome(**read, noisy={path: x for path, x in noisy.items() if len(path) > 1})


def bounds(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """Bounds of each row in two columns, as clean rooms print them."""
    scale = {path: 2.0 + 3 * len(path) for path in nodes}
    noisy = {path: x + float(rng.laplace(0, scale[path])) for path, x in nodes.items()}
    half = {path: float(-np.log(0.05) * b) for path, b in scale.items()}
    labels = [[path[i] if len(path) > i else "" for i in range(2)] for path in nodes]
    lines = ["region,store,users,lower,upper"]
    lines += [
        f"{','.join(row)},{noisy[path]!r},{noisy[path] - half[path]!r},{noisy[path] + half[path]!r}"
        for row, path in zip(labels, nodes, strict=True)
    ]
    (folder / "users.csv").write_text("\n".join(lines))
    run("denoise", "--table", str(folder / "users.csv"), "-q", "-o", str(folder / "out.csv"))
    return Outcome(**told(read_table(str(folder / "out.csv")), ["region", "store"]), noisy=noisy)


def pandas_frame(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """A frame with four levels, one call."""
    levels, noisy = ["country", "region", "store", "week"], laplace(rng, nodes)
    columns = {name: [path[i] if len(path) > i else None for path in nodes] for i, name in enumerate(levels)}
    frame = pd.DataFrame({**columns, "visits": list(noisy.values())}, index=range(7, 7 + len(nodes)))
    made = library.denoise_table(frame, levels=levels, value="visits", noise="laplace:scale=4")
    out = made.frame()
    assert isinstance(out, pd.DataFrame) and list(out.index) == list(frame.index)
    assert list(out.columns[:5]) == list(frame.columns)
    return Outcome(**told(pa.Table.from_pandas(out.reset_index(drop=True)), levels), noisy=noisy)


def visits_and_revenue(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """Two figures with a noise each, in one command; the second is judged."""
    visits, revenue = laplace(rng, nodes), {path: x + float(rng.normal(0, 6)) for path, x in nodes.items()}
    lines = ["region,store,visits,revenue"]
    lines += [f"{','.join([*path, '', ''][:2])},{visits[path]!r},{revenue[path]!r}" for path in nodes]
    (folder / "both.csv").write_text("\n".join(lines))
    run("denoise", "--table", str(folder / "both.csv"), "--value", "visits,revenue", "-q",
        "--noise", "visits=laplace:scale=4; revenue=normal:std=6", "-o", str(folder / "out.csv"))  # fmt: skip
    read = read_table(str(folder / "out.csv"))
    assert set(read["measure"].to_pylist()) == {"visits", "revenue"}
    return Outcome(**told(read, ["region", "store"], "revenue"), noisy=revenue)


def two_quarters(nodes: Cells, rng: np.random.Generator, folder: Path) -> Outcome:
    """Two quarters beside each other in one table, and what changed between them."""
    noisy = laplace(rng, nodes)
    rename = {"0": "2025 Q1", "1": "2025 Q2"}
    paths = [(*path[:2], *(rename[part.rpartition(".")[2]] for part in path[2:])) for path in nodes]
    levels = ["region", "store", "quarter"]
    columns = {name: [path[i] if len(path) > i else None for path in paths] for i, name in enumerate(levels)}
    made = library.denoise_table({**columns, "visits": list(noisy.values())}, levels, "visits", noise="laplace:scale=4")
    series = made.changes(by="quarter")
    step = series.steps[-1]
    assert [period.name for period in series.periods] == ["2025 Q1", "2025 Q2"]
    frame = {name: dict(zip(nodes, np.asarray(made.frame()[name], float).tolist(), strict=True))
             for name in ("estimate", "low", "high")}  # fmt: skip
    first = next(path for path in nodes if len(path) == 1)
    change = sum(
        frame["estimate"][path] * (1 if path[2].endswith(".1") else -1)
        for path in nodes
        if len(path) == 3 and path[0] == first[0]
    )
    node = next(i for i in range(len(step.tree)) if step.tree.path(i) == [first[0]])
    assert step.tree.from_level_order(step.difference.change)[node] == pytest.approx(change)
    return Outcome(**frame, noisy=noisy)


TASKS = {
    "a clean room's German CSV": Task((3, 3, 6), 60, clean_room),
    "a Parquet ROLLUP without its small groups": Task((60, 6), 40, rollup),
    "a pivot in a spreadsheet": Task((2, 4, 6), 50, pivot),
    "bounds of each row": Task((6, 8), 50, bounds),
    "a pandas frame of four levels": Task((2, 3, 3, 3), 30, pandas_frame),
    "visits and revenue": Task((5, 8), 80, visits_and_revenue),
    "two quarters": Task((4, 6, 2), 50, two_quarters),
}


def draws(task: Task, folder: Path) -> Iterator[tuple[Cells, Outcome]]:
    for seed in range(DRAWS):
        rng = np.random.default_rng([seed, len(task.sizes)])
        leaves: Cells = {}
        for place in itertools.product(*map(range, task.sizes)):
            labels = [f"a{place[0]}", *(f"{'abcd'[i]}{place[i - 1]}.{place[i]}" for i in range(1, len(place)))]
            if task.solve in (pivot, clean_room, rollup):  # the last level recurs: months, weeks, days
                labels[-1] = f"2025-{place[-1] + 1:02}"
            leaves[tuple(labels)] = float(rng.poisson(rng.gamma(2, task.mean / 2)))
        nodes = nodes_of(leaves)
        yield nodes, task.solve(nodes, rng, folder)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_done(name: str, tmp_path: Path) -> None:
    task, held, cells = TASKS[name], 0, 0
    errors: dict[int, list[tuple[float, float]]] = {}
    for truth, (estimate, low, high, noisy) in draws(task, tmp_path):
        for path, count in estimate.items():  # sums are exact
            below = [x for other, x in estimate.items() if len(other) == len(path) + 1 and other[:-1] == path]
            assert not below or sum(below) == pytest.approx(count, abs=1e-6), path
        for path in noisy:
            held += low[path] <= truth[path] <= high[path]
            cells += 1
            errors.setdefault(len(path), []).append((estimate[path] - truth[path], noisy[path] - truth[path]))
    assert 0.93 <= held / cells <= 0.97, f"{held / cells:.1%} of {cells:,} cells"
    for level, each in errors.items():
        ours, raw = np.sqrt(np.mean(np.square(each), axis=0))
        assert ours <= raw, f"level {level}: {ours:.2f} against {raw:.2f}"

"""Said once: for the same plan and estimates, all renderers show the same figures; and what each shows, word for word.

The golden files hold what people read. `make update-golden` accepts what is printed now; read its diff.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import attributary as attributary_package
from attributary import Measurements, Plan, Tree, denoise, rmsre
from attributary.cli.printing import plain
from attributary.estimates import ADDED, plausibility
from attributary.explore import Session, open_session
from attributary.facts import numerals
from attributary.pipeline.run import run
from attributary.tables.as_written import MEASURED
from support.command import attributary
from support.explored import client

GOLDEN = Path(__file__).parent / "golden"
SPEC = """epsilon = 4

[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue", "wed"]
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the same files each time: a spec, earlier counts, and a noisy table of stores and weeks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("shop"))
        patch.setenv("COLUMNS", "160")
        write_inputs()
        yield Path()


def write_inputs() -> None:
    rng = np.random.default_rng(7)
    rows = [(c, f"{c}-{place}", d) for c in "abc" for place in range(4) for d in ("mon", "tue", "wed")]
    size = {"a": 400.0, "b": 60.0, "c": 3.0}
    counts = [rng.poisson(size[c]) for c, _, _ in rows]
    lines = [f"{c},{place},{d},{n}" for (c, place, d), n in zip(rows, counts, strict=True)]
    Path("counts.csv").write_text("\n".join(["campaign,location,day,conversions", *lines, ""]))
    Path("spec.toml").write_text(SPEC)
    visits = rng.poisson(100 + 40 * np.arange(6)[:, None] + np.array([0, 0, 0, 60]), (6, 4))
    rows = [(f"s{i},W{j + 1}", visits[i, j]) for i in range(6) for j in range(4)]
    rows += [(f"s{i},", visits[i].sum()) for i in range(6)]
    noisy = [f"{names},{true + rng.laplace(0, 5):.2f}" for names, true in rows]
    Path("visits.csv").write_text("\n".join(["store,week,visits", *noisy, ""]))


class Text(HTMLParser):
    """What a page says: its text without scripts, styles and drawings, a line for each block."""

    SILENT = ("script", "style", "svg", "template")

    def __init__(self) -> None:
        super().__init__()
        self.silent, self.parts = 0, list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.silent += tag in self.SILENT
        self.parts.append("\n" if tag in ("p", "tr", "li", "h1", "h2", "h3", "div", "section", "dt", "dd") else " ")

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in self.SILENT

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.parts.append(data)


def text_of(html: str) -> str:
    reader = Text()
    reader.feed(html)
    lines = (" ".join(line.split()) for line in "".join(reader.parts).replace("\u00a0", " ").splitlines())
    return "\n".join(line for line in lines if line)


CHANGING = ("version", "written", "seconds", "file", "peak_memory_mb")  # with the day, or the machine


def rounded(value: Any) -> Any:
    """JSON with numbers of six digits, since the last ones are the machine's, and without what changes with the day."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items() if k not in CHANGING}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def as_text(value: Any) -> str:
    return json.dumps(rounded(value), ensure_ascii=False, indent=1)


# What each renderer shows of a plan, of estimates, of changes and of an evaluation.

PLAN = ("plan", "spec.toml", "--prior", "counts.csv", "--protected", "-o", "plan.json")
TABLE = (
    "denoise",
    "--table",
    "visits.csv",
    "--levels",
    "store,week",
    "--value",
    "visits",
    "--noise",
    "laplace:scale=5",
)


def plan_on_terminal() -> str:
    return attributary(*PLAN, "--summary", "plan.summary.json").stderr


def plan_summary() -> str:
    plan_on_terminal()
    return as_text(json.loads(Path("plan.summary.json").read_text()))


def plan_on_page() -> str:
    plan_on_terminal()
    attributary("report", "plan.json", "-o", "plan.html", "-q")
    return text_of(Path("plan.html").read_text())


def plan_in_notebook() -> str:
    plan_on_terminal()
    return text_of(Plan.load("plan.json")._repr_html_())


def plan_in_explorer() -> str:
    return explored(open_session("spec.toml", prior="counts.csv", protected=True), "/api/plan")


def estimates_on_terminal() -> str:
    return attributary(*TABLE, "-o", "visits.parquet", "--summary", "visits.summary.json").stderr


def estimates_summary() -> str:
    estimates_on_terminal()
    return as_text(json.loads(Path("visits.summary.json").read_text()))


def estimates_on_page() -> str:
    estimates_on_terminal()
    attributary("report", "visits.parquet", "-o", "visits.html", "-q")
    return text_of(Path("visits.html").read_text())


def estimates_in_notebook() -> str:
    import pyarrow.csv as pc

    table = pc.read_csv("visits.csv")
    measured = Measurements.from_table(table, levels=["store", "week"], value="visits", noise="laplace:scale=5")
    return text_of(denoise(measured)._repr_html_())


def estimates_in_explorer() -> str:
    estimates_on_terminal()
    return explored(open_session("visits.parquet"), "/api/about", "/api/rows?page=0")


def changes_on_terminal() -> str:
    estimates_on_terminal()
    options = ("--periods", "week", "-o", "weeks.html", "--summary", "weeks.json")
    return attributary("report", "visits.parquet", *options).stderr


def changes_summary() -> str:
    changes_on_terminal()
    return as_text(json.loads(Path("weeks.json").read_text()))


def changes_on_page() -> str:
    changes_on_terminal()
    return text_of(Path("weeks.html").read_text())


EVALUATE = ("evaluate", "spec.toml", "--counts", "counts.csv", "--draws", "3", "--epsilon", "1,4")


def evaluation_on_terminal() -> str:
    methods = ("--method", "equal", "--method", "optimal", "--estimator", "unbiased", "--estimator", "nonnegative")
    return attributary(*EVALUATE, *methods, "-o", "errors.csv", "--summary", "errors.json").stderr


def evaluation_summary() -> str:
    evaluation_on_terminal()
    return as_text(json.loads(Path("errors.json").read_text()))


def evaluation_on_page() -> str:
    evaluation_on_terminal()
    attributary("report", "errors.csv", "-o", "errors.html", "-q")
    return text_of(Path("errors.html").read_text())


def explored(session: Session, *addresses: str) -> str:
    try:
        tab = client(session)
        return "\n".join(as_text(tab.get(address).json()) for address in addresses)
    finally:
        session.close()


SHOWN: dict[str, Callable[[], str]] = {
    name: function
    for name, function in globals().items()
    if re.fullmatch(r"(plan|estimates|changes|evaluation)_(on_terminal|on_page|in_notebook|in_explorer|summary)", name)
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_is_what_was_accepted(name: str, shop: Path) -> None:
    shown = re.sub(r"\(\d+ kB\)", "(… kB)", "\n".join(line.rstrip() for line in SHOWN[name]().splitlines())) + "\n"
    path = GOLDEN / f"{name}.txt"
    if "UPDATE_GOLDEN" in os.environ:
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8"), "`make update-golden` accepts it; read the diff"


# The law: the figures that each renderer must show, by the number that the library has.


def numbers(value: Any, inside: str = "") -> Iterator[float]:
    """All numbers of a JSON value; with `inside`, those of the dictionaries that name this level."""
    if isinstance(value, dict):
        if not inside or inside in value.values():
            yield from numbers(list(value.values()))
        else:
            yield from (x for each in value.values() for x in numbers(each, inside))
    elif isinstance(value, list):
        if inside and inside in value:
            yield from numbers(value)
        else:
            yield from (x for each in value for x in numbers(each, inside))
    elif isinstance(value, float | int) and not inside:
        yield float(value)


def row_of(text: str, level: str) -> str:
    """The row of a table that is about a level, as words with single spaces."""
    rows = [" ".join(plain(line).replace(" %", "%").split()) for line in text.splitlines()]
    rows = [f" {row} " for row in rows if re.match(rf"{level} [0-9]", row)]
    assert rows, f"no row of {level}"
    return rows[0]


def shown_as(name: str, x: float) -> str:
    return f" {x:,.0f} " if name in ("nodes", "contribution") else f" {plain(numerals.percent(x))} "


def test_the_five_renderers_show_the_same_figures_of_a_plan(shop: Path) -> None:
    texts = {name: SHOWN[f"plan_{name}"]() for name in ("on_terminal", "on_page", "in_notebook")}
    data = {name: json.loads(SHOWN[f"plan_{name}"]()) for name in ("in_explorer", "summary")}
    plan = Plan.load("plan.json")
    for level, contribution in zip(plan.expected.levels, plan.default, strict=True):
        error = level.error
        figures = {"nodes": level.nodes, "expected": error.plan, "equal": error.equal, "leaves": error.leaves}
        figures |= {"zeros": error.zeros, "contribution": contribution, "share": contribution / plan.spec.l1}
        for renderer, text in texts.items():
            row = row_of(text, level.level)
            for name, x in figures.items():
                told = name not in ("contribution", "share") or contribution > 0
                assert not told or shown_as(name, x) in row, f"{renderer}: {name} of {level.level} in {row}"
        for renderer, value in data.items():
            there = list(numbers(value, level.level))
            for name, x in figures.items():
                assert any(np.isclose(x, y, rtol=1e-5, atol=1e-12) for y in there), (
                    f"{renderer}: {name} of {level.level}"
                )
    for renderer, text in texts.items():
        for sentence in plan.privacy_words.all_lines:
            assert sentence in " ".join(text.split()), renderer
        assert plain(numerals.percent(plan.expected.tree.plan)) in plain(text).replace(" %", "%"), renderer
    for value in data.values():
        assert all(any(np.isclose(x, y, rtol=1e-5) for y in numbers(value)) for x in plan.privacy_loss if x)
        assert any(np.isclose(plan.expected.tree.plan, y, rtol=1e-5) for y in numbers(value))


def test_the_five_renderers_show_the_same_figures_of_estimates(shop: Path) -> None:
    texts = {name: SHOWN[f"estimates_{name}"]() for name in ("on_terminal", "on_page", "in_notebook")}
    about, _ = SHOWN["estimates_in_explorer"]().split("\n}\n", 1)
    data = {"in_explorer": json.loads(about + "}"), "summary": json.loads(SHOWN["estimates_summary"]())}
    table = pq.read_table("visits.parquet")
    tree = Tree.from_paths(table, ["store", "week"])
    rows, tau = {name: table.column(name).to_numpy() for name in ADDED + MEASURED}, 10.0
    for i, level in enumerate(tree.level_names):
        here = tree.level == i
        error = rmsre.levels(tree, rows["estimate"], rows["variance"], tau)[i]
        noisy = rmsre.levels(tree, rows["estimate"], rows["noise_variance"], tau)[i]
        noise, variance = rows["noise_variance"][here].mean(), rows["variance"][here].mean()
        median = np.median(np.sqrt(rows["variance"][here]) / np.maximum(rows["estimate"][here], tau))
        figures = {"nodes": here.sum(), "noise": noise, "estimate": variance, "noisy_error": noisy, "error": error}
        words = [f"{here.sum():,}", numerals.number(noise), numerals.number(variance)]
        words += [numerals.change(variance, noise), numerals.percent(noisy), numerals.percent(error)]
        words += [numerals.change(error, noisy), numerals.percent(median)]
        for renderer, text in texts.items():
            assert row_of(text, level) == f" {level} {' '.join(map(plain, words))} ", renderer
        for renderer, value in data.items():
            there = list(numbers(value, level))
            for name, x in (figures | {"median": median}).items():
                assert any(np.isclose(x, y, rtol=1e-5) for y in there), f"{renderer}: {name} of {level}"
    roots = tree.parent < 0
    est = denoise(tree, rows["noisy"], rows["noise_variance"])
    total, (low, high) = est.total(roots), est.total(roots).interval()
    fit, summary = est.fit, data["summary"]["estimates"]
    assert [summary["total"][x] for x in ("estimate", "low", "high")] == pytest.approx([total.count, low, high], 1e-5)
    assert summary["fit"]["z"] == pytest.approx(fit.z, rel=1e-5)
    for renderer, text in texts.items():
        said = plain(text).replace(" %", "%")
        assert f"{total.count:,.0f} " in said and f"give or take {high - total.count:,.0f} (95% interval)" in said
        threshold = f" (threshold {plausibility(est).threshold:.1f} standard deviations)"
        z, threshold = ("", "") if renderer == "on_page" else (f" (z = {fit.z:.1f})", threshold)  # a page is for all
        assert f"oise is as large as stated{z}" in said, renderer
        assert f"o figure is off by more than noise explains{threshold}" in said, renderer
    rows_of_page, shown = json.loads("[" + SHOWN["estimates_in_explorer"]().replace("\n}\n{", "\n},{") + "]")
    named = {f"s{i}" for i in range(6)}
    assert rows_of_page["table"]["called"] == "visits" and {row["label"] for row in shown["rows"]} == named
    for row in shown["rows"]:
        cells = [numerals.count(row[x]) for x in ("noisy", "estimate", "low", "high")]
        cells = [row["label"], *cells[:2], f"{cells[2]} to {cells[3]}", numerals.signed(row["correction"])]
        assert " ".join(cells) in texts["in_notebook"]


def noise_said(*options: str, file: str = "visits.csv", ending: str = "parquet") -> dict[str, str]:
    """What terminal and page say of the shop's visits, denoised under these options."""
    out = f"said.{ending}"
    table = ("denoise", "--table", file, "--levels", "store,week", "--value", "visits")
    said = attributary(*table, *options, "-o", out).stderr
    attributary("report", out, "-o", "said.html", "-q")
    return {"terminal": plain(said), "page": plain(text_of(Path("said.html").read_text()))}


def test_trouble_comes_first_wherever_estimates_are_told(shop: Path) -> None:
    said = noise_said("--noise", "laplace:scale=0.01")
    words = "he noise is far larger than stated: do not use these figures; is the scale right[?]"
    trouble = re.search(rf"{words} \(z = [\d,.]+\)", said["terminal"])
    assert trouble and trouble.start() < said["terminal"].index("give or take")
    lead = said["page"].splitlines()[4]
    assert re.match(f"T{words}", lead)
    assert "If the noise were as stated, 5," in lead and lead.index("do not use") < lead.index("give or take")


def test_noise_that_nobody_stated_is_not_said_to_be_as_stated(shop: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [f"s{i},W{j},{20 + rng.laplace(0, 3):.1f}" for i in range(12) for j in range(3)]
    rows += [f"s{i},,{60 + rng.laplace(0, 3):.1f}" for i in range(12)]
    Path("many.csv").write_text("\n".join(["store,week,visits", *rows, ""]))
    for renderer, text in noise_said("--noise", "estimated", file="many.csv").items():
        assert "as large as stated" not in text and "oise level was estimated from these figures" in text, renderer


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_stated_confidence_is_read_back(shop: Path, ending: str) -> None:
    said = noise_said("--noise", "laplace:scale=5", "--confidence", "0.8", ending=ending)
    assert all("(80% interval)" in text.replace(" %", "%") for text in said.values())
    assert all("95" not in line for line in said["page"].splitlines() if "interval" in line)


@pytest.mark.parametrize("prior", [True, False])
def test_what_a_learned_estimate_rests_on_is_told(shop: Path, prior: bool) -> None:
    rows = [f"s{i},W{j + 1},{90 + 40 * i}" for i in range(6) for j in range(4)]
    Path("last.csv").write_text("\n".join(["store,week,conversions", *rows, ""]))
    options = ("--noise", "laplace:scale=5", "--estimator", "learned", *["--prior", "last.csv"][: 2 * prior])
    for renderer, text in noise_said(*options).items():
        assert ("he prior combines an earlier period" in text) == prior, renderer
        assert ("o earlier period is used" in text) != prior, renderer


def test_the_page_of_a_run_neither_denoises_nor_validates_again(tmp_path: Path) -> None:
    attributary("generate", "shop", "-o", str(tmp_path), "-q")
    done = run(str(tmp_path / "spec.toml"), estimator="nonnegative", rng=np.random.default_rng(1))
    entered: list[str] = []

    def count_calls(frame: FrameType, event: str, arg: object) -> None:
        names = {"denoise.py": "denoise", "spec.py": "_checked"}
        file, name = Path(frame.f_code.co_filename).name, frame.f_code.co_name
        if event == "call" and names.get(file) == name:
            entered.append(name)

    sys.setprofile(count_calls)
    try:
        done.page()
        done.tables  # noqa: B018
    finally:
        sys.setprofile(None)
    assert entered == []


RENDERERS = ("cli/print_results.py", "cli/printing.py")


def test_no_renderer_computes() -> None:
    package = Path(attributary_package.__file__).parent
    rendering = [package / name for name in RENDERERS]
    rendering += [*(package / "report").glob("*.py"), *(package / "explore").glob("*.py")]
    for file in rendering:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in named:
                room = name.removeprefix("attributary.").split(".")[0]
                assert room not in ("budget", "denoising", "rmsre"), f"{file.name} imports {name}"

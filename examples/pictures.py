"""The pictures of README and docs, drawn from the generated shop: `make pictures`."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from attributary import Spec, Tree, denoise, noise
from attributary.evaluate import evaluate, user_cases
from attributary.html import ROOMY
from attributary.paper.generate import FOREST_SPEC, forest
from attributary.report.charts import VegaLite, drawn_as, looks
from examples import shop

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
SAYS = {0: "the campaign itself", 1: "sum of its locations", 2: "sum of their days"}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    tree = shop.tree()
    truth = shop.truth(tree)
    noisy = shop.measure(truth, tree.by_level(shop.EQUAL), np.random.default_rng(11))
    save(before_after(tree, truth, noisy), "before-after")
    (FOLDER / "limit.svg").write_text(limit(), encoding="utf-8")
    print(FOLDER / "limit.svg")


def limit() -> str:
    """Errors against ε on a generated forest, with the limit among them."""
    cases = user_cases(Spec.parse(FOREST_SPEC), *forest(), name="forest", generated=True)
    methods = [f"optimal-{name}" for name in ("nonnegative", "learned", "posterior", "limit0", "limit1")]
    table = evaluate(
        cases, ["greedy-unbiased", *methods], zeros=True, epsilons=[0.5, 1, 2, 4, 8, 16], taus=[5], draws=4
    )
    return drawn_as(table.figure(), "svg").decode()


def before_after(tree: Tree, truth: np.ndarray, noisy: np.ndarray) -> VegaLite:
    """Each campaign's total as the noisy figures tell it, three times over, and as one estimate with its interval."""
    variance = noise.dlap_variance(Fraction(shop.EPSILON, shop.L1)) / tree.by_level(shop.EQUAL) ** 2
    est = denoise(tree, noisy, variance)
    low, high = est.interval(0.95)
    heads = np.flatnonzero(tree.level == 0)
    name = {v: tree.path(int(v))[0] for v in heads}
    said = [
        {"campaign": name[v], "figure": SAYS[level], "off": noisy[below(tree, v, level)].sum() - truth[v]}
        for v in heads
        for level in SAYS
    ]
    ours = [
        {"campaign": name[v], "off": est.count[v] - truth[v], "low": low[v] - truth[v], "high": high[v] - truth[v]}
        for v in heads
    ]
    order = [name[v] for v in heads[np.argsort(-truth[heads])]]
    axis = {"labelFontSize": 13, "labelPadding": 8, "ticks": False}
    y = {"field": "campaign", "type": "nominal", "sort": order, "title": None, "axis": axis}
    off = {"field": "off", "type": "quantitative"}
    title = {"title": "conversions above or below the true count (dashed)", "axis": {"tickCount": 8, "grid": True}}
    legend, names = {"title": "three noisy answers"}, [*SAYS.values()]
    colour = looks("figure", names, ["#7a8793", "#d08a2e", "#b5563c"], legend)
    shape = looks("figure", names, ["circle", "square", "triangle"], legend)
    interval = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}, "y": y}
    layers = [
        (
            {"type": "rule", "color": "#333", "strokeDash": [4, 3]},
            {"x": {"datum": 0, "type": "quantitative"}},
            ours[:1],
        ),
        ({"type": "rule", "color": "#0b8a7d", "strokeWidth": 9, "opacity": 0.3}, interval, ours),
        ({"type": "point", "color": "#0b8a7d", "filled": True, "size": 130, "opacity": 1}, {"x": off, "y": y}, ours),
        (
            {"type": "point", "size": 85, "strokeWidth": 2, "opacity": 0.95},
            {"x": off | title, "y": y, "color": colour, "shape": shape},
            said,
        ),
    ]
    heading = {
        "text": "One question, three noisy answers; one estimate that adds up (green, with its 95 % interval)",
        "subtitle": "Generated shop, 432 nodes: campaign > location > day, ε = 1 split equally over the three levels",
        "anchor": "start",
        "fontSize": 15,
        "subtitleFontSize": 12,
        "offset": 12,
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 620,
        "height": 300,
        "title": heading,
        "background": "white",
        "padding": 10,
        "config": {"font": ROOMY, "view": {"stroke": None}},
        "layer": [{"data": {"values": rows}, "mark": mark, "encoding": encoding} for mark, encoding, rows in layers],
    }


def below(tree: Tree, root: int, level: int) -> np.ndarray:
    """The nodes of a level that stand under a root."""
    return np.flatnonzero((tree.level == level) & (tree.root == tree.root[root]))


def save(spec: VegaLite, name: str) -> None:
    (FOLDER / f"{name}.svg").write_bytes(drawn_as(spec, "svg"))
    print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()

"""The pictures of README and docs, drawn from the generated shop: `make pictures`."""

from fractions import Fraction
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from attributary import Spec, Tree, denoise, noise
from attributary.evaluate import evaluate, user_cases
from attributary.html import ROOMY
from attributary.paper.forest import SPEC, forest
from attributary.report.chart import drawn_as
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
    cases = user_cases(Spec.parse(SPEC), *forest(), name="forest", generated=True)
    methods = [f"optimal-{name}" for name in ("nonnegative", "learned", "posterior", "limit0", "limit1")]
    table = evaluate(
        cases, ["greedy-unbiased", *methods], zeros=True, epsilons=[0.5, 1, 2, 4, 8, 16], taus=[5], draws=4
    )
    return drawn_as(table.figure(), "svg").decode()


def before_after(tree: Tree, truth: np.ndarray, noisy: np.ndarray) -> alt.LayerChart:
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
    y = alt.Y("campaign:N", sort=order, title=None, axis=alt.Axis(labelFontSize=13, labelPadding=8, ticks=False))
    zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color="#333", strokeDash=[4, 3]).encode(x="x:Q")
    colours = alt.Scale(domain=list(SAYS.values()), range=["#7a8793", "#d08a2e", "#b5563c"])
    shapes = alt.Scale(domain=list(SAYS.values()), range=["circle", "square", "triangle"])
    dots = (
        alt.Chart(pd.DataFrame(said))
        .mark_point(size=85, strokeWidth=2, opacity=0.95)
        .encode(
            x=alt.X("off:Q", title="conversions above or below the true count (dashed)", axis=alt.Axis(tickCount=8)),
            y=y,
            color=alt.Color("figure:N", scale=colours, title="three noisy answers"),
            shape=alt.Shape("figure:N", scale=shapes, title="three noisy answers"),
        )
    )
    bars = alt.Chart(pd.DataFrame(ours)).mark_rule(color="#0b8a7d", strokeWidth=9, opacity=0.3)
    marks = alt.Chart(pd.DataFrame(ours)).mark_point(color="#0b8a7d", filled=True, size=130, opacity=1)
    text = alt.TitleParams(
        "One question, three noisy answers; one estimate that adds up (green, with its 95 % interval)",
        subtitle="Generated shop, 432 nodes: campaign > location > day, ε = 1 split equally over the three levels",
        anchor="start",
        fontSize=15,
        subtitleFontSize=12,
        offset=12,
    )
    chart = alt.layer(zero, bars.encode(x="low:Q", x2="high:Q", y=y), marks.encode(x="off:Q", y=y), dots)
    whole = chart.properties(width=620, height=300, title=text, background="white", padding=10)
    return whole.configure_view(stroke=None).configure(font=ROOMY)


def below(tree: Tree, root: int, level: int) -> np.ndarray:
    """The nodes of a level that stand under a root."""
    return np.flatnonzero((tree.level == level) & (tree.root == tree.root[root]))


def save(chart: alt.LayerChart, name: str) -> None:
    spec = chart.to_json()
    (FOLDER / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()

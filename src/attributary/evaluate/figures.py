"""figures: tree error against ε, one line for each method on log axes, as in the paper's figures 4 and 5."""

from typing import Any

from attributary.evaluate.compare import tree_errors
from attributary.evaluate.methods import METHODS
from attributary.html import drawable

LEAST = 1e-4  # errors below are not drawn
COLOURS = {
    "equal-raw": "#b9a06a",
    "equal-blue": "#d08a2e",
    "leaves-blue": "#8a6fb0",
    "greedy-raw": "#c98d80",
    "greedy-blue": "#b5432c",
    "greedy-top-down": "#3f7fbf",
    "optimal-blue": "#7fc4b8",
    "optimal-top-down": "#0b8a7d",
    "optimal-prior": "#04423c",
    "planned-prior": "#7a2f6b",
    "per-node-blue": "#a3b85c",
    "per-node-top-down": "#5b7f12",
    "per-node-prior": "#2c3d09",
}
INK = "#222222"


def figure(table: Any, dataset: str, noise: str, ink: str = INK) -> dict[str, Any]:
    """A Vega-Lite chart of a dataset under a noise model: a row for each tree, a column for each τ."""
    import altair as alt

    rows = [row for row in tree_errors(table) if (row["dataset"], row["noise"]) == (dataset, noise)]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    drawn = [
        {
            "panel": f"τ = {row['tau']:g}, {row['tree']}",
            "method": row["method"],
            "epsilon": row["epsilon"],
            "rmsre": row["rmsre"],
            "whose": "paper" if row["method"] in METHODS and METHODS[row["method"]].paper else "ours",
        }
        for row in rows
        if row["rmsre"] >= LEAST
    ]
    drawn.sort(key=lambda point: point["whose"] == "paper")  # dashed lines above solid ones, so that both are seen
    panels = list(dict.fromkeys(f"τ = {row['tau']:g}, {row['tree']}" for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    colours = alt.Scale(domain=methods, range=[COLOURS.get(name, "#777777") for name in methods])
    chart = (
        alt.Chart(alt.InlineData(values=drawn))
        .mark_line(point=alt.OverlayMarkDef(size=28), strokeWidth=2)
        .encode(
            x=alt.X(
                "epsilon:Q",
                scale=alt.Scale(type="log", base=2),
                title="ε",
                axis=alt.Axis(values=epsilons, format="~g", grid=True),
            ),
            y=alt.Y("rmsre:Q", scale=alt.Scale(type="log", nice=False), title="tree error", axis=alt.Axis(format="~g")),
            color=alt.Color("method:N", scale=colours, sort=methods, title="method"),
            strokeDash=alt.StrokeDash(
                "whose:N", scale=alt.Scale(domain=["paper", "ours"], range=[[5, 3], [1, 0]]), legend=None
            ),
        )
        .properties(width=330, height=240)
        .facet(facet=alt.Facet("panel:N", sort=panels, title=None), columns=min(2, max(1, len(panels))))
        .resolve_scale(y="independent")
        .resolve_axis(x="independent")
        .properties(title=alt.TitleParams(_title(rows, dataset, noise), anchor="start", fontSize=14, offset=10))
    )
    words = dict.fromkeys(("labelColor", "titleColor"), ink)
    axis = {**words, "domainColor": ink, "tickColor": ink, "gridColor": ink, "gridOpacity": 0.12}
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = {
        **spec.get("config", {}),
        "axis": axis,
        "legend": words,
        "header": words,
        "title": {"color": ink},
        "view": {"stroke": None},
        "background": "white" if ink == INK else "transparent",
    }
    return spec


def _title(rows: list[dict[str, Any]], dataset: str, noise: str) -> str:
    generated = any(row["generated"] for row in rows)
    whose = " look-alike, generated rows" if generated else ""
    return f"{dataset}{whose}: tree error, {noise} noise (dashed: the paper's methods)"


def png(spec: dict[str, Any]) -> bytes:
    """The chart as a PNG, drawn here, without a browser or the network."""
    import vl_convert

    data: bytes = vl_convert.vegalite_to_png(drawable(spec), scale=2)
    return data


def svg(spec: dict[str, Any]) -> str:
    """The chart as an SVG."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(drawable(spec))
    return text

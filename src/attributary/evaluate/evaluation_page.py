"""The figures and tables of an evaluation, as pictures like the paper's figures 4 and 5 and as one HTML page."""

from typing import Any

from attributary.evaluate.comparison import beside, best, tree_errors, whose
from attributary.html import ROOMY, drawable

LEAST = 1e-4  # errors below are not drawn
COLOURS = {
    "equal-raw": "#b9a06a",
    "equal-unbiased": "#d08a2e",
    "leaves-unbiased": "#8a6fb0",
    "greedy-raw": "#c98d80",
    "greedy-unbiased": "#b5432c",
    "greedy-nonnegative": "#3f7fbf",
    "optimal-unbiased": "#7fc4b8",
    "optimal-nonnegative": "#0b8a7d",
    "optimal-learned": "#04423c",
    "optimal-posterior": "#d1495b",
    "optimal-limit0": "#666666",
    "optimal-limit1": "#222222",
    "planned-nonnegative": "#4aa3c7",
    "planned-learned": "#7a2f6b",
    "planned-posterior": "#c2185b",
    "planned-limit0": "#888888",
    "planned-limit1": "#444444",
    "zeros": "#aaaaaa",
    "per-node-unbiased": "#a3b85c",
    "per-node-nonnegative": "#5b7f12",
    "per-node-learned": "#2c3d09",
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
            "whose": whose(row["method"]),
        }
        for row in rows
        if row["rmsre"] >= LEAST
    ]
    drawn.sort(key=lambda point: point["whose"] != "ours")  # dashed lines above solid ones, so that both are seen
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
                "whose:N",
                scale=alt.Scale(domain=["paper", "ours", "beside"], range=[[5, 3], [1, 0], [1, 3]]),
                legend=None,
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
        "font": ROOMY,
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
    return f"{dataset}{whose}: tree error, {noise} noise (dashed: the paper's; dotted: 0 everywhere, the limit)"


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


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --ink: #1c2326; --paper: #ffffff; --line: #d5dadd; --good: #0b7a6f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ea; --paper: #15191c; --line: #39424a; --good: #4cc9b8; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
       margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 2rem 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; }
.note { border-left: 4px solid var(--good); padding: .2rem 1rem; }
div.wide { overflow-x: auto; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% if generated %}<p class="note"><strong>The rows were generated.</strong> None of them is from a published dataset:
these are results on a look-alike.</p>{% endif %}
<p>Each line is a method. Dashed are the paper's five, solid are ours; dotted is answering 0 everywhere (zeros), which
a method has to be below to be worth anything. The error is RMSRE at threshold τ of the whole
tree: the root mean square over levels, and over the nodes of a level, of the error relative to the count, or to τ where
that is larger. {{ pooled }} Errors of linear methods are exact; those of non-negative counts are the mean of
{{ draws }} draws of noise. Errors below 0.0001 are not drawn.</p>
{% for chart in charts %}<figure>{{ chart|safe }}</figure>
{% endfor %}
{% if stated %}<h2>What the paper states, at ε = 4</h2>
<div class="wide"><table><tr><th>tree</th><th>τ</th><th>noise</th><th>paper</th><th>the same method here</th>
<th>our best here</th><th></th></tr>
{% for row in stated %}<tr><td>{{ row.dataset }}, {{ row.tree }}</td><td>{{ "%g"|format(row.tau) }}</td>
<td>{{ row.noise }}</td><td>{{ "%.2f"|format(row.stated) }}</td><td>{{ "%.3f"|format(row.greedy) }}</td>
<td>{{ "%.3f"|format(row.ours) }}</td>
<td>{{ row.our_method }}{% if row.generated %}, generated rows{% endif %}</td></tr>
{% endfor %}</table></div>
{% endif %}
{% if compared %}<h2>The paper's best and ours</h2>
<div class="wide"><table><tr><th>tree</th><th>noise</th><th>τ</th><th>ε</th><th>paper's best</th><th></th>
<th>our best</th><th></th><th>change</th><th>zeros</th></tr>
{% for row in compared %}<tr><td>{{ row.dataset }}, {{ row.tree }}</td><td>{{ row.noise }}</td>
<td>{{ "%g"|format(row.tau) }}</td><td>{{ "%g"|format(row.epsilon) }}</td><td>{{ "%.4f"|format(row.paper) }}</td>
<td>{{ row.paper_method }}</td><td>{{ "%.4f"|format(row.ours) }}</td><td>{{ row.our_method }}</td>
<td>{{ ("%+.1f"|format(100 * row.change)).replace("-", "−") }} %</td><td>{{ "%.4f"|format(row.zeros) }}</td></tr>
{% endfor %}</table></div>
{% endif %}
</body>
</html>
"""
POOLED = {
    "nodes": "Nodes of all roots are pooled level by level.",
    "roots": "Each root has its own error, and the figure is their root mean square.",
}


def page(table: Any, title: str) -> str:
    """The page of an evaluation table; light or dark, as the reader's system is."""
    from jinja2 import Environment

    rows = table.to_pylist()
    pairs = dict.fromkeys((row["dataset"], row["noise"]) for row in rows)
    charts = [svg(figure(table, dataset, noise, "currentColor")) for dataset, noise in pairs]
    return (
        Environment(autoescape=True)
        .from_string(PAGE)
        .render(
            title=title,
            generated=any(row["generated"] for row in rows),
            pooled=POOLED.get(rows[0]["pool"], ""),
            draws=max(row["draws"] for row in rows),
            charts=charts,
            stated=beside(table),
            compared=best(table),
        )
    )

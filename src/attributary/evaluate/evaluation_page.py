"""The page of an evaluation: its figures, what the paper states, and the paper's best method beside ours."""

from typing import Any

from attributary.evaluate.comparison import Evaluation, beside, best
from attributary.report.chart import drawn_as

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
<td>{{ ("%+.1f"|format(100 * row.change)).replace("-", "−") }} %
{%- if row.change_error == row.change_error %} ± {{ "%.1f"|format(100 * row.change_error) }}{% endif %}</td>
<td>{{ "%.4f"|format(row.zeros) }}</td></tr>
{% endfor %}</table></div>
{% endif %}
</body>
</html>
"""
POOLED = {
    "nodes": "Nodes of all roots are pooled level by level.",
    "roots": "Each root has its own error, and the figure is their root mean square.",
}


def page(evaluation: Evaluation, title: str) -> str:
    """The page of an evaluation."""
    from jinja2 import Environment

    rows: list[dict[str, Any]] = evaluation.to_pylist()
    pairs = dict.fromkeys((row["dataset"], row["noise"]) for row in rows)
    charts = [drawn_as(evaluation.figure(*pair), "svg").decode() for pair in pairs]
    return (
        Environment(autoescape=True)
        .from_string(PAGE)
        .render(
            title=title,
            generated=any(row["generated"] for row in rows),
            pooled=POOLED.get(rows[0]["pool"], ""),
            draws=max(row["draws"] for row in rows),
            charts=charts,
            stated=beside(evaluation),
            compared=best(evaluation),
        )
    )

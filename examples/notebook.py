"""The example notebook of the docs, executed anew: `make pictures`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import nbformat
from nbclient import NotebookClient

PATH = Path(__file__).parent.parent / "docs" / "example.ipynb"
CELLS = [
    """# From logs to counts that add up

The logs are of a generated shop, which does not exist. Every object below shows itself.""",
    """
    from attributary import Spec, denoise, make_plan, prior
    from attributary.logs import count
    from attributary.paper import generate

    generate("shop", "shop/", 50_000, seed=0)
    spec = Spec.load("shop/spec.toml")
    before = count(spec, "shop", until="2026-02-02").table
    after = count(spec, "shop", since="2026-02-02").table
    after.slice(0, 3).to_pylist()
    """,
    """The counts of the first weeks tell the plan what to expect. What it gives each level:""",
    """
    tree = spec.tree(after)
    plan = make_plan(spec, tree, prior.from_counts(tree, before))
    plan
    """,
    """What a summary report would say of each node, with seeded noise (not for release), and what comes of it:""",
    """
    import numpy as np

    from attributary import Measurements

    truth = prior.from_counts(tree, after).mean
    est = denoise(Measurements.simulate(plan, tree, truth, np.random.default_rng(7)), nonnegative=True)
    est
    """,
    """Any sum of nodes has its exact variance, and the true counts are mostly where the intervals say:""",
    """
    low, high = est.interval(0.95)
    paris = [v for v in range(len(tree)) if tree.level[v] == 1 and tree.path(v)[1] == "Paris"]
    est.total(paris), float(((low <= truth) & (truth <= high)).mean().round(3))
    """,
    """What other methods would have given, on average over all noise (`τ` = 10):""",
    """
    from attributary.evaluate import Case, evaluate

    expected = prior.from_counts(tree, before)
    case = Case.of("shop", "campaign > location > day", spec, tree, truth, expected, generated=True)
    methods = ["equal-raw", "equal-unbiased", "greedy-unbiased", "optimal-nonnegative"]
    evaluate([case], methods, epsilons=[0.5, 1, 2], taus=[10])
    """,
]


def notebook() -> nbformat.NotebookNode:
    """The notebook, executed in an empty folder."""
    made = nbformat.v4.new_notebook()
    for number, text in enumerate(map(dedent, CELLS)):
        new = nbformat.v4.new_code_cell if text.startswith("\n") else nbformat.v4.new_markdown_cell
        made.cells.append(new(text.strip(), id=f"cell-{number}"))
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with TemporaryDirectory() as folder:
        NotebookClient(made, timeout=120, resources={"metadata": {"path": folder}}).execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # when it was run
    made.metadata.pop("language_info", None)
    return made


if __name__ == "__main__":
    nbformat.write(notebook(), PATH)
    print(PATH.name)

"""How much of an estimate came from what was expected: on the page, in the explorer and in a notebook."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.explore.test_explore_in_browser import opened, serve, settled  # noqa: F401

from attributary import Tree, denoise, prior
from attributary.errors import InputError
from attributary.estimates import estimates_table, plausibility
from attributary.explore.estimate_store import open_store
from attributary.facts import numerals
from attributary.facts.privacy import facts
from attributary.facts.quantity import Quantity
from attributary.read_estimates import read_estimates
from attributary.report import ReportInputs, page
from attributary.report.notebook import estimate_html
from attributary.tables import write_table
from support.browser import Tabs, ready, violations
from support.effort import examples
from support.explored import client, closed, every_page, session, written  # noqa: F401
from support.reports import estimates, write


def extras(tab: Any) -> list[str]:
    """The columns that an explorer has beyond those of every table."""
    return [key for _, key, *_ in tab.get("/api/about").json()["table"]["extras"]]


ROWS = "#grid tbody tr[data-node]"


def expected(seed: int = 0) -> Any:
    """An estimate of three roots with four children of five each, by what their families share."""
    labels = {"a": [], "b": [], "c": []}  # type: dict[str, list[str]]
    for i in range(60):
        for name, label in zip("abc", (f"r{i // 20}", f"s{i // 5 % 4}", f"t{i % 5}"), strict=True):
            labels[name].append(label)
    tree = Tree.from_paths(labels, list("abc"), fill=True)
    rng = np.random.default_rng(seed)
    truth = np.zeros(len(tree))
    leaves = np.flatnonzero(tree.is_leaf)
    truth[leaves] = rng.poisson(rng.gamma(1, 6, len(leaves)))
    flat = tree.to_level_order(truth)
    for i in range(tree.depth - 1, 0, -1):
        np.add.at(flat, tree.family[tree.slice(i)], flat[tree.slice(i)])
    variance = tree.by_level(np.array([2.0, 5.0, 9.0]))
    noisy = tree.from_level_order(flat) + rng.laplace(0, np.sqrt(variance / 2))
    return denoise(tree, noisy, variance, prior=prior.learn(tree, noisy, variance))


@given(st.integers(0, 1000))
@settings(max_examples=examples(25), deadline=None)
def test_a_prior_does_not_make_the_noise_look_wrong(seed: int) -> None:
    est = expected(seed)
    told = read_estimates(estimates_table(est, 0.95), "table")
    doubt = plausibility(told)
    assert doubt.z == pytest.approx(est.fit.z, rel=1e-6, abs=1e-6)
    plain = getattr(est, "plain", est)  # where there is nothing to learn, the estimates are plain
    np.testing.assert_allclose(told.plain_variance, est.tree.to_level_order(plain.variance))


def test_the_page_says_how_much_came_from_it_and_that_it_is_biased() -> None:
    est = expected()
    told = read_estimates(estimates_table(est, 0.95), "table")
    (fact,) = [
        fact for fact in facts(None, Quantity("count", "count", "", told, 10.0)) if fact.name == "Weight of the prior"
    ]
    assert numerals.percent(est.from_prior.mean()) in fact.answer and "no longer unbiased" in fact.warning
    for i, name in enumerate(est.tree.level_names):
        share = est.tree.to_level_order(est.from_prior)[est.tree.slice(i)].mean()
        assert f"{name} {numerals.percent(share)}" in fact.more[0]
    html = page(ReportInputs(measures={"count": told}, files=("t",))).html
    assert "Weight of prior" in html and "no longer unbiased" in html
    plain = page(ReportInputs(measures={"count": read_estimates(estimates(est.tree), "t")}, files=("t",))).html
    assert "Weight of prior" not in plain and "no longer unbiased" not in plain


@pytest.mark.parametrize("value", [-0.1, 1.1, None])
def test_a_share_that_is_none_is_refused(value: float | None, tmp_path: Path) -> None:
    table = estimates_table(expected(), 0.95)
    shares = table.column("from_prior").to_pylist()
    shares[4] = value
    wrong = table.set_column(table.column_names.index("from_prior"), "from_prior", pa.array(shares))
    with pytest.raises(InputError, match="row 5: from_prior is a number from 0 to 1; got"):
        read_estimates(wrong, "table")
    with pytest.raises(InputError, match="from_prior is a number from 0 to 1; node 4 has"):
        open_store([written(wrong, tmp_path / "wrong.parquet")])


def test_it_is_a_column_of_the_page_that_sorts(tabs: Tabs, tmp_path: Path) -> None:
    est = expected()
    write_table(estimates_table(est, 0.95), str(tmp_path / "e.parquet"))
    tab = ready(tabs(), write(tmp_path / "e.html", tmp_path / "e.parquet"))
    for _ in range(2):
        tab.click("#deeper")
    rows = tab.eval_on_selector_all(ROWS, "rows => rows.map(r => [Number(r.dataset.node), r.cells[6].textContent])")
    share = est.tree.to_level_order(est.from_prior)
    assert [int(text.removesuffix("\u00a0%")) for _, text in rows] == pytest.approx(
        [100 * share[v] for v, _ in rows], abs=0.56
    )
    tab.click("#close")
    tab.click("th[data-sort=prior] button")
    shown = [int(node) for node in tab.eval_on_selector_all(ROWS, "rows => rows.map(r => r.dataset.node)")]
    assert shown == sorted(range(3), key=lambda v: -round(1000 * share[v]))
    for width in (360, 1600):
        tab.set_viewport_size({"width": width, "height": 900})
        assert violations(tab) == [] and tab.evaluate("document.documentElement.scrollWidth") == width
    assert "weight of prior" in tab.eval_on_selector(f"{ROWS} td:last-child", "cell => cell.dataset.head")


def test_the_explorer_sorts_by_it_and_writes_it(tmp_path: Path) -> None:
    est = expected()
    for path in ("e.parquet", "e.csv"):
        write_table(estimates_table(est, 0.95), str(tmp_path / path))
        tab = client(session(str(tmp_path / path)))
        assert "prior" in extras(tab)
        rows = every_page(tab, level="all", sort="prior")
        assert [r["from_prior"] for r in rows] == pytest.approx(sorted(est.from_prior, reverse=True))
        text = tab.get("/api/rows.csv", params={"level": "all", "sort": "prior"}).text
        read = [float(r["from_prior"]) for r in csv.DictReader(io.StringIO(text, newline=""))]
        assert read == [r["from_prior"] for r in rows]
    plain = client(session(written(estimates(est.tree), tmp_path / "plain.parquet")))
    assert "prior" not in extras(plain)
    assert "rows are sorted by" in plain.get("/api/rows?sort=prior").json()["error"]
    both = client(session(str(tmp_path / "e.parquet"), str(tmp_path / "plain.parquet")))
    assert "prior" not in extras(both)
    shown = [r["estimate"] for r in every_page(both, level="all", sort="order")]
    assert shown == pytest.approx(est.tree.to_level_order(est.plain.blue)), "what is compared is unbiased"


def test_the_explorer_shows_it(tabs: Tabs, serve: Any, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(tabs(), serve(written(estimates_table(expected(), 0.95), tmp_path / "e.parquet")))
    tab.click("thead button:has-text('Weight of prior')")
    tab.wait_for_function("() => document.querySelector('th[aria-sort]').textContent === 'Weight of prior'")
    settled(tab)
    shown = [float(text.split("\u00a0")[0]) for text in tab.locator("#grid tbody td:last-child").all_inner_texts()]
    assert shown == sorted(shown, reverse=True) and violations(tab) == []
    assert "no longer unbiased" in tab.inner_text("#explain")
    tab.locator("#grid tbody a").first.click()
    tab.wait_for_selector("#here:not([hidden])")
    assert "weight of prior" in tab.inner_text("#here")


def test_a_notebook_shows_it() -> None:
    est = expected()
    html = estimate_html(est)
    first = int(est.tree.to_level_order(np.arange(len(est.tree)))[0])
    assert "weight of prior" in html and f"{est.from_prior[first]:.0%}" in html and "no longer unbiased" in html
    assert "weight of prior" not in estimate_html(est.plain)


@pytest.fixture
def whole() -> Any:
    """The same figures as posterior means of whole counts."""
    return denoise(expected().measurements, posterior=True)


def test_a_page_of_posterior_means_has_the_chance_of_zero(tabs: Tabs, tmp_path: Path, whole: Any) -> None:
    write_table(estimates_table(whole, 0.95), str(tmp_path / "e.csv"))
    tab = ready(tabs(), write(tmp_path / "e.html", tmp_path / "e.csv"))
    assert "posterior means of whole counts" in tab.inner_text("body") and "not unbiased" in tab.inner_text("body")
    for _ in range(2):
        tab.click("#deeper")
    rows = tab.eval_on_selector_all(ROWS, "rows => rows.map(r => [Number(r.dataset.node), r.cells[7].textContent])")
    zero = whole.tree.to_level_order(whole.zero)
    assert [int(text.removesuffix("\u00a0%")) for _, text in rows] == pytest.approx(
        [100 * zero[v] for v, _ in rows], abs=0.56
    )
    ranges = tab.eval_on_selector_all(f"{ROWS} .interval .range", "cells => cells.map(c => c.textContent)")
    assert all(bound.replace(",", "").isdigit() for text in ranges for bound in text.split(" to ")), ranges[:3]
    tab.click("th[data-sort=zero] button")
    leaves = [
        int(text.split("\u00a0")[0]) for text in tab.locator(f"{ROWS}[aria-level='3'] td:last-child").all_inner_texts()
    ]
    assert leaves[:5] == sorted(leaves[:5], reverse=True) and violations(tab) == []


def test_the_explorer_and_a_notebook_have_the_chance_of_zero(tmp_path: Path, whole: Any) -> None:
    for path in ("e.parquet", "e.csv"):
        write_table(estimates_table(whole, 0.95), str(tmp_path / path))
        tab = client(session(str(tmp_path / path)))
        assert "zero" in extras(tab)
        rows = every_page(tab, level="all", sort="zero")
        assert [r["zero_probability"] for r in rows] == pytest.approx(sorted(whole.zero, reverse=True))
    assert "chance of 0" in estimate_html(whole) and "chance of 0" not in estimate_html(expected())
    learned = session(written(estimates_table(expected(), 0.95), tmp_path / "l.parquet"))
    assert extras(client(learned)) == ["prior"]


def test_a_chance_that_is_none_is_refused(tmp_path: Path, whole: Any) -> None:
    table = estimates_table(whole, 0.95)
    zero = table.column("zero_probability").to_pylist()
    zero[4] = 1.1
    wrong = table.set_column(table.column_names.index("zero_probability"), "zero_probability", pa.array(zero))
    with pytest.raises(InputError, match="row 5: zero_probability is a number from 0 to 1, or empty; got 1.1"):
        read_estimates(wrong, "table")
    with pytest.raises(InputError, match="zero_probability is a number from 0 to 1, or empty; node 4 has 1.1"):
        open_store([written(wrong, tmp_path / "wrong.parquet")])

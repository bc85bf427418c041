"""The spec: what it reads, the tree that it asks for, and every mistake at once."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attributary.errors import InputError
from attributary.spec import Attribute, Spec
from attributary.spec.attribute import span
from attributary.tree.paths import RowError
from support.effort import examples

DESIGN = """
epsilon = 4
tau = 10
split_by = "campaign"
total = false

[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "delay"
unknown = true
bucket = "2d"
buckets = 15

[logs]
impressions = "impressions/*.parquet"
conversions = "conversions/*.parquet"
user = "user"
time = "time"
window = "30d"
"""


def test_the_spec_of_the_design() -> None:
    spec = Spec.parse(DESIGN)
    assert (spec.epsilon, spec.tau, spec.l1, spec.noise, spec.weights) == (4, 10, 65536, "api", "nodes")
    assert (spec.neighbours, spec.total, spec.conversions_per_impression, spec.budget) == (
        "conversion",
        False,
        1,
        65536,
    )
    assert spec.levels == ("campaign", "location", "delay")
    assert [a.name for a in spec.known] == ["campaign", "location"] and [a.name for a in spec.unknown] == ["delay"]
    assert spec.attributes[2].labels[:2] == ("0-2d", "2-4d") and spec.attributes[2].labels[-1] == "28-30d"
    assert spec.logs is not None and spec.logs.window == "30d"
    assert spec.notes == ()
    with pytest.raises(ValueError, match="frozen"):
        spec.epsilon = 5  # type: ignore[misc]


def test_a_total_is_a_level() -> None:
    assert Spec.parse(DESIGN.replace("total = false", "total = true")).levels == (
        "total",
        "campaign",
        "location",
        "delay",
    )


def test_a_spec_is_itself_again_from_its_fields() -> None:
    spec = Spec.parse(DESIGN)
    assert Spec(**spec.model_dump(by_alias=True, exclude_none=True)) == spec
    assert spec.at(8).epsilon == 8 and spec.at(8).at(4) == spec
    by_hand = Spec(epsilon=1, attributes=[Attribute(name="a"), Attribute(name="b", unknown=True, domain=["x"])])
    assert by_hand.levels == ("a", "b")


def test_a_spec_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(DESIGN, encoding="utf-8")
    assert Spec.load(str(tmp_path / "spec.toml")) == Spec.parse(DESIGN)
    (tmp_path / "latin.toml").write_bytes(b"epsilon = 4 # \xe9t\xe9\n")
    for name, message in (("none.toml", "there is no file"), ("latin.toml", "not UTF-8"), ("", "cannot be read")):
        with pytest.raises(InputError, match=message):
            Spec.load(str(tmp_path / name))


DOMAINS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "labels": ({"domain": ["b", "a"]}, ["b", "a"]),
    "labels of all kinds": ({"domain": ["a", 7, 7.5, 8.0, True]}, ["a", "7", "7.5", "8", "true"]),
    "range": ({"range": [-1, 2]}, ["-1", "0", "1", "2"]),
    "one value": ({"range": [5, 5]}, ["5"]),
    "days": ({"bucket": "2d", "buckets": 2}, ["0-2d", "2-4d"]),
    "hours from a day on": ({"bucket": "6h", "buckets": 2, "start": "1d"}, ["24-30h", "30-36h"]),
    "weeks from an hour on": ({"bucket": "1w", "buckets": 1, "start": "1h"}, ["1-169h"]),
    "numbers": ({"bucket": 10, "buckets": 3}, ["0-10", "10-20", "20-30"]),
    "tenths": ({"bucket": 0.1, "buckets": 3}, ["0-0.1", "0.1-0.2", "0.2-0.3"]),
    "from elsewhere": ({"bucket": 2.5, "buckets": 2, "start": -5}, ["-5--2.5", "-2.5-0"]),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_domains(name: str) -> None:
    given, labels = DOMAINS[name]
    attribute = Attribute(name="a", unknown=True, **given)
    assert list(attribute.labels) == labels and attribute.size == len(labels)


def test_a_known_attribute_has_no_domain() -> None:
    with pytest.raises(ValueError, match="'a' has no domain"):
        Attribute(name="a").labels  # noqa: B018


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("6 h", 21600), ("2d", 172800), ("1w", 604800)]
)
def test_spans(text: str, seconds: int) -> None:
    assert span(text).seconds == seconds


HEAD = 'epsilon = 1\n[[attribute]]\nname = "a"\n'
DAY = '[[attribute]]\nname = "day"\nunknown = true\n'
BAD = {
    "no epsilon": ('[[attribute]]\nname = "a"', "epsilon: is missing; a number above 0, as in epsilon = 4"),
    "epsilon 0": (
        HEAD.replace("1", "0"),
        'epsilon: a number above 0, as in epsilon = 4, or "auto", the least that meets all targets; got 0',
    ),
    "epsilon below 0": (
        HEAD.replace("1", "-0.5"),
        'epsilon: a number above 0, as in epsilon = 4, or "auto", the least that meets all targets; got -0.5',
    ),
    "epsilon nan": (
        HEAD.replace("1", "nan"),
        'epsilon: a number above 0, as in epsilon = 4, or "auto", the least that meets all targets; got nan',
    ),
    "epsilon inf": (
        HEAD.replace("1", "inf"),
        'epsilon: a number above 0, as in epsilon = 4, or "auto", the least that meets all targets; got inf',
    ),
    "epsilon in words": (
        HEAD.replace("1", '"1"'),
        'epsilon: a number above 0, as in epsilon = 4, or "auto", the least that meets all targets; got "1"',
    ),
    "epsilon true": (
        HEAD.replace("1", "true"),
        'epsilon: a number above 0, as in epsilon = 4, or "auto", the least that meets all targets; got true',
    ),
    "too much epsilon": (HEAD.replace("1", "64.5"), "epsilon: a summary report takes at most 64; got 64.5"),
    "tau 0": ("tau = 0\n" + HEAD, "tau: the count below which"),
    "l1 0": ("l1 = 0\n" + HEAD, "l1: a whole number above 0, up to 1e9; the API's is 65536; got 0"),
    "l1 of parts": ("l1 = 1.5\n" + HEAD, "l1: a whole number above 0, up to 1e9; the API's is 65536; got 1.5"),
    "more levels than l1": (
        "l1 = 1\ntotal = true\n" + HEAD,
        "l1: every level needs a contribution of at least 1; got 1 for 2",
    ),
    "noise": ('noise = "gauss"\n' + HEAD, 'noise: noise is "api" (scaled contributions) or "unit" (whole counts)'),
    "weights": ('weights = "x"\n' + HEAD, 'weights: "nodes" (all nodes of a level alike) or "counts"'),
    "neighbours": ('neighbours = "x"\n' + HEAD, 'neighbours: what epsilon protects: "conversion"'),
    "many conversions": (
        "conversions_per_impression = 21\n" + HEAD,
        'conversions_per_impression: how many conversions of an impression count: 1 to 20, or "auto", as the plan says',
    ),
    "no attributes": ("epsilon = 1", "attribute: is missing; one [[attribute]] for each level"),
    "0 attributes": (
        "epsilon = 1\nattribute = []",
        "attribute: one [[attribute]] for each level, top to bottom; got []",
    ),
    "attribute in words": (
        'epsilon = 1\nattribute = ["a"]',
        'attribute[1]: one [[attribute]] for each level, top to bottom; got "a"',
    ),
    "no name": (
        "epsilon = 1\n[[attribute]]\n",
        'attribute[1].name: is missing; the name of a column, as in name = "campaign"',
    ),
    "empty name": (
        HEAD.replace('"a"', '""'),
        'attribute[1].name: the name of a column, as in name = "campaign"; got ""',
    ),
    "taken name": (
        HEAD.replace('"a"', '"level"'),
        "attribute[1].name: 'level' is the name of a column that our tables add",
    ),
    "name twice": (
        HEAD + '[[attribute]]\nname = "a"',
        "attribute[2].name: attributes are named once each; 'a' is the name of attribute[1]",
    ),
    "no domain": (
        HEAD + DAY,
        "attribute[2].domain: attribute 'day' is unknown to the impression and needs a domain; add domain",
    ),
    "empty domain": (HEAD + DAY + "domain = []", "attribute[2].domain: a list of all values it can take"),
    "value twice": (
        HEAD + DAY + 'domain = ["mon", "tue", "mon"]',
        'attribute[2].domain: values are distinct; got "mon" twice',
    ),
    "number twice": (HEAD + DAY + 'domain = [1, "1"]', 'attribute[2].domain: values are distinct; got "1" twice'),
    "empty label": (
        HEAD + DAY + 'domain = ["a", ""]',
        "attribute[2].domain[2]: a list of all values it can take, text or numbers",
    ),
    "star": (
        HEAD + DAY + 'domain = ["*"]',
        "attribute[2].domain[1]: a list of all values it can take, text or numbers",
    ),
    "label of lists": (HEAD + DAY + "domain = [[1]]", "attribute[2].domain[1]: a list of all values it can take"),
    "range backwards": (
        HEAD + DAY + "range = [3, 1]",
        "attribute[2].range: the first value comes first; got [3, 1]: swap them",
    ),
    "range of three": (
        HEAD + DAY + "range = [1, 2, 3]",
        "attribute[2].range: two whole numbers, the first and the last value",
    ),
    "range of parts": (HEAD + DAY + "range = [0, 2.5]", "attribute[2].range[2]: two whole numbers"),
    "endless range": (
        HEAD + DAY + "range = [0, 999999999999]",
        "attribute[2].range: a domain has at most 10,000,000 values; got 1,000,000,000,000",
    ),
    "bucket alone": (
        HEAD + DAY + 'bucket = "2d"',
        "attribute[2].buckets: is missing; say how many, as in buckets = 15",
    ),
    "buckets alone": (HEAD + DAY + "buckets = 3", "attribute[2].buckets: goes with bucket, which is missing"),
    "start alone": (HEAD + DAY + 'domain = ["a"]\nstart = 3', "attribute[2].start: goes with bucket, which is missing"),
    "bucket of years": (
        HEAD + DAY + 'bucket = "2y"\nbuckets = 3',
        "attribute[2].bucket: how wide a bucket is, above 0",
    ),
    "bucket of nothing": (
        HEAD + DAY + 'bucket = "0d"\nbuckets = 3',
        "attribute[2].bucket: how wide a bucket is, above 0",
    ),
    "bucket nan": (HEAD + DAY + "bucket = nan\nbuckets = 3", "attribute[2].bucket: how wide a bucket is, above 0"),
    "0 buckets": (
        HEAD + DAY + "bucket = 1\nbuckets = 0",
        "attribute[2].buckets: how many buckets there are, 1 to 10,000,000; got 0",
    ),
    "start of another kind": (
        HEAD + DAY + 'bucket = 1\nbuckets = 3\nstart = "1d"',
        "attribute[2].start: is a number where bucket is one",
    ),
    "two domains": (
        HEAD + DAY + 'domain = ["a"]\nrange = [1, 2]',
        "attribute[2].range: a domain is given in one way; got domain too",
    ),
    "domain of a known one": (
        HEAD + 'domain = ["a"]',
        "attribute[1].domain: a known attribute takes the values that occur; add unknown = true to 'a'",
    ),
    "known below unknown": (
        HEAD.replace('"a"', '"a"\nunknown = true\nrange = [0, 1]') + '[[attribute]]\nname = "b"',
        "attribute[2]: known attributes come before unknown ones; 'b' is known to the impression but stands below 'a'",
    ),
    "split_by another": (
        'split_by = "b"\n' + HEAD + '[[attribute]]\nname = "b"',
        "split_by: names the first attribute, 'a', whose values are the roots; got 'b'",
    ),
    "split_by nothing": (
        'split_by = "campain"\n' + HEAD.replace('"a"', '"campaign"'),
        "split_by: names the first attribute; there is no attribute 'campain': did you mean 'campaign'?",
    ),
    "typing error": ("epsilom = 3\n" + HEAD, "epsilom: there is no such key; did you mean epsilon?"),
    "unknown key": ("zzz = 3\n" + HEAD, "zzz: there is no such key; the keys are epsilon, tau, metric, l1"),
    "unknown key below": (HEAD + "unkown = true", "attribute[1].unkown: there is no such key; did you mean unknown?"),
    "unknown key in logs": (HEAD + '[logs]\nusr = "x"', "logs.usr: there is no such key; did you mean user?"),
    "window": (HEAD + '[logs]\nwindow = "30"', "logs.window: a whole number of seconds, minutes, hours, days or weeks"),
    "no window": (HEAD + '[logs]\nwindow = "0d"', "logs.window: a whole number of seconds"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_line_with_its_path(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(InputError) as error:
        Spec.parse(text, "spec.toml")
    assert str(error.value).startswith(f"spec.toml: {message}"), error.value
    assert "\n" not in str(error.value)


def test_all_mistakes_at_once() -> None:
    text = 'epsilon = -1\ntau = "x"\nfoo = 1\n' + DAY + '[[attribute]]\nname = "day"\ndomain = []'
    with pytest.raises(InputError) as error:
        Spec.parse(text, "spec.toml")
    first, *lines = str(error.value).splitlines()
    assert first == "spec.toml has 8 mistakes:"
    assert [line.split(":")[0].strip() for line in lines] == [
        *("epsilon", "tau", "attribute[1].domain"),
        *("attribute[2].domain", "attribute[2].domain", "attribute[2].name", "attribute[2]", "foo"),
    ]


@settings(max_examples=examples(60), deadline=None)
@given(picked=st.lists(st.sampled_from(["epsilon below 0", "tau 0", "l1 0", "noise", "weights"]), unique=True))
def test_mistakes_do_not_hide_each_other(picked: list[str]) -> None:
    keys = [BAD[name][0].split("\n")[0] for name in picked]
    text = "\n".join([*keys, *HEAD.splitlines()["epsilon below 0" in picked :]])
    if not picked:
        assert Spec.parse(text).epsilon == 1
        return
    with pytest.raises(InputError) as error:
        Spec.parse(text)
    assert len(str(error.value).splitlines()) == len(picked) + (len(picked) > 1)


def test_mistakes_in_python_are_told_alike() -> None:
    with pytest.raises(InputError, match="the spec has 2 mistakes:\n  epsilon: a number above 0"):
        Spec(epsilon=0, attributes=[])
    with pytest.raises(InputError, match="epsilon: a summary report takes at most 64; got 65"):
        Spec.parse(DESIGN).at(65)


SYNTAX = {
    "no value": ("epsilon =\n", "spec.toml: line 1, column 10 is not TOML: Invalid value; it reads: epsilon ="),
    "no table": ('epsilon = 1\n[[attribute]\nname = "a"', "line 2, column 12 is not TOML"),
    "cut off": ("epsilon = [1,", "spec.toml: line 1, the last, is not TOML: Invalid value; it reads: epsilon = [1,"),
    "twice": (
        "epsilon = 1\nepsilon = 2",
        "spec.toml: line 2, the last, is not TOML: Cannot overwrite a value; it reads: epsilon = 2",
    ),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_text_that_is_not_toml(name: str) -> None:
    text, message = SYNTAX[name]
    with pytest.raises(InputError, match=re.escape(message)):
        Spec.parse(text, "spec.toml")


def test_what_is_worth_a_second_look() -> None:
    text = 'epsilon = 80\nnoise = "unit"\n[[attribute]]\nname = "a"'
    assert Spec.parse(text).notes == ("epsilon = 80 is more than the 64 that a summary report takes",)
    many = Spec.parse("l1 = 100000\n" + HEAD).notes
    assert many == ("l1 = 100000 is more than the API's 65536: clients would drop every report",)


labels = st.sampled_from(["x", "y", "10", "é"])


@settings(max_examples=examples(150), deadline=None)
@given(
    rows=st.lists(st.tuples(labels, labels), min_size=1, max_size=12),
    sizes=st.lists(st.integers(1, 3), max_size=2),
    known=st.integers(0, 2),
    total=st.booleans(),
)
def test_the_tree_has_what_occurs_and_all_of_the_domains(
    rows: list[tuple[str, str]], sizes: list[int], known: int, total: bool
) -> None:
    assume(known + len(sizes) > 0)
    attributes: list[dict[str, Any]] = [{"name": name} for name in "ab"[:known]]
    attributes += [{"name": f"u{j}", "unknown": True, "range": [0, size - 1]} for j, size in enumerate(sizes)]
    spec = Spec(epsilon=1, total=total, attributes=attributes)
    tree = spec.tree({"a": [r[0] for r in rows], "b": [r[1] for r in rows]} if known else None)

    occurring = list(dict.fromkeys(row[:known] for row in rows))
    leaves = [(*row, *map(str, values)) for row in occurring for values in product(*map(range, sizes))]
    wanted = {leaf[:i] for leaf in leaves for i in range(0 if total else 1, len(leaf) + 1)}
    found = [tuple(tree.path(v)) for v in range(len(tree))]
    assert len(found) == len(set(found)) and set(found) == wanted
    assert tree.level_names == spec.levels and tree.order is None
    assert all(found[p] == path[:-1] for path, p in zip(found, tree.parent, strict=True) if p >= 0)
    assert set(tree.is_leaf.nonzero()[0]) == {i for i, path in enumerate(found) if len(path) == known + len(sizes)}
    below = [path[known:] for path in found if path[:known] == occurring[0] and len(path) == known + len(sizes)]
    assert below == list(product(*[list(map(str, range(size))) for size in sizes]))  # in the domains' order


def test_labels_are_text_whatever_the_table_holds() -> None:
    spec = Spec.parse(DESIGN)
    as_text = spec.tree({"campaign": ["7", "8"], "location": ["2", "1"]})
    table = pa.table({"campaign": pa.array([7.0, 8.0, 7.0]), "location": pa.array([2, 1, 2]).dictionary_encode()})
    assert spec.tree(table).table().equals(as_text.table())


def test_nodes_that_stand_above_others_are_no_paths_of_their_own() -> None:
    spec = Spec.parse(DESIGN)
    rows = {"campaign": [None, "x", "x", "y"], "location": [None, None, "p", "q"]}
    assert len(spec.tree(rows)) == 2 + 2 + 2 * 15


BAD_TABLES: dict[str, tuple[Any, str]] = {
    "no table": (None, "needs a table of the known attributes, campaign, location"),
    "empty": ({"campaign": [], "location": []}, "is empty"),
    "only nulls": ({"campaign": [None], "location": [None]}, "no row has a label in column 'campaign'"),
    "no column": ({"campaign": ["x"], "locaton": ["y"]}, "no column 'location'; did you mean 'locaton'"),
    "short path": ({"campaign": ["x", "y"], "location": ["p", None]}, "campaign=y has no 'location' in any row"),
    "lists": ({"campaign": [["x"]], "location": ["p"]}, "labels are text, numbers or dates"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_without_a_tree(name: str) -> None:
    table, message = BAD_TABLES[name]
    with pytest.raises(ValueError, match=message):
        Spec.parse(DESIGN).tree(table)


def test_holes_in_paths_are_told_by_row() -> None:
    with pytest.raises(RowError, match="row 3: 'campaign' is empty but 'location' below it is not"):
        Spec.parse(DESIGN).tree({"campaign": ["x", "y", None], "location": ["p", "q", "r"]})


def test_too_many_nodes_are_refused_before_they_are_made() -> None:
    spec = Spec(epsilon=1, attributes=[{"name": f"u{j}", "unknown": True, "range": [0, 99_999]} for j in range(3)])
    with pytest.raises(
        InputError, match=re.escape("fewer than 2**31 nodes; the domains down to 'u1' make 10,000,100,001")
    ):
        spec.tree()


UNRULY = {
    "a list as a name": HEAD + '[[attribute]]\nname = ["a"]',
    "a table as a name": HEAD + "[[attribute]]\nname = {a = 1}",
    "a list as a measure's name": HEAD + '[[measure]]\nname = ["a"]',
    "lists in lists": HEAD + "x = " + "[" * 100_000 + "]" * 100_000,
    "fewer lists in lists": HEAD + "x = " + "[" * 90 + "]" * 90,
    "tables in tables": HEAD + "x = " + "{a = " * 5_000 + "1" + "}" * 5_000,
    "dots in a key": HEAD + "x" + ".a" * 20_000 + " = 1",
    "dots between quotes": HEAD + '"x"' + " . 'a b'" * 20_000 + " = 1",
    "dots in a heading": HEAD + "[" + "a." * 20_000 + "a]",
    "5,000 digits": "l1 = " + "9" * 5_000 + "\n" + HEAD,
    "400 digits": "epsilon = " + "9" * 400,
    "digits in a range": HEAD + "[[attribute]]\nname = 'r'\nunknown = true\nrange = [0, " + "9" * 4_000 + "]",
    "digits in a bucket": HEAD + "[[attribute]]\nname = 'r'\nunknown = true\nbuckets = 2\nbucket = " + "9" * 4_000,
    "digits in a clip": HEAD + "[[measure]]\nname = 'r'\nclip = " + "9" * 400,
    "a long key": HEAD + "x" * 100_000 + " = 1",
    "a long name twice": ("[[attribute]]\nname = '" + "a" * 100_000 + "'\n") * 2,
    "many attributes": HEAD + "[[attribute]]\nname = 'a'\n" * 5_000,
    "a control character": HEAD + '[[attribute]]\nname = "a\\u0001"',
    "a control character in a domain": HEAD + '[[attribute]]\nname = "r"\nunknown = true\ndomain = ["\\u0000"]',
    "a control character in a key": HEAD + '"\\u0001" = 1',
}


@pytest.mark.parametrize("text", UNRULY.values(), ids=UNRULY.keys())
def test_unruly_specs_are_refused_in_few_words(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Spec.parse(text)
    assert len(str(caught.value)) < 1000


def test_half_a_character_is_refused_and_so_are_huge_numbers_in_python() -> None:
    for name, start in (("a\ud800", 0), ("a", 10**400)):
        with pytest.raises(InputError):
            Spec(epsilon=1, attribute=[{"name": name, "unknown": True, "bucket": 1, "buckets": 2, "start": start}])


def test_too_many_buckets_are_told_the_limit() -> None:
    text = HEAD + "[[attribute]]\nname = 'r'\nunknown = true\nbucket = 1\nbuckets = 1000000000"
    with pytest.raises(InputError, match="1 to 10,000,000; got 1000000000"):
        Spec.parse(text)

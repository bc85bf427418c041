"""Look-alikes have the published figures; the same seed gives the same bytes; every file says that it is generated."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attributary.errors import InputError
from attributary.generated import GENERATED, OVERALL, VERSION, amounts, delay_laws, delays, label, laws
from attributary.paper import KINDS, generate
from attributary.paper.camb import camb_stream, campaigns
from attributary.paper.csscl import PARTNERS, REVENUE, countries, csscl_stream, partners
from attributary.paper.generate import write
from attributary.paper.look_alike import Stream, bin_means, large_ones_to, map_blocks, quotas, shuffle, tilted, user_of
from support.effort import first_of
from support.published_figures import compare

ROWS = 2_000_000
BLOCKS = pytest.mark.parametrize(  # at most; camb has 742, whatever its number of rows
    "blocks", [60, pytest.param(1000, marks=pytest.mark.sweep)], ids=["some blocks", "all blocks"]
)
STREAMS = {"csscl": csscl_stream, "camb": camb_stream}
KINDS_OF_STREAM = pytest.mark.parametrize("kind", STREAMS)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, connection: Any) -> dict[str, str]:
    """Two million rows of each look-alike, as SQL."""
    folder = tmp_path_factory.mktemp("logs")
    for kind in STREAMS:
        generate(kind, str(folder), ROWS, seed=1)
        connection.sql(f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{folder}/{kind}.parquet')")
    return {kind: f"SELECT * FROM {kind}" for kind in STREAMS}


def everything(stream: Stream) -> pa.Table:
    schema = stream.schema.with_metadata(label(stream.kind, stream.rows, stream.seed))
    return pa.Table.from_batches(map_blocks(stream, lambda batch: batch, 1), schema)


# The published figures


@KINDS_OF_STREAM
def test_every_published_figure_is_met(kind: str, logs: dict[str, str], connection: Any) -> None:
    found = compare(connection, logs[kind], kind)
    assert len(found) > 30
    off = [f"{m.figure.name}: {m.value:.6g} instead of {m.figure.published:.6g}" for m in found if not m.agrees]
    assert not off


def test_the_profile_sees_what_is_off(logs: dict[str, str], connection: Any) -> None:
    slower = "SELECT * REPLACE (delay + 86400 AS delay) FROM csscl WHERE partner <> 'partner 001'"
    off = {m.figure.name for m in compare(connection, slower, "csscl") if not m.agrees}
    assert off >= {"delay, mean", "delay in 2-day bucket 1", "users", "share of the largest partner"}
    assert not off & {"rows", "amount, median"}


def test_the_laws_themselves_are_exact() -> None:
    of, days = partners(), bin_means()
    share = of.sales.sum(axis=0) / of.sales.sum()
    assert share @ of.delay == pytest.approx(OVERALL, abs=1e-12)  # the mixture of all partners is the overall law
    assert OVERALL @ days * 86_400 == pytest.approx(359_581, abs=2)
    means = partners().delay @ bin_means()
    assert [means.min(), np.median(means), means.mean(), means.max()] == pytest.approx([0.005, 1.68, 2.18, 26.2], 0.003)
    assert (of.delay >= 0).all()
    assert of.converting[0].sum() == pytest.approx(1_192_588)
    revenue = of.sales[0] @ countries()[:, : len(REVENUE)]
    assert revenue / revenue.sum() == pytest.approx(REVENUE / REVENUE.sum())
    assert (countries() >= 0).all()
    u = (np.arange(4_000_000) + 0.5) / 4_000_000
    assert [amounts(u).mean(), amounts(u).std()] == pytest.approx([122.5, 271.1], 0.001)
    size = campaigns().size
    assert [size.min(), np.median(size), size.max(), size.sum()] == pytest.approx(
        [20, 10_357, 437_385, 16_468_027], 1e-5
    )


def test_large_amounts_move_without_changing_the_law() -> None:
    u = (np.arange(2_000_000) + 0.5) / 2_000_000
    some = [amounts(large_ones_to(np.full(len(u), here), 0.25, u)) for here in (True, False)]
    assert 0.25 * some[0].mean() + 0.75 * some[1].mean() == pytest.approx(amounts(u).mean(), rel=1e-4)
    assert some[1].max() < 13_500 < some[0].max()


def test_large_partners_are_slower_than_small_ones() -> None:
    means = partners().delay @ bin_means()
    assert means[:20].mean() > 1.5 * np.median(means)


# Beyond the figures: what the page says is assumed


def test_some_partners_appear_only_in_the_later_half(logs: dict[str, str], connection: Any) -> None:
    halves = connection.sql(
        """SELECT COUNT(*), SUM(CASE WHEN first >= 45 THEN 1 ELSE 0 END), SUM(CASE WHEN last < 45 THEN 1 ELSE 0 END)
        FROM (SELECT MIN(day) AS first, MAX(day) AS last
              FROM (SELECT partner, (time - MIN(time) OVER ()) // 86400 AS day FROM csscl) GROUP BY partner)"""
    ).fetchall()[0]
    assert halves[0] == PARTNERS
    assert 20 <= halves[1] <= 45
    assert halves[2] >= 1


def test_some_campaigns_begin_after_fifteen_days(logs: dict[str, str], connection: Any) -> None:
    late = "SELECT COUNT(*) FROM (SELECT MIN(time) AS first FROM camb GROUP BY campaign) WHERE first >= 15 * 86400"
    assert 30 <= connection.sql(late).fetchall()[0][0] <= 70


def test_the_halves_differ_modestly(logs: dict[str, str], connection: Any) -> None:
    early, late = connection.sql(
        """SELECT COUNT(*), AVG(conversion)
        FROM (SELECT conversion, (time - MIN(time) OVER ()) // 86400 >= 45 AS late FROM csscl)
        GROUP BY late ORDER BY late"""
    ).fetchall()
    assert 1.05 < late[0] / early[0] < 1.5
    assert 0.85 < late[1] / early[1] < 0.97


def test_a_partner_has_few_countries_and_cells(logs: dict[str, str], connection: Any) -> None:
    few = "SELECT MEDIAN(n), MAX(n) FROM (SELECT COUNT(DISTINCT country) AS n FROM csscl GROUP BY partner)"
    assert connection.sql(few).fetchall() == [(2, 24)]  # one, and missing; the giant sells everywhere
    cells = "SELECT COUNT(*) FROM (SELECT DISTINCT partner, country, device, age_group FROM csscl)"
    assert connection.sql(cells).fetchall()[0][0] < 0.02 * 312 * 24 * 9 * 12


def test_csscl_is_in_no_order_and_camb_in_the_order_of_time() -> None:
    one, other = (everything(STREAMS[kind](20_000, 3))["time"].to_numpy() for kind in ("csscl", "camb"))
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.05
    assert (np.diff(other) >= 0).all()


def test_the_clicks_of_a_conversion_belong_together() -> None:
    table = everything(camb_stream(30_000, 5))
    rows = [row for row in table.to_pylist() if row["conversion_id"] is not None]
    journeys: dict[int, list[dict[str, Any]]] = {}
    for row in rows:  # in the order of time
        journeys.setdefault(row["conversion_id"], []).append(row)
    assert len(journeys) > 500
    for clicks in journeys.values():
        assert [row["click_pos"] for row in clicks] == list(range(len(clicks)))
        assert {row["click_nb"] for row in clicks} == {len(clicks)}
        assert len({(row["campaign"], row["user"], row["conversion_time"]) for row in clicks}) == 1
        assert all(0 <= row["conversion_time"] - row["time"] <= 30 * 86_400 for row in clicks)
        assert [row["conversion"] for row in clicks] == [0] * (len(clicks) - 1) + [1]
        assert clicks[-1]["delay"] == clicks[-1]["conversion_time"] - clicks[-1]["time"]
    assert all(row["click"] == 1 for row in rows)


# Any number of rows


@KINDS_OF_STREAM
@pytest.mark.parametrize("rows", first_of([1, 2, 13, 1_000, 12_345]))
def test_there_are_as_many_rows_as_were_asked_for(kind: str, rows: int) -> None:
    assert len(everything(STREAMS[kind](rows))) == rows


def test_the_skew_keeps_its_shape_in_a_small_log() -> None:
    table = everything(csscl_stream(100_000))
    sold = table.filter(table["conversion"].cast(pa.bool_())).filter(pa.compute.field("country") != "missing")
    counts = sorted((entry["counts"] for entry in sold["partner"].value_counts().to_pylist()), reverse=True)
    assert counts[0] / sum(counts) == pytest.approx(0.4007, abs=0.001)
    assert counts[1] / counts[0] == pytest.approx(52_064 / 477_888, rel=0.02)
    assert counts[6] / counts[0] == pytest.approx(19_246 / 477_888, rel=0.02)
    assert len(set(table["partner"].to_pylist())) == PARTNERS


# The same bytes


@KINDS_OF_STREAM
@pytest.mark.parametrize("format", first_of(["parquet", "published"]))
@BLOCKS
def test_a_seed_gives_the_same_bytes_with_any_number_of_workers(
    kind: str, format: str, blocks: int, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{name}.{'parquet' if format == 'parquet' else 'tsv.gz'}" for name in "abc"]
    for path, seed, workers in zip(paths, (7, 7, 8), (1, 3, 2), strict=True):
        stream = STREAMS[kind](270_000 if kind == "csscl" else 30_000, seed)
        write(stream._replace(blocks=min(stream.blocks, blocks)), str(path), format, workers=workers)
    one, same, other = (path.read_bytes() for path in paths)
    assert one == same != other


@KINDS_OF_STREAM
@BLOCKS
def test_a_block_is_the_same_whenever_it_is_made(kind: str, blocks: int) -> None:
    stream, again = (STREAMS[kind](600_000, 2) for _ in range(2))
    stream, again = (each._replace(blocks=min(each.blocks, blocks)) for each in (stream, again))
    numbers = [stream.blocks - 1, 0, 1]
    first = [stream.block(number) for number in numbers]
    assert [again.block(number) for number in reversed(numbers)] == first[::-1]
    assert list(map_blocks(stream, lambda batch: batch.num_rows, 3)) == [
        again.block(n).num_rows for n in range(stream.blocks)
    ]


DIGESTS = {"csscl": "9d343b306de9f882", "camb": "e500faefb0ec85b2"}


@KINDS_OF_STREAM
def test_version_1_is_frozen(kind: str) -> None:
    """Results are measured on these rows. To draw others, raise VERSION; then this digest changes too."""
    assert VERSION == 1
    digest = hashlib.sha256()
    table = everything(STREAMS[kind](30_000, 0))
    for column in table.combine_chunks().columns:
        cells = column.combine_chunks()
        cells = cells.indices if pa.types.is_dictionary(cells.type) else pa.compute.fill_null(cells, -1)
        digest.update(np.rint(cells.to_numpy() * 100).astype(np.int64).tobytes())
    assert digest.hexdigest()[:16] == DIGESTS[kind]


# What is generated is labelled generated


@pytest.mark.parametrize("kind", KINDS)
def test_a_parquet_file_says_that_it_is_generated(kind: str, tmp_path: Path) -> None:
    for path, rows in generate(kind, str(tmp_path), rows=500, seed=3):
        metadata = parquet.read_schema(path).metadata
        said = {key: metadata[key.encode()].decode() for key in ("generated", "kind", "version", "rows", "seed")}
        assert said == {"generated": GENERATED[kind], "kind": kind, "version": "1", "rows": "500", "seed": "3"}
        assert len(parquet.read_table(path)) == rows
    assert "generated by attributary" in GENERATED[kind]


def test_a_compressed_text_file_says_it_in_the_name_inside(tmp_path: Path) -> None:
    generate("camb", str(tmp_path / "x.tsv.gz"), rows=100)
    assert b"generated-by-attributary-not-criteo-camb-1.tsv" in (tmp_path / "x.tsv.gz").read_bytes()[:100]
    assert len(gzip.decompress((tmp_path / "x.tsv.gz").read_bytes()).splitlines()) == 101


# Where it goes


def test_where_the_files_go(tmp_path: Path) -> None:
    assert generate("csscl", str(tmp_path / "new" / "folder"), 10)[0].path == str(tmp_path / "new/folder/csscl.parquet")
    assert generate("csscl", str(tmp_path), 10, format="published")[0].path == str(tmp_path / "csscl.tsv.gz")
    assert generate("csscl", str(tmp_path / "v1.2") + "/", 10)[0].path == str(tmp_path / "v1.2/csscl.parquet")
    assert generate("csscl", str(tmp_path / "x.tsv"), 10)[0].path == str(tmp_path / "x.tsv")
    assert (tmp_path / "x.tsv").read_text().count("\n") == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kind": "shops"}, "the kinds of generated logs are csscl, camb, shop, forest; got 'shops'"),
        ({"rows": 0}, "a log has at least one row; got 0"),
        ({"seed": -1}, "a seed is a whole number from 0; got -1"),
        ({"format": "csv"}, "written as parquet or published; got 'csv'"),
        ({"output": "x.csv"}, "ends in .parquet or .pq or .tsv.gz or .tsv; got .*x.csv"),
        (
            {"output": "x.parquet", "format": "published"},
            "the ending of parquet, but the format is published: end it in .tsv.gz",
        ),
        ({"output": "no/x.parquet"}, "there is no folder"),
        ({"kind": "shop", "format": "published"}, "the shop is written as parquet"),
        ({"kind": "shop", "output": "x.parquet"}, "a folder is expected"),
        ({"output": "taken"}, "cannot be created"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    given = {"kind": "csscl", "rows": 10, "output": "folder", **arguments}
    output = str(tmp_path / given.pop("output"))
    with pytest.raises(InputError, match=words):
        generate(output=output, **given)
    assert {path.name for path in tmp_path.iterdir()} <= {"taken", "folder"}


def test_standard_output_is_refused() -> None:
    with pytest.raises(InputError, match="not to standard output; name a folder or a file"):
        generate("csscl", "-", 10)


@pytest.mark.parametrize("ending", ["parquet", "tsv.gz"])
def test_an_interruption_leaves_the_old_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_text("old")

    def interrupt(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate("camb", str(path), 5_000, progress=interrupt)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_the_users_to_mend(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with pytest.raises(InputError, match="No space left on device"):
        write(camb_stream(5_000), "/dev/full", "published")


def test_progress_adds_up(tmp_path: Path) -> None:
    added: list[int] = []
    generate("camb", str(tmp_path), 5_000, progress=added.append)
    assert sum(added) == 5_000


# The parts


@given(
    weights=st.lists(st.floats(0, 100), min_size=1, max_size=30).filter(lambda w: sum(w) > 1),
    total=st.integers(0, 10**6),
)
def test_quotas_add_up_and_are_near(weights: list[float], total: int) -> None:
    parts = quotas(np.array(weights), total)
    assert parts.sum() == total
    assert (np.abs(parts - np.array(weights) * total / sum(weights)) <= 1 + 1e-6).all()


@settings(deadline=None)
@given(rows=st.integers(1, 5_000), seed=st.integers(0, 2**70))
def test_shuffling_is_a_permutation(rows: int, seed: int) -> None:
    assert sorted(shuffle(np.arange(rows), rows, seed).tolist()) == list(range(rows))


def test_draws_follow_their_laws() -> None:
    group, weight = np.array([0, 0, 0, 1, 2, 2]), np.array([1.0, 0.0, 3.0, 7.0, 2.0, 2.0])
    drawn, at = laws(group, weight).draw(np.repeat([0, 1, 2], 4_000), np.tile((np.arange(4_000) + 0.5) / 4_000, 3))
    assert np.bincount(drawn).tolist() == [1_000, 0, 3_000, 4_000, 2_000, 2_000]
    assert at.min() >= 0
    assert at.max() <= 1


@given(mean=st.floats(0.004, 28))
def test_a_tilted_law_has_its_mean(mean: float) -> None:
    law = tilted(np.array([mean]))
    assert law.sum() == pytest.approx(1)
    assert law[0] @ bin_means() == pytest.approx(mean, rel=1e-6)


def test_delays_stay_in_their_bins() -> None:
    u = np.linspace(0, 1, 100_001)[:-1]
    seconds = delays(delay_laws(OVERALL[None]).draw(np.zeros(len(u), np.int64), u))
    assert (np.diff(seconds) >= 0).all()
    assert [seconds.min(), seconds.max()] == pytest.approx([20, 2_588_699], rel=1e-4)


@given(rows=st.integers(1, 400), share=st.floats(0.01, 1), u=st.floats(0, 0.999))
def test_every_user_has_a_row(rows: int, share: float, u: float) -> None:
    users = max(1, round(share * rows))
    found = user_of(np.arange(rows), np.full(rows, rows), np.full(rows, users), np.full(rows, u))
    assert set(found.tolist()) == set(range(users))


# The shop


@pytest.fixture(scope="module")
def shop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    generate("shop", str(folder), rows=60_000)
    return folder


def test_the_shop_is_the_same_for_the_same_seed(shop_folder: Path, tmp_path: Path) -> None:
    generate("shop", str(tmp_path), rows=60_000)
    for name in ("impressions.parquet", "conversions.parquet", "spec.toml"):
        assert (tmp_path / name).read_bytes() == (shop_folder / name).read_bytes()


def test_the_shop_has_every_case_that_attribution_meets(shop_folder: Path, connection: Any) -> None:
    counts = connection.sql(
        f"""
        WITH touched AS (
            SELECT c.user, c.time, i.campaign, i.time AS seen,
                ROW_NUMBER() OVER (PARTITION BY c.number ORDER BY i.time DESC) AS place,
                COUNT(*) OVER (PARTITION BY c.number, i.time) AS together
            FROM (SELECT *, ROW_NUMBER() OVER () AS number FROM '{shop_folder}/conversions.parquet') AS c
            LEFT JOIN '{shop_folder}/impressions.parquet' AS i ON c.user = i.user AND i.time <= c.time
        )
        SELECT COUNT(*), COUNT(*) FILTER (seen IS NULL), COUNT(*) FILTER (time - seen > INTERVAL 30 DAY),
            COUNT(*) FILTER (time - seen = INTERVAL 30 DAY), COUNT(*) FILTER (time = seen),
            COUNT(*) FILTER (together > 1 AND seen IS NOT NULL),
            COUNT(*) - COUNT(DISTINCT (user, COALESCE(seen, time)))
        FROM touched WHERE place = 1
        """
    ).fetchall()[0]
    conversions, *cases = counts
    assert 3_000 < conversions < 5_000
    assert all(case >= 1 for case in cases), cases
    assert sum(cases) < conversions / 2


def test_the_days_of_the_shop_are_right_and_its_rows_in_order(shop_folder: Path, connection: Any) -> None:
    wrong = f"SELECT COUNT(*) FROM '{shop_folder}/conversions.parquet' WHERE dayname(time) <> day"
    assert connection.sql(wrong).fetchall() == [(0,)]
    for name in ("impressions", "conversions"):
        time = parquet.read_table(shop_folder / f"{name}.parquet")["time"].to_numpy()
        assert (np.diff(time) >= np.timedelta64(0)).all()


def test_the_spec_beside_the_shop_is_one(shop_folder: Path) -> None:
    from attributary.spec import Spec

    spec = Spec.load(str(shop_folder / "spec.toml"))
    assert [attribute.name for attribute in spec.attributes] == ["campaign", "location", "day"]


@pytest.mark.parametrize("rows", [10**10 + 1, 10**400])
def test_logs_of_more_rows_than_a_disk_holds_are_refused(tmp_path: Path, rows: int) -> None:
    for kind in KINDS:
        with pytest.raises(InputError, match="has 10,000,000,000 rows at most"):
            generate(kind, str(tmp_path / "logs"), rows)

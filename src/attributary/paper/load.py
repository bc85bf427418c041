"""The two published datasets, packed or not, or look-alikes: one row per impression with its conversion, if any."""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import escape
from typing import Any, Literal, NamedTuple, get_args

import pyarrow as pa
from pyarrow import ArrowException, csv, parquet

from attributary.errors import InputError
from attributary.logs.duckdb import text_file_errors

BLOCK = 2**23  # bytes of text at a time
SEPARATORS = ",;| "
Name = Literal["csscl", "camb"]
Expect = Literal["published", "any"]
UnknownDelay = Literal["keep", "drop", "first"]
SLACK = {"partners": 1, "campaigns": 1}  # whether `missing` was counted as one is not known


class Dataset(NamedTuple):
    name: str
    file: str  # what the publisher calls it
    columns: dict[str, str]  # in the file's order, with their SQL types
    header: bool  # whether the file must begin with their names
    impressions: str  # SQL over the file {published}, for one row per impression
    measured: str  # SQL over {impressions}, for the figures below
    published: dict[str, int]  # figures that tell a wrong or truncated file apart
    last_touch: str  # as `impressions`, for a file in which some conversions have no click (the last figure)
    unknown_delay: dict[str, str]  # SQL over {impressions} for each way to treat a conversion without a delay


class Figure(NamedTuple):
    """A figure of a file, next to the published one."""

    name: str
    value: int
    published: int

    @property
    def agrees(self) -> bool:
        return abs(self.value - self.published) <= SLACK.get(self.name, 0)

    def __str__(self) -> str:
        return f"{self.name} {self.value:,} instead of {self.published:,}"


class ImpressionLog(NamedTuple):
    sql: str  # for one row per impression; the connection can run it again and again
    figures: list[Figure]  # of the file, next to the published ones


def load(
    connection: object, path: str, name: Name, expect: Expect = "published", unknown_delay: UnknownDelay = "keep"
) -> ImpressionLog:
    """The impressions of a published file, each with its conversion; the whole file is read once to check it.

    csscl: partner, country, device, age_group, time, user, conversion, delay, amount.
    camb:  campaign, cat1, cat8, time, user, conversion, delay; click, click_pos, click_nb, conversion_id and
           conversion_time of every impression that led to a conversion; conversion and delay at the last touch only.

    Times and delays are in seconds, `conversion` is 0 or 1, and the label of a missing value is `missing`. `path` is
    the file as published, packed or unpacked, or a look-alike in Parquet. With `expect="published"` its figures must be
    the published ones. `unknown_delay`: a sale without a delay stays a conversion without one (keep), is not a
    conversion (drop), or has delay 0 (first).
    """
    choices = (
        (name, DATASETS, f"the published datasets are {' and '.join(DATASETS)}"),
        (expect, get_args(Expect), f"expect is {' or '.join(get_args(Expect))}"),
        (unknown_delay, get_args(UnknownDelay), f"unknown_delay is one of {', '.join(get_args(UnknownDelay))}"),
    )
    for choice, known, rule in choices:
        if choice not in known:
            raise InputError(f"{rule}; got {choice!r}")
    dataset = DATASETS[name]
    with text_file_errors(path):
        if path.endswith((".parquet", ".pq")):
            published, sql = None, _look_alike(path, dataset)
        else:
            published = published_table(connection, path, dataset)
            if expect == "any":
                check_whole(path)
            sql = dataset.impressions.format(published=published)
        measured = figures(connection, sql, dataset)
    wrong = [str(figure) for figure in measured if not figure.agrees]
    if expect == "published" and wrong:
        if published:
            check_whole(path)
        raise InputError(
            f"{path} is not {dataset.file} as published: {', '.join(wrong)}; give that file, or expect any for a part "
            "or a look-alike of it"
        )
    if published and dataset.last_touch and measured[-1].value > 0:
        sql = dataset.last_touch.format(published=published)
    return ImpressionLog(dataset.unknown_delay.get(unknown_delay, "{impressions}").format(impressions=sql), measured)


def _look_alike(path: str, dataset: Dataset) -> str:
    """SQL for the rows of a Parquet file that says it is a look-alike of the dataset."""
    try:
        metadata = parquet.read_schema(path).metadata or {}
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, ArrowException) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error
    kind = metadata.get(b"kind", b"").decode()
    if kind != dataset.name:
        says = f"a look-alike of {kind}" if kind else "not one"
        raise InputError(
            f"in Parquet only look-alikes of {dataset.name} can be read, "
            f"which `attributary generate {dataset.name}` writes; {path} is {says}"
        )
    return f"SELECT * FROM read_parquet({_quoted(escape(path))})"


def published_table(connection: Any, path: str, dataset: Dataset) -> str:
    """SQL for the rows of a published file, under the published names; the connection learns what it needs for it."""
    names, header = _column_names(path, dataset)
    columns = {name: dataset.columns.get(name, "VARCHAR") for name in names}
    compression = packing(path)
    if compression in ("zip", "tar"):  # which only Python can reach into
        connection.register(f"published_{dataset.name}", ArchiveTable(path, columns, header))
        return f"published_{dataset.name}"
    typed = ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in columns.items())
    return (
        f"read_csv({_quoted(escape(path))}, auto_detect = false, delim = '\t', quote = '', escape = '', "
        f"header = {str(header).lower()}, compression = '{compression}', columns = {{{typed}}})"
    )


def _column_names(path: str, dataset: Dataset) -> tuple[list[str], bool]:
    """The columns of a file, and whether it begins with their names; refuses one that cannot be the dataset."""
    with open_text(path) as file:
        first, second = (file.readline(BLOCK).decode("utf-8", "replace").rstrip("\r\n").split("\t") for _ in range(2))
    known = list(dataset.columns)
    if first == [""]:
        raise InputError(f"{path} is empty; {dataset.file} has {len(known)} columns separated by tabs")
    odd = next((s for s in SEPARATORS if len(first) == 1 and first[0].count(s) >= len(known) - 1), None)
    if odd:
        raise InputError(
            f"{path} is separated by {odd!r}; {dataset.file} is separated by tabs: give it as it was published"
        )
    header = first[0].lower() == known[0].lower()
    if dataset.header:
        lost = [name for name in known if name not in first]
        if not header and len(lost) == len(known):
            raise InputError(f"{path} does not begin with its column names; {dataset.file} begins with {known[0]}")
        if lost:
            raise InputError(f"{path} has no column {lost[0]!r}; {dataset.file} has {', '.join(known)}")
        known = first
    cells = second if header else first
    if len(cells) != len(known) and cells != [""]:
        raise InputError(f"{path} has {len(cells)} columns; {dataset.file} has {len(known)}: is it another file?")
    return known, header


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class ArchiveTable(NamedTuple):
    """A file in an archive as an Arrow stream, opened anew for every query."""

    path: str
    columns: dict[str, str]
    header: bool

    def __arrow_c_schema__(self) -> Any:
        return self._schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return pa.RecordBatchReader.from_batches(self._schema(), self._batches()).__arrow_c_stream__(requested_schema)

    def _schema(self) -> Any:
        kinds = {"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
        return pa.schema([(name, kinds.get(kind, pa.string())) for name, kind in self.columns.items()])

    def _batches(self) -> Any:
        names = list(self.columns)
        with open_text(self.path) as file:
            reader = csv.open_csv(
                pa.PythonFile(file, mode="r"),
                csv.ReadOptions(column_names=names, skip_rows=int(self.header), block_size=BLOCK),
                csv.ParseOptions(delimiter="\t", quote_char=False),
                csv.ConvertOptions(column_types=self._schema(), strings_can_be_null=False),
            )
            yield from reader


def figures(connection: Any, impressions: str, dataset: Dataset) -> list[Figure]:
    """The figures that tell a wrong file apart, for a table given as SQL; this reads all of it once."""
    values = connection.sql(dataset.measured.format(impressions=impressions)).fetchall()[0]
    return [
        Figure(name, int(value), dataset.published[name]) for name, value in zip(dataset.published, values, strict=True)
    ]


DAMAGED = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile)
CHUNK = 2**20


def packing(path: str) -> Literal["none", "gzip", "zip", "tar"]:
    """How a file is packed."""
    with _read_errors(path), open(path, "rb") as file:
        magic = file.read(2)
        with gzip.open(path) if magic == b"\x1f\x8b" else open(path, "rb") as unpacked:
            is_tar = magic != b"PK" and unpacked.read(512)[257:262] == b"ustar"
        return "zip" if magic == b"PK" else "tar" if is_tar else "gzip" if magic == b"\x1f\x8b" else "none"


@contextmanager
def open_text(path: str) -> Iterator[Any]:
    """The bytes of the text, from its beginning."""
    kind, rule = packing(path), "give the archive as it was published, or the file in it"
    with _read_errors(path), ExitStack() as stack:
        if kind == "zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            texts = [each for each in archive.infolist() if each.filename.endswith((".tsv", ".tsv.gz", ".txt", "Data"))]
            if not texts:
                raise InputError(f"{path} holds no .tsv or .tsv.gz; {rule}")
            largest = max(texts, key=lambda each: each.file_size)
            inner = stack.enter_context(archive.open(largest))
            yield stack.enter_context(gzip.open(inner)) if largest.filename.endswith(".gz") else inner
        elif kind == "tar":  # it can only be read from its beginning: its first file of more than a page is the data
            tar = stack.enter_context(tarfile.open(path, "r|*"))
            large = (each for each in tar if each.size > 10_000 or each.name.endswith("CriteoSearchData"))
            data = next((each for each in large if each.isfile()), None)
            if data is None:
                raise InputError(f"{path} holds no file CriteoSearchData; {rule}")
            yield tar.extractfile(data)
        else:
            opened = gzip.open if kind == "gzip" else open
            yield stack.enter_context(opened(path, "rb"))


def check_whole(path: str) -> None:
    """Refuses a file that was cut off, as far as that can be seen: inside gzip, inside an archive, or inside a line."""
    last = b"\n"
    with open_text(path) as file:
        if packing(path) == "none":
            file.seek(-1, 2)
            last = file.read(1)
        else:
            while piece := file.read(CHUNK):
                last = piece[-1:]
    if last != b"\n":
        raise InputError(f"{path} ends in the middle of a line; it was cut off: fetch it again")


@contextmanager
def _read_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; give a file in it") from None
    except DAMAGED as error:
        raise InputError(f"{path} is cut off or damaged ({error}); fetch it again") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


# csscl: the Criteo Sponsored Search Conversion Log (Tallis and Yadav 2018), a file without a header or with one. A row
# is a click, already attributed. −1 is missing, and so is time 0. The rows are in no order.


def _columns(names: str, **kinds: str) -> dict[str, str]:
    """The SQL type of each column, in the file's order; text unless told otherwise."""
    return dict.fromkeys(names.split(), "VARCHAR") | kinds


CSSCL = Dataset(
    name="csscl",
    file="CriteoSearchData",
    columns=_columns(
        "Sale SalesAmountInEuro Time_delay_for_conversion click_timestamp nb_clicks_1week product_price "
        "product_age_group device_type audience_id product_gender product_brand product_category1 product_category2 "
        "product_category3 product_category4 product_category5 product_category6 product_category7 product_country "
        "product_id product_title partner_id user_id",
        Sale="TINYINT",
        SalesAmountInEuro="DOUBLE",
        Time_delay_for_conversion="BIGINT",
        click_timestamp="BIGINT",
    ),
    header=False,
    impressions="""
SELECT
    COALESCE(NULLIF(partner_id, '-1'), 'missing') AS partner,
    COALESCE(NULLIF(product_country, '-1'), 'missing') AS country,
    COALESCE(NULLIF(device_type, '-1'), 'missing') AS device,
    COALESCE(NULLIF(product_age_group, '-1'), 'missing') AS age_group,
    NULLIF(click_timestamp, 0) AS time,
    user_id AS user,
    Sale AS conversion,
    CASE WHEN Sale = 1 AND Time_delay_for_conversion >= 0 THEN Time_delay_for_conversion END AS delay,
    CASE WHEN Sale = 1 THEN SalesAmountInEuro END AS amount
FROM {published}
""",
    measured="""
SELECT
    COUNT(*),
    COALESCE(SUM(conversion), 0),
    COUNT(*) FILTER (conversion = 1 AND delay IS NULL),
    COUNT(DISTINCT NULLIF(partner, 'missing'))
FROM ({impressions}) AS clicks
""",
    published={"rows": 15_995_634, "rows with a sale": 1_732_721, "sales without a delay": 5_380, "partners": 312},
    last_touch="",
    # A sale whose delay is not known, −1 in the file: while it is kept, counts by delay can say how many there are.
    unknown_delay={
        "keep": "SELECT * FROM ({impressions}) AS clicks",
        "drop": """
SELECT * REPLACE (
    CASE WHEN delay IS NULL THEN CAST(0 AS TINYINT) ELSE conversion END AS conversion,
    CASE WHEN delay IS NOT NULL THEN amount END AS amount
) FROM ({impressions}) AS clicks
""",
        "first": """
SELECT * REPLACE (CASE WHEN conversion = 1 THEN COALESCE(delay, 0) END AS delay) FROM ({impressions}) AS clicks
""",
    },
)

# camb: Criteo's Attribution Modeling for Bidding dataset (Diemert et al. 2017), a file with a header. A row is an
# impression. All impressions of a user that led to a conversion carry it; last touch leaves it to one of them: the last
# click, or, where none was clicked, the last impression before it.

IMPRESSION = """
    COALESCE(NULLIF(campaign, '-1'), 'missing') AS campaign,
    COALESCE(NULLIF(cat1, '-1'), 'missing') AS cat1,
    COALESCE(NULLIF(cat8, '-1'), 'missing') AS cat8,
    timestamp AS time,
    uid AS user,
    CAST(CASE WHEN {last} THEN 1 ELSE 0 END AS TINYINT) AS conversion,
    CASE WHEN {last} THEN conversion_timestamp - timestamp END AS delay,
    click,
    CASE WHEN conversion = 1 AND click_pos >= 0 THEN click_pos END AS click_pos,
    CASE WHEN conversion = 1 AND click_nb >= 0 THEN click_nb END AS click_nb,
    CASE WHEN conversion = 1 THEN conversion_id END AS conversion_id,
    CASE WHEN conversion = 1 THEN conversion_timestamp END AS conversion_time
"""

# In the published file every impression of a conversion was clicked. Then a row says by itself whether it is the last.
LAST_CLICK = "SELECT" + IMPRESSION.format(last="conversion = 1 AND click_pos = click_nb - 1") + "FROM {published}"

# Elsewhere the impressions of a conversion are looked at together, the last click before those that came before it
# and those before any that came after it. Ties are broken by what a row says.
LAST_TOUCH = (
    "SELECT"
    + IMPRESSION.format(last="FALSE")
    + "FROM {published} WHERE conversion <> 1 UNION ALL SELECT"
    + IMPRESSION.format(last="place = 1 AND rank < 2 AND (rank = 0 OR clicks <= 0)")
    + """FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY conversion_id ORDER BY rank, timestamp DESC, campaign, uid, cat1, cat8
    ) AS place
    FROM (
        SELECT *, CASE
            WHEN clicks > 0 AND click_pos = clicks - 1 THEN 0
            WHEN timestamp <= conversion_timestamp THEN 1
            ELSE 2
        END AS rank
        FROM (
            SELECT *, MAX(click_nb) OVER (PARTITION BY conversion_id) AS clicks FROM {published} WHERE conversion = 1
        ) AS converted
    ) AS ranked
) AS placed"""
)

CAMB = Dataset(
    name="camb",
    file="criteo_attribution_dataset.tsv.gz",
    columns=_columns(
        "timestamp uid campaign conversion conversion_timestamp conversion_id attribution click click_pos click_nb "
        "cost cpo time_since_last_click cat1 cat2 cat3 cat4 cat5 cat6 cat7 cat8 cat9",
        **dict.fromkeys(("timestamp", "uid", "conversion_timestamp", "conversion_id"), "BIGINT"),
        **dict.fromkeys(("conversion", "click"), "TINYINT"),
        **dict.fromkeys(("click_pos", "click_nb"), "SMALLINT"),
    ),
    header=True,
    impressions=LAST_CLICK,
    measured="""
SELECT
    COUNT(*),
    COUNT(conversion_id),
    COUNT(*) FILTER (click_pos = 0),
    COUNT(DISTINCT NULLIF(campaign, 'missing')),
    COUNT(*) FILTER (conversion_id IS NOT NULL AND COALESCE(click_nb, 0) = 0)
FROM ({impressions}) AS impressions
""",
    published={
        "rows": 16_468_027,
        "rows with a conversion": 806_196,
        "rows at click position 0": 400_152,
        "campaigns": 675,
        "rows with a conversion that were not clicked": 0,
    },
    last_touch=LAST_TOUCH,
    unknown_delay={},
)

DATASETS = {dataset.name: dataset for dataset in (CSSCL, CAMB)}

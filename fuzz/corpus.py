"""corpus: small good inputs of every kind, as the package itself writes them.

They are made by a process of their own (`python -m fuzz.corpus DIR`), since DuckDB and Arrow start threads, which a
process that will be forked must not have.
"""

import json
import os
import subprocess
import sys
from typing import Any

from attributary.api.ara.service.ledger import Fingerprint

SHOP, NEWS, ADS = "https://shop.example", "https://news.example", "https://ads.example"
PRIVATE_KEY = bytes(range(32))
SHARED = [(bytes([i]) * 32, 3600 * i) for i in range(1, 4)]  # of the ledger
QUERIES = [Fingerprint(bytes([i]) * 32, bytes([i + 9]) * 32) for i in range(3)]
CAMPAIGNS, LOCATIONS, UNTIL = ("brand", "retargeting", "spring sale"), ("Berlin", "Paris"), "2026-02-02"
MEASURES = '\n[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nclip = 50\n'
ONE_LOG = """epsilon = 2.5
total = true
[[attribute]]
name = "campaign"
[[attribute]]
name = "delay"
unknown = true
bucket = "2d"
buckets = 4
[logs]
attributed = "events.csv"
converted = "sold"
time = "time"
conversion_time = "sold_at"
window = "8d"
"""
SOURCE = {
    "destination": [SHOP, "https://other.example"],
    "source_event_id": "7",
    "expiry": "604800",
    "priority": "-3",
    "aggregatable_report_window": "86400",
    "aggregation_keys": {"campaign": "0x159", "location": "0x5"},
    "filter_data": {"split": ["1", "2"], "product": ["shoes"]},
    "event_report_windows": {"start_time": 0, "end_times": [3600, 86400]},
    "max_event_level_reports": 3,
    "trigger_data": [0, 1, 2],
    "attribution_scopes": {"limit": 3, "values": ["a", "b"], "max_event_states": 4},
    "named_budgets": {"one": 1000},
    "aggregatable_debug_reporting": {"key_piece": "0x1", "budget": 1024, "debug_data": []},
    "debug_key": "11",
    "debug_reporting": True,
}
FILTERS = {"filters": [{"split": ["1"], "_lookback_window": 86400}], "not_filters": {"source_type": ["event"]}}
TRIGGER = {
    "aggregatable_trigger_data": [{"key_piece": "0x400", "source_keys": ["campaign"], **FILTERS}],
    "aggregatable_values": [{"values": {"campaign": 32768, "location": {"value": 1664, "filtering_id": "3"}}}],
    "aggregatable_deduplication_keys": [{"deduplication_key": "5", **FILTERS}],
    "aggregatable_source_registration_time": "include",
    "aggregatable_filtering_id_max_bytes": 2,
    "event_trigger_data": [{"trigger_data": "1", "priority": "2", "deduplication_key": "3"}],
    "trigger_context_id": None,
    **FILTERS,
}
ROLLUP = """region;store;week;grouping_week;low;high;visits
Nord;A;W1;0;1.100,5;1.300,5;1.200,5
Nord;A;W2;0;0;9;<5
Nord;A;ALL;1;1.100;1.300;1.190,5
Nord;ALL;ALL;1;1.100;1.300;1.188
ALL;ALL;ALL;1;1.100;1.300;1.203
"""
PIVOT = """region,store,W1,W2,Total
North,A,1203,2,1206
North,B,88,25,111
North,Total,1291,27,1320
"""
NOISY = """campaign,location,noisy,v,note
brand,,103.25,8,007
brand,Berlin,58,4,"a, b"
brand,Paris,51.5,4,
retargeting,,20,8,"two
lines"
retargeting,Berlin,-3,4,é
"""


def load(folder: str) -> dict[str, bytes]:
    """The files of the corpus by their names; they are made first if the folder has none."""
    if not os.path.exists(os.path.join(folder, "done")):
        subprocess.run([sys.executable, "-m", "fuzz.corpus", folder], check=True)
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and name != "done":
            with open(path, "rb") as file:
                found[name] = file.read()
    return found


def make(folder: str) -> None:
    """Writes all of it to a folder."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    _logs()
    _plans()
    _reports()
    _tables()
    open("done", "w").close()


def _logs() -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    from attributary.paper import generate
    from attributary.tables import write_table

    generate("shop", "./", 2_000, 0)
    for name in ("impressions", "conversions"):
        table = parquet.read_table(f"{name}.parquet")
        for column, values in (("campaign", CAMPAIGNS), ("location", LOCATIONS)):
            if column in table.column_names:
                table = table.filter(pc.is_in(table[column], pa.array(values)))
        parquet.write_table(table, f"{name}.parquet")
        write_table(table.slice(0, 60), f"{name}.csv")
    spec = _read("spec.toml")
    _write("spec_csv.toml", spec.replace(".parquet", ".csv"))
    _write("values.toml", f"conversions_per_impression = 2\n{spec}{MEASURES}")
    _write("one_log.toml", ONE_LOG)
    lines = [line for line in spec.splitlines() if not line.startswith(("epsilon", "neighbours"))]
    section = (
        '[api]\nkind = "w3c"\nsite_epsilon = 2.0\naggregators = 2\nothers = 0.5\nminimum_batch = 3\nscheme = "B"\n'
    )
    _write("w3c.toml", "\n".join([*lines, section]))
    rows = [f"c{i % 2},{int(i % 3 == 2)},2026-01-{i % 9 + 1:02} 10:00,2026-01-{i % 9 + 3:02} 09:00" for i in range(30)]
    _write("events.csv", "\n".join(["campaign,sold,time,sold_at", *rows, ""]))


def _plans() -> None:
    _run("count", "spec.toml", "--until", UNTIL, "-o", "prior.csv")
    _run("count", "spec.toml", "--from", UNTIL, "-o", "counts.parquet")
    _run("plan", "spec.toml", "--prior", "prior.csv", "-o", "plan.json")
    _run("plan", "spec.toml", "--prior", "prior.csv", "--method", "per-node", "-o", "nodes.json")
    _run("count", "values.toml", "-o", "values.csv")
    _run("count", "one_log.toml", "-o", "one_log.csv")
    _run("plan", "values.toml", "--prior", "values.csv", "-o", "values.json")
    _run("keys", "plan.json", "--impressions", "impressions.parquet", "-o", ".")
    _run("plan", "w3c.toml", "--prior", "prior.csv", "--share", "campaign=0.3", "-o", "w3c.json")
    _run("keys", "w3c.json", "--impressions", "impressions.parquet", "-o", "w3c")
    os.replace("w3c/tree.parquet", "w3c_tree.parquet")


def _reports() -> None:
    from attributary.api.ara.service import ledger
    from attributary.api.ara.wire import avro
    from attributary.api.ara.wire.aggregatable_report import Report, to_json
    from attributary.api.w3c.histogram_results import FIELD128
    from attributary.api.w3c.index_layout import kinds_of, task_of
    from attributary.plan import Plan

    encrypted, clear = ([_report(i, secret) for i in range(6)] for secret in (True, False))
    avro.write_reports("encrypted.avro", encrypted)
    avro.write_reports("clear.avro", clear)
    _write("encrypted.jsonl", "".join(to_json(report) + "\n" for report in encrypted))
    _write("clear.json", f"[{', '.join(map(to_json, clear))}]")
    one: Report = clear[0]
    _write("report.json", to_json(one))
    _write("shared_info.json", one.shared_info)
    _write("payload.cbor", one.payload)
    _write("private.key", PRIVATE_KEY)
    _write("hexadecimal.key", PRIVATE_KEY.hex())
    query = ["--domain", "domain.avro", "--no-noise", "-q"]
    _run("aggregate", "plan.json", "clear.avro", *query, "-o", "summary.avro")
    found = avro.read_results("summary.avro")
    keys = [
        ((int(high) << 64) + int(low)).to_bytes(16, "big").lstrip(b"\0").decode("latin-1") for high, low in found.keys
    ]
    rows = [{"bucket": key, "metric": int(sum_)} for key, sum_ in zip(keys, found.metric, strict=True)]
    _write("summary.json", json.dumps(rows))
    plan = Plan.load("w3c.json")
    assert plan.layout is not None
    size = len(plan.layout.spaces["all"])
    kinds = [(task_of(plan.layout, kind), kind.batch) for kind in kinds_of(plan)]
    batches = [(task, {"day": day} if by else {}) for task, by in kinds for day in ("Monday", "Sunday")[: 1 + by]]
    results = [{"task": task, "batch": batch, "report_count": 40, "vector": [3, -1] * (size // 2) + ["7"] * (size % 2)}
               for task, batch in batches]  # fmt: skip
    results += [{**results[-1], "report_count": 41, "shares": [[FIELD128 - 9] * size, [11] * size]}]
    del results[-1]["vector"]
    _write("w3c_results.json", json.dumps(results))
    for k in (0, 1):  # one query that is answered, and one that has begun
        ledger.reserve("ledger.sqlite", SHARED[k : k + 1], QUERIES[k])
        if k == 0:
            ledger.finish("ledger.sqlite", QUERIES[k], ledger.receipt_of("summary.avro", 0))
    _write("source.json", json.dumps(SOURCE))
    _write("trigger.json", json.dumps({name: value for name, value in TRIGGER.items() if value is not None}))
    _write("filters.json", json.dumps({"filter_data": SOURCE["filter_data"], **FILTERS}))
    labels = {"source": {"campaign": "brand", "location": "Paris"}, "trigger": {"day": "Monday"}, "destination": SHOP}
    _write("labels.json", json.dumps(labels))
    sites = 'conversion-sites=("shop.example" "b.example";x), conversion-callers=()'
    _write("impression.header", f'histogram-index=3, match-value=7, {sites}, lifetime-days=7, priority=-2, x=%"a"')
    lists = 'match-values=(0 7), impression-sites=("news.example"), impression-callers=(), credit=(2 0.5)'
    _write(
        "conversion.header",
        f'aggregation-service="{ADS}", histogram-size=20, epsilon=0.125, lookback-days=14, {lists}, value=3, '
        'max-value=7, report-url="/reports?a=1"',
    )
    impression = {"histogramIndex": 3, "matchValue": 7, "conversionSites": ["shop.example"], "priority": -2}
    conversion = {"aggregationService": ADS, "histogramSize": 20, "epsilon": 0.125, "matchValues": [0, 7], "value": 3}
    conversion |= {"maxValue": 7, "credit": [2, 0.5], "impressionSites": ["news.example"], "lookbackDays": 7}
    _write(
        "options.json",
        json.dumps({"impression": impression, "conversion": conversion, "time": 1e6, "site": "a.b.example"}),
    )


def report_info(number: int) -> dict[str, Any]:
    """What the reports of the corpus say in the clear, each under an id of its own."""
    return {
        "report_id": f"00000000-0000-4000-8000-{number:012}",
        "reporting_origin": ADS,
        "scheduled_report_time": 1_767_225_600 + 600 * number,
        "attribution_destination": SHOP,
        "source_registration_time": 1_767_139_200,
    }


def _report(number: int, secret: bool) -> Any:
    from attributary.api.ara.wire.aggregatable_report import build
    from attributary.api.ara.wire.avro import read_domain
    from attributary.api.ara.wire.encryption import public_key
    from attributary.api.ara.wire.payload import Contribution
    from attributary.api.ara.wire.shared_info import SharedInfo

    keys = [(int(high) << 64) + int(low) for high, low in read_domain("domain.avro")[number : number + 2]]
    contributions = [Contribution(key, 100 + number) for key in keys]
    return build(contributions, SharedInfo(**report_info(number)), public_key(PRIVATE_KEY) if secret else None)


def _tables() -> None:
    from attributary.tables import read_table, write_table

    _write("noisy.csv", NOISY)
    _write("rollup.csv", ROLLUP)
    _write("pivot.csv", PIVOT)
    _write("results.csv", "campaign,location,conversions\nautumn,Paris,120\nautumn,New York,-3\n")
    table = read_table("noisy.csv")
    for ending in ("tsv", "parquet", "arrow", "arrows"):
        write_table(table, f"noisy.{ending}")
    _run("denoise", "plan.json", "summary.avro", "-q", "-o", "estimates.parquet")
    write_table(read_table("estimates.parquet"), "estimates.csv")
    _run("run", "spec.toml", "--prior", "prior.csv", "--seed", "1", "-o", "run")
    os.replace("run/estimates.parquet", "before.parquet")
    options = [
        "--epsilon",
        "1,4",
        "--tau",
        "5",
        "--draws",
        "2",
        "--method",
        "equal-unbiased",
        "--workers",
        "1",
        "--cache",
        "cache",
    ]
    _run("evaluate", "spec.toml", "--counts", "counts.parquet", *options, "-o", "evaluation.csv")


def _run(*args: str) -> None:
    from click.testing import CliRunner

    from attributary.cli import main

    result = CliRunner().invoke(main, [*args, *([] if "-q" in args else ["-q"])])
    if result.exit_code:
        raise SystemExit(f"the corpus cannot be made: {' '.join(args)}: {result.output}")


def _write(name: str, content: str | bytes) -> None:
    with open(name, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _read(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    make(sys.argv[1])

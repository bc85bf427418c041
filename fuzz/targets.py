"""targets: every parser, each fed in one warm process.

A parser gives a value, or refuses with what it documents: an InputError (some a plain ValueError) with a short message.
"""

import base64
import json
import os
import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import numpy as np

from attributary import api
from attributary.api.ara import parse
from attributary.api.ara.registration import Registrations, registrations
from attributary.api.ara.service import aggregation, batch, ledger
from attributary.api.ara.service.summary_report import read_summary
from attributary.api.ara.wire import aggregatable_report, avro, encryption, payload, shared_info
from attributary.api.ara.wire.encryption import read_private_keys
from attributary.api.ara.wire.shared_info import Fault
from attributary.api.w3c import ConversionOptions, ImpressionOptions, measure_conversion_header, save_impression_header
from attributary.browsers import UserAgent, UserAgentSettings, parse_measure_conversion, parse_save_impression
from attributary.browsers.ara_client import matches
from attributary.errors import InputError, TryAgain
from attributary.pipeline.read_prior import read_tree
from attributary.pipeline.table_form import recognise
from attributary.plan import Plan, make_plan
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tree import Tree
from fuzz.corpus import ADS, PRIVATE_KEY, QUERIES, SHARED, SHOP, report_info
from fuzz.findings import Finding, bad_words, coded, where
from fuzz.mutations import mutated

SECONDS = 5  # of processor time that an input may take
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Target:
    """A parser: the good inputs that it is fed with, mutated, and what it is called with: an input and its file."""

    files: tuple[str, ...]
    call: Callable[[bytes, str], Any]
    refuses: type[ValueError] = InputError


class WrongError(Exception):
    """A result that breaks a promise."""


class TooSlowError(BaseException):
    """More than the seconds that an input may take."""


def _spec(data: bytes, path: str) -> None:
    spec = Spec.load(path)
    if not spec.known:
        spec.tree()


def _table(data: bytes, path: str) -> None:
    table = read_table(path)
    table.slice(0, 5).to_pylist()


def _table_form(data: bytes, path: str) -> None:
    form = recognise(read_table(path), path=path)
    if len(form.figures) != form.table.num_rows or not form.levels:
        raise WrongError("a table without levels, or with a figure too many")


def _bigquery_result(data: bytes, path: str) -> None:
    plan, tree = _bigquery()
    api.answer(plan, [path], tree)


def _w3c_results(data: bytes, path: str) -> None:
    plan = Plan.load(_good("w3c.json"))
    found = api.answer(plan, [path], _w3c_tree()).measures["count"]
    if not np.isfinite(found.noisy).all() or (found.variance <= 0).any():
        raise WrongError("a count that is not finite, or exact")


@cache
def _w3c_tree() -> Tree:
    return read_tree(Plan.load(_good("w3c.json")).spec, (_good("tree.parquet"),))


@cache
def _bigquery() -> tuple[Plan, Tree]:
    section = {"kind": "bigquery", "table": "t", "privacy_unit": "u"}
    spec = Spec(
        epsilon=1, delta=1e-6, api=section, attribute=[{"name": "campaign"}, {"name": "location"}, {"name": "day"}]
    )
    tree = spec.tree({"campaign": ["autumn"] * 2, "location": ["Paris", "New York"], "day": ["Thursday", "Friday"]})
    return make_plan(spec, tree, method="equal"), tree


def _json_report(data: bytes, path: str) -> None:
    found = aggregatable_report.from_json(data)
    shared_info.identity(found.shared_info)
    payload.decode(found.payload)


def _avro_reports(data: bytes, path: str) -> None:
    for _ in batch.reports_of(path):
        pass


def _header(kind: Callable[[str], Any]) -> Callable[[bytes, str], None]:
    def call(data: bytes, path: str) -> None:
        parsed = kind(data.decode(errors="surrogateescape"))
        for issue in (*parsed.errors, *parsed.warnings):
            if wrong := bad_words(str(issue)):
                raise WrongError(f"{wrong}: {str(issue)[:300]!r}")
        if not parsed.errors and parsed.value is None:
            raise WrongError("neither a value nor an error")

    return call


def _filters(data: bytes, path: str) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, dict):
        return
    said = parse.source(json.dumps({"destination": SHOP, "filter_data": value.pop("filter_data", {})})).value
    asked = parse.trigger(json.dumps(value)).value
    if said is not None and asked is not None:
        matches(said.filter_data, 5.0, asked.filters)


def _impression_header(data: bytes, path: str) -> None:
    options = parse_save_impression(_text(data))
    if parse_save_impression(save_impression_header(options)) != options:
        raise WrongError("an impression's header that does not parse back")


def _conversion_header(data: bytes, path: str) -> None:
    options, url = parse_measure_conversion(_text(data), f"{SHOP}/a/")
    if parse_measure_conversion(measure_conversion_header(options, url), SHOP) != (options, url):
        raise WrongError("a conversion's header that does not parse back")


def _attribution_options(data: bytes, path: str) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    parts = value if isinstance(value, dict) else {}
    site, time = parts.get("site"), parts.get("time")
    place: dict[str, Any] = {"site": site if isinstance(site, str) else "a.example"}
    place["time"] = time if isinstance(time, float) else 1e6
    agent = UserAgent(UserAgentSettings(aggregation_services=(ADS,), activation_seconds=None), Random(1))
    agent.save_impression(ImpressionOptions.from_json(parts.get("impression", value)), **place)
    agent.save_impression(ImpressionOptions(1), **place)
    options = ConversionOptions.from_json(parts.get("conversion", value))
    if sum(agent.measure_conversion(options, **place)) > options.value:
        raise WrongError("more than the value")


def _ledger(data: bytes, path: str) -> None:
    for query in (QUERIES[1], QUERIES[0], QUERIES[2]):
        secret = ledger.reserve(path, SHARED[2:], query)
        if isinstance(secret, bytes) and len(secret) != ledger.SECRET:
            raise WrongError("a secret of another length")
    ledger.finish(path, QUERIES[2], ledger.Receipt(b"", path, 0))


def _labels(data: bytes, path: str) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, dict) or not all(isinstance(value.get(kind), dict) for kind in ("source", "trigger")):
        return
    site = value.get("destination")
    source = _ready().source(value["source"], site if isinstance(site, str) else SHOP)
    for header in (source, _ready().trigger(value["trigger"])):
        json.dumps(header, ensure_ascii=False).encode()


def _good(name: str) -> str:
    """The path of a good input."""
    return os.path.join(os.environ["FUZZ_CORPUS"], name)


@cache
def _ready() -> Registrations:
    return registrations(Plan.load(_good("plan.json")))


@cache
def _reports(secret: bool) -> tuple[list[aggregatable_report.Report], Any, Any]:
    """Good reports, a domain, and the sums of the reports over it."""
    path, domain = _good("encrypted.avro" if secret else "clear.avro"), avro.read_domain(_good("domain.avro"))
    reports = [aggregatable_report.Report(info, data) for _, _, info, data, *_ in batch.reports_of(path)]
    return reports, domain, _sums(path, domain, secret).total


def _sums(path: str, domain: Any, secret: bool) -> Any:
    return aggregation.add_up([path], domain, PRIVATE_KEY if secret else None)


def _batch(secret: bool, as_json: bool) -> Callable[[bytes, str], None]:
    """Six good reports with a bad one among them: the good ones count, whatever the bad one is."""

    def call(data: bytes, path: str) -> None:
        good, domain, expected = _reports(secret)
        info, body = data.split(b"\n", 1) if b"\n" in data else (data, b"")
        text = info.decode(errors="surrogateescape")
        if as_json:
            lines = [aggregatable_report.to_json(each).encode() for each in good]
            line = body if info == b"*" else _json_line(text, body)
            _write(path, b"\n".join([*lines[:3], line.replace(b"\n", b" "), *lines[3:]]))
        else:
            bad = aggregatable_report.Report(text.encode(errors="replace").decode(), body)
            avro.write_reports(path, [*good[:3], _sealed(bad) if secret else bad, *good[3:]])
        sums = _sums(path, domain, secret)
        alone = sums.tally.used == len(good) and (sums.total == expected).all()
        joined = sums.tally.used == len(good) + 1 and (sums.total >= expected).all()
        if not alone and not joined:
            raise WrongError(f"of {len(good)} good reports and a bad one {sums.tally.used} count")

    return call


def _json_line(text: str, body: bytes) -> bytes:
    bodies = [{"payload": base64.b64encode(body).decode(), "key_id": "a"}]
    return json.dumps({"aggregation_service_payloads": bodies, "shared_info": text}).encode()


def _sealed(each: aggregatable_report.Report) -> aggregatable_report.Report:
    try:
        hidden = encryption.encrypt(each.payload, each.shared_info, encryption.public_key(PRIVATE_KEY))
    except ValueError:
        return each
    return aggregatable_report.Report(each.shared_info, hidden, "a")


TABLES = ("noisy.csv", "estimates.csv", "values.csv", "noisy.tsv")
PARSERS = {
    "spec": Target(("spec.toml", "values.toml", "one_log.toml"), _spec),
    "plan-file": Target(("plan.json", "values.json", "nodes.json"), lambda data, path: Plan.load(path)),
    "text-table": Target(TABLES, _table),
    "table-form": Target(("noisy.csv", "rollup.csv", "pivot.csv", "noisy.parquet"), _table_form),
    "w3c-results": Target(("w3c_results.json",), _w3c_results),
    "bigquery-result": Target(("results.csv",), _bigquery_result),
    "parquet": Target(("noisy.parquet", "tree.parquet", "estimates.parquet"), _table),
    "arrow": Target(("noisy.arrow", "noisy.arrows"), _table),
    "shared-info": Target(("shared_info.json",), lambda data, path: shared_info.identity(_text(data)), ValueError),
    "payload": Target(("payload.cbor",), lambda data, path: payload.decode(data), ValueError),
    "json-report": Target(("report.json",), _json_report, ValueError),
    "avro-reports": Target(("clear.avro", "encrypted.avro"), _avro_reports),
    "domain": Target(("domain.avro",), lambda data, path: avro.read_domain(path)),
    "avro-summary": Target(("summary.avro",), lambda data, path: read_summary(path)),
    "json-summary": Target(("summary.json",), lambda data, path: read_summary(path)),
    "source": Target(("source.json",), _header(parse.source)),
    "trigger": Target(("trigger.json",), _header(parse.trigger)),
    "filters": Target(("filters.json",), _filters),
    "private-key": Target(("private.key", "hexadecimal.key"), lambda data, path: read_private_keys([path])),
    "impression-header": Target(("impression.header",), _impression_header),
    "conversion-header": Target(("conversion.header",), _conversion_header),
    "attribution-options": Target(("options.json",), _attribution_options),
    "labels": Target(("labels.json",), _labels),
    "ledger": Target(("ledger.sqlite",), _ledger),
    "batch-json": Target(("bad_report",), _batch(False, True)),
    "batch-avro": Target(("bad_report",), _batch(False, False)),
    "batch-encrypted": Target(("bad_report",), _batch(True, False)),
}


def made(name: str, seed: int, number: int, files: Files) -> tuple[str, bytes]:
    """The input of a parser by its number: its file's name and its content."""
    rng = Random(f"{seed} {name} {number}")
    file = rng.choice(PARSERS[name].files)
    if file == "bad_report":
        return "report", _bad_report(rng, files)
    return file, mutated(rng, file, files[file], [files[other] for other in PARSERS[name].files])


def _bad_report(rng: Random, files: Files) -> bytes:
    """Shared info, a line break and a payload, one of them mutated; or, under *, a whole report as JSON."""
    info, body = shared_info.SharedInfo(**report_info(99)).to_json().encode(), files["payload.cbor"]
    body = body.replace(b"\x50" + body.partition(b"bucket\x50")[2][:15], b"\x50" + bytes(range(15)))  # a key of its own
    way = rng.randrange(4)
    if way == 0:
        whole = _json_line(info.decode(), body)
        return b"*\n" + mutated(rng, "report.json", whole, ())
    if way == 1:
        info = mutated(rng, "shared_info.json", info, ())
    else:
        body = mutated(rng, "payload.cbor", body, ())
    return info.replace(b"\n", b" ") + b"\n" + body


def tried(name: str, seed: int, number: int, file: str, data: bytes, folder: str) -> Finding | None:
    """What is wrong with a parser's answer to an input, if anything."""
    target, path = PARSERS[name], os.path.join(folder, file)
    _write(path, data)
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    what = details = ""
    try:
        with np.errstate(all="ignore"):
            target.call(data, path)
    except (TryAgain, ValueError) as error:
        if not isinstance(error, (TryAgain, InputError)) and not (
            target.refuses is ValueError and type(error) in (ValueError, Fault)
        ):
            what, details = where(error), traceback.format_exc()
        elif wrong := bad_words(str(error)):
            what, details = f"{wrong}: {where(error)}", str(error)[:5_000]
    except WrongError as error:
        what, details = f"{name}: {str(error).partition(':')[0]}", traceback.format_exc()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        what, details = where(error), traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if not what:
        return None
    return Finding(name, seed, number, what, details[-20_000:], inputs=coded({file: data}))


def _too_slow(number: int, frame: Any) -> None:
    raise TooSlowError(f"more than {SECONDS} seconds")


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)

"""The Attribution Reporting API's path: reading and summing batches, noise, and Avro, against the bare packages."""

import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

import cbor2
import fastavro
import numpy as np
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from attributary.api.ara.service import aggregation, batch
from attributary.api.ara.wire import avro, encryption, payload
from attributary.api.ara.wire.aggregatable_report import Report
from attributary.api.ara.wire.payload import Contribution
from attributary.api.ara.wire.shared_info import SharedInfo
from attributary.noise import sample_dlap
from attributary.noise.model import OnSums
from bench.timing import best, heading

REPORTS, CONTRIBUTIONS = 100_000, 20
KEYS = 100_000
NODES = 10_000_000
ROWS = 1_000_000
CORES = os.cpu_count() or 1
PRIVATE = bytes(range(32))


def main(reports: int = REPORTS) -> None:
    """All figures; fewer reports are for a try. Files are made in a temporary folder, and removed."""
    with tempfile.TemporaryDirectory(prefix="attributary-bench-") as folder:
        keys = np.random.default_rng(0).integers(0, 2**64, (KEYS, 2), np.uint64)
        clear, sealed = os.path.join(folder, "clear.avro"), os.path.join(folder, "sealed.avro")
        avro.write_reports(clear, made(reports, keys))
        cleartext(clear, keys, reports)
        with pool() as workers:
            batches = [Report(info, data) for _, _, info, data, *_ in batch.reports_of(clear)]
            size = -(-reports // (8 * CORES))
            done = workers.map(sealed_part, [batches[i : i + size] for i in range(0, reports, size)])
            avro.write_reports(sealed, (report for part in done for report in part))
        encrypted(sealed, keys, reports)
        memory(folder, reports)
        writing(folder, keys)
    noise(NODES if reports == REPORTS else NODES // 10)


def cleartext(path: str, keys: Any, reports: int) -> None:
    heading(f"Reading and summing {reports:,} reports of {CONTRIBUTIONS} contributions, in the clear")
    theirs = best(lambda: bare_decoding(path), 3)
    ours = best(lambda: aggregation.add_up([path], keys), 3)
    told("fastavro and cbor2, decoding alone", theirs, "add_up", ours, 1.5)


def encrypted(path: str, keys: Any, reports: int) -> None:
    heading(
        f"The same, encrypted, on {CORES} cores (each run starts its processes; decryption alone has all in memory)"
    )
    sealed = [(data, encryption.info(text, "1.0")) for _, _, text, data, *_ in batch.reports_of(path)]
    theirs = best(lambda: bare_decryption(sealed), 2, 0)
    ours = best(lambda: aggregation.add_up([path], keys, PRIVATE, processes=CORES), 2, 0)
    told("bare decryption", theirs, "add_up", ours, 1.3)


def memory(folder: str, reports: int) -> None:
    """By keys and not by reports: the most that runs of 1 and of 10 times as many encrypted reports take."""
    heading(f"Peak memory of add_up, {CORES} processes and the one that adds up, by the number of encrypted reports")
    keys = np.random.default_rng(0).integers(0, 2**64, (KEYS, 2), np.uint64)
    path, peaks = os.path.join(folder, "sealed.avro"), []
    for number in (reports, 10 * reports):
        write_sealed(path, made(number, keys))
        code = PEAK.format(path=path, private=PRIVATE, cores=CORES, keys=KEYS)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append([float(word) / 1024 for word in done.stdout.split()])
        print(f"{number:>12,} reports   {peaks[-1][0]:6,.0f} MB   each process {peaks[-1][1]:6,.0f} MB", flush=True)
    print(f"difference {sum(peaks[1]) - sum(peaks[0]):,.0f} MB   (bar 100 MB)", flush=True)


def write_sealed(path: str, reports: Iterator[Report]) -> None:
    """A few thousand at a time, on all cores."""
    parts = iter(lambda: list(islice(reports, 5_000)), [])
    rounds = iter(lambda: list(islice(parts, 4 * CORES)), [])
    with pool() as workers:
        avro.write_reports(path, (r for each in rounds for part in workers.map(sealed_part, each) for r in part))


PEAK = """
import resource
import numpy as np
from attributary.api.ara.service import aggregation
if __name__ == "__main__":
    keys = np.random.default_rng(0).integers(0, 2**64, ({keys}, 2), np.uint64)
    sums = aggregation.add_up([{path!r}], keys, {private!r}, processes={cores})
    with open("/proc/self/status") as status:  # ru_maxrss has the parent's peak, which a child begins with
        mine = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(mine, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def writing(folder: str, keys: Any) -> None:
    heading(f"Writing {ROWS:,} results and domain keys as Avro, against fastavro with its records ready")
    rng = np.random.default_rng(1)
    many = rng.integers(0, 2**64, (ROWS, 2), np.uint64)
    metric = sample_dlap(4 / 65536, ROWS, rng)
    rows = [
        {"bucket": high.to_bytes(8, "big") + low.to_bytes(8, "big"), "metric": m}
        for (high, low), m in zip(many.tolist(), metric.tolist(), strict=True)
    ]
    path = os.path.join(folder, "out.avro")
    for name, schema, ours in (
        ("results", avro.RESULTS_SCHEMA, lambda: avro.write_results(path, many, metric)),
        ("domain", avro.DOMAIN_SCHEMA, lambda: avro.write_domain(path, many)),
    ):
        told(f"{name}: fastavro", best(lambda s=schema: bare_writing(path, s, rows), 2), "ours", best(ours, 2), 1.3)
    few = list(made(ROWS // 50, keys))
    records = [{"payload": r.payload, "key_id": r.key_id, "shared_info": r.shared_info} for r in few]
    theirs = best(lambda: bare_writing(path, avro.REPORTS_SCHEMA, records), 3)
    told("reports: fastavro", theirs, "ours", best(lambda: avro.write_reports(path, few), 3), 1.3)


def noise(nodes: int) -> None:
    heading(f"Noise for {nodes:,} keys in memory, against drawing it")
    rng = np.random.default_rng(2)
    budget, count = rng.integers(1, 21846, nodes) * 4 / 65536, rng.poisson(20, nodes).astype(np.float64)
    theirs = best(lambda: sample_dlap(4 / 65536, nodes), 2)
    told("sample_dlap", theirs, "measured counts", best(lambda: OnSums(4, 65536).measure(count, budget), 2), 2)


def told(bare: str, theirs: float, name: str, ours: float, bar: float) -> None:
    print(f"{bare:36} {theirs:8.3f} s   {name:18} {ours:8.3f} s   {ours / theirs:5.2f}x   (bar {bar}x)", flush=True)


def made(reports: int, keys: Any) -> Iterator[Report]:
    """Generated reports, all with real contributions."""
    rng = np.random.default_rng(3)
    words = [(high << 64) | low for high, low in keys.tolist()]
    for i in range(reports):
        some = rng.integers(0, len(words), CONTRIBUTIONS).tolist()
        info = SharedInfo(
            f"{i:08x}-0000-4000-8000-{i:012x}",
            "https://report.test",
            1234486400 + i,
            "https://conversion.test",
            1234483200,
        )
        clear = payload.encode([Contribution(words[j], 3276) for j in some])
        yield Report(info.to_json(), clear)


def sealed_part(reports: list[Report]) -> list[Report]:
    public = encryption.public_key(PRIVATE)
    return [Report(r.shared_info, encryption.encrypt(r.payload, r.shared_info, public), "k") for r in reports]


def bare_decoding(path: str) -> int:
    with open(path, "rb") as file:
        return sum(len(cbor2.loads(record["payload"])["data"]) for record in fastavro.reader(file))


def bare_decryption(sealed: list[tuple[bytes, bytes]]) -> int:
    with pool() as workers:
        return sum(workers.map(decrypted, [sealed[i : i + 2000] for i in range(0, len(sealed), 2000)]))


def decrypted(sealed: list[tuple[bytes, bytes]]) -> int:
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
    key = X25519PrivateKey.from_private_bytes(PRIVATE)
    return sum(len(suite.decrypt(data, key, info)) for data, info in sealed)


def bare_writing(path: str, schema: Any, records: list[Any]) -> None:
    with open(path, "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records, sync_marker=secrets.token_bytes(16))


def pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(CORES, multiprocessing.get_context("spawn"))


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else REPORTS)

"""mutations: a good input becomes one that nobody would write, by its bytes or by its structure.

Every way is a function of a random number generator and the content. The same generator gives the same result, so that
a finding is told by its seed.
"""

import base64
import io
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

DEEP = 100_000
LARGE = 200_000  # bytes; nothing is added to such an input
RAW = "\uffffraw%d\uffff"  # stands for a text that no JSON writer would write
# fmt: off
TEXTS = [
    "", " ", "\0", "\x01", "\x1b[31mred", "\r\n", "\ud800", "\udfff", "\u202eabc", "é", "e\u0301", "👩‍👩‍👧", "\ufeff",
    "a" * 10_000, "'", '"', "\\", "<script>", "{{7*7}}", "${x}", "../../etc/passwd", "*", "?", "[a", "%s", "-", "--",
    "0", "-0", "1e400", "-1e400", "nan", "inf", "1_000", "0x10", "१२", "1" * 400, "1,5", "23.048", "1e-320", "9" * 19,
    "ALL", "Total", "null", "true", "2026-13-45", "0000-00-00", "9999-12-31T23:59:60Z", "1767225600000",
    "1d", "9" * 20 + "d",
]
NUMBERS = [0, -1, 1, 2, 255, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40, 10**400]
FLOATS = [0.5, -0.0, 1e308, 5e-324, math.nan, math.inf, -math.inf, 1e22, 0.1]
ODD: list[Any] = [
    *TEXTS, *NUMBERS, *FLOATS, None, True, False, [], {}, [[]], {"": {}}, [None], [[1], {"a": "b"}], ["a"] * 300,
]
RAW_JSON = [
    "[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, "9" * 5_000, "-" + "9" * 50_000, "1e999", "NaN", "-Infinity",
    '{"a":1,"a":2}', "", "tru", '"\\ud800"', '"\\u0000"', '"\x01"', "1.", "/* */ 1", '"\\x"', "[" * 900 + "]" * 900,
]
RAW_TOML = [
    "[" * DEEP, "[" * 200 + "]" * 200, "{a = " * 500, "9" * 5_000, "0x" + "f" * 5_000, "nan", "-inf", "1e999",
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '"\\ud800"', '"\\u0000"', '"\\u0001"', "'''\na\n'''", "{}",
    "[[], [[]]]", "true", "[1, 'a']", "{a = 1}", "1_000", "-1", "0", "1e-320", "1000000000", "[{}]", '[""]',
    '["a", "a"]', '"auto"', "a.b = 1",
]
CELLS = [*TEXTS, '"', '""', '"a\nb"', '"open', "a,b", "a\tb", "1" * 100_000]
RAW_CBOR = [
    b"\x81" * DEEP, b"\xd8\x1c\x81\xd8\x1d\x00", b"\xd8\x1c\x82" * 20 + b"\xd8\x1d\x00" * 21,
    b"\x9f" * 800, b"\xa1\x00" * 800,
    b"\x9b" + b"\xff" * 8, b"\x5b\x00\x00\x00\xff" + b"\xff" * 4, b"\xbb" + b"\x7f" * 8, b"\xff", b"\xf7", b"\xf8\xff",
    b"\xc2\x59\xff\xff" + b"\xff" * 65_535, b"\xd9\x01\x02\x80", b"\xc4\x82\x1b" + b"\x7f" * 8 + b"\x01",
    *(bytes([0xD8, tag]) + b"\x41\xff" for tag in (0, 1, 2, 4, 5, 28, 29, 30, 35, 36, 37, 43, 100, 255)),
    *(bytes([0xD8, tag]) + b"\x82\x01\x00" for tag in (0, 1, 2, 4, 5, 28, 29, 30, 35, 36, 37, 43, 100, 255)),
]
# fmt: on
BOMB = zlib.compress(bytes(64 << 20), 9)[2:-4]  # 64 kB that inflate to 64 MB


def mutated(rng: Random, name: str, content: bytes, others: Sequence[bytes]) -> bytes:
    """A file's content with one to three mutations; those that know its structure go by the ending of its name."""
    structured = STRUCTURED.get(os.path.splitext(name)[1])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if len(content) > LARGE:
            break
        if structured and rng.random() < 0.7:
            try:
                content = structured(rng, content)
                continue
            except Exception:  # what a mutation before has left has no structure
                structured = None
        content = rng.choice(BYTES)(rng, content, others)
        structured = None
    return content


def _flip(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if made:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def _set(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    size = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(content) + 1)
    value = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 2**31 - 1, 2**63 - 1, 2**64 - 1)) & (256**size - 1)
    return content[:at] + value.to_bytes(size, rng.choice(("big", "little"))) + content[at + size :]  # type: ignore[arg-type]


def _cut(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    a, b = sorted(rng.randrange(len(content) + 1) for _ in "ab")
    return rng.choice((content[:a], content[b:], content[:a] + content[b:], content[: a + 1] + content[a + 2 :], b""))


def _insert(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(content) + 1)
    new = rng.choice((rng.randbytes(rng.randrange(1, 20)), rng.choice(TEXTS).encode(errors="surrogatepass")))
    return content[:at] + new + content[at:]


def _repeat(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    a = rng.randrange(len(content) + 1)
    b = min(len(content), a + rng.choice((1, 4, 16, 64, 1_000)))
    return content[:b] + content[a:b] * rng.choice((1, 2, 10, 1_000)) + content[b:]


def _splice(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else content
    a, b = rng.randrange(len(content) + 1), rng.randrange(len(other) + 1)
    return content[:a] + other[b:]


BYTES: list[Callable[[Random, bytes, Sequence[bytes]], bytes]] = [_flip, _flip, _set, _cut, _insert, _repeat, _splice]


def odd_text(rng: Random) -> str:
    """A text that may be a label, an option, or trouble."""
    return rng.choice(TEXTS)


def grown(rng: Random, tree: Any, raw: Sequence[Any], mark: Callable[[int], Any]) -> Any:
    """A tree of lists and dicts with another member, one less, one that stands elsewhere, of another type, or raw."""
    top = [tree]
    slots: list[tuple[Any, Any]] = [(top, 0)]
    for container, key in slots:  # grows while we walk
        value = container[key]
        if isinstance(value, dict | list) and len(slots) < 500:
            slots += [(value, k) for k in (value if isinstance(value, dict) else range(len(value)))]
    container, key = rng.choice(slots)
    value = container[key]
    way = rng.randrange(12)
    if way == 0 and len(slots) > 1:
        other, place = rng.choice(slots)
        container[key], other[place] = other[place], value if value is not other else None
    elif way == 1 and container is not top:
        del container[key]
    elif way == 2 and isinstance(value, list):
        value *= rng.choice((2, 3, 100))
    elif way == 3 and isinstance(container, dict):
        container[odd_text(rng) if rng.random() < 0.5 else rng.choice(list(container))] = container.pop(key)
    elif way == 4 and isinstance(value, dict):
        value[odd_text(rng)] = rng.choice(ODD)
    elif way == 5:
        container[key] = rng.choice(([value], {"a": value}, str(value)[:1_000], [value, value]))
    elif way in (6, 7):
        container[key] = mark(rng.randrange(len(raw)))
    elif way in (8, 9) and isinstance(value, str | bytes):
        container[key] = _inside(rng, value)
    else:
        container[key] = rng.choice(ODD)
    return top[0]


def _inside(rng: Random, value: str | bytes) -> str | bytes:
    """A text or bytes that hold JSON, base64 or CBOR of their own, mutated there."""
    content = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    for ending, looks in ((".json", content[:1] in (b"{", b"[")), (".cbor", content[:1] in (b"\xa1", b"\xa2"))):
        if looks:
            content = mutated(rng, ending, content, ())
            return content.decode("utf-8", "surrogateescape") if isinstance(value, str) else content
    if len(content) > 100 and re.fullmatch(rb"[A-Za-z0-9+/]+=*", content):
        content = base64.b64encode(bytes(_inside(rng, base64.b64decode(content))))  # type: ignore[arg-type]
    else:
        content = rng.choice(BYTES)(rng, content, ())
    return content.decode("utf-8", "surrogateescape") if isinstance(value, str) else content


def _json(rng: Random, content: bytes) -> bytes:
    lines = content.splitlines() if content.count(b"\n{") else [content]  # one JSON on each line, or one in all
    at = rng.randrange(len(lines))
    tree = grown(rng, json.loads(lines[at]), RAW_JSON, lambda number: RAW % number)
    text = json.dumps(tree, ensure_ascii=True)
    text = re.sub(r'"\\uffffraw(\d+)\\uffff"', lambda found: RAW_JSON[int(found[1])], text)
    if rng.random() < 0.3:
        text = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)  # as it is, however it looks
    lines[at] = text.encode(errors="surrogatepass")
    return b"\n".join(lines)


def _toml(rng: Random, content: bytes) -> bytes:
    lines = content.decode().split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    name, equals, _ = lines[at].partition("=")
    if equals and rng.random() < 0.7:
        odd = rng.choice(
            (rng.choice(RAW_TOML), json.dumps(odd_text(rng)), json.dumps(odd_text(rng), ensure_ascii=False))
        )
        lines[at] = f"{name}= {odd}"
    else:
        way = rng.randrange(4)
        if way == 0:
            lines[at], lines[other] = lines[other], lines[at]
        elif way == 1:
            del lines[at]
        elif way == 2:
            lines.insert(at, lines[other])
        else:
            keys = ("a", "", '""', '"\\u0001"', "a." * 2_000 + "b", "total", "l1", "noise", "epsilon", "measure")
            lines.insert(at, f"{rng.choice(keys)} = {rng.choice(RAW_TOML)}")
    return "\n".join(lines).encode(errors="surrogatepass")


def _csv(rng: Random, content: bytes) -> bytes:
    comma = b"\t" if b"\t" in content.split(b"\n")[0] else b","
    rows = [row.split(comma) for row in content.split(b"\n")]
    row = rows[0] if rng.random() < 0.2 else rng.choice(rows)
    at, way = rng.randrange(len(row)), rng.randrange(8)
    if way == 0:
        del row[at]
    elif way == 1:
        row.insert(at, row[at])
    elif way == 2:
        rows.insert(rng.randrange(len(rows)), list(row))
    elif way == 3:
        column = [line[at] if at < len(line) else b"" for line in rows]
        rows = [[*line, cell] for line, cell in zip(rows, column, strict=True)]
    elif way == 4:
        whole = b"\n".join(comma.join(line) for line in rows)
        return rng.choice(
            (b"\xef\xbb\xbf" + whole, whole.decode(errors="replace").encode("utf-16"), whole.replace(b"\n", b"\r"))
        )
    else:
        cell = rng.choice(CELLS).encode(errors="surrogatepass")
        for line in rows[1:] if way == 5 else [row]:  # a column, or a cell
            if at < len(line):
                line[at] = cell
    return b"\n".join(comma.join(line) for line in rows)


def _arrow(rng: Random, content: bytes) -> bytes:
    import pyarrow as pa
    from pyarrow import ipc, parquet

    is_parquet, is_file = content[:4] == b"PAR1", content[:6] == b"ARROW1"
    if is_parquet:
        table = parquet.ParquetFile(io.BytesIO(content)).read(use_threads=False)
    else:
        table = (ipc.open_file if is_file else ipc.open_stream)(content).read_all()
    at, way = rng.randrange(table.num_columns), rng.randrange(6)
    name, column = table.column_names[at], table.column(at).to_pylist()
    if way == 0:
        names = list(table.column_names)
        names[at] = rng.choice((*names, odd_text(rng).encode(errors="replace").decode()))
        table = table.rename_columns(names)
    elif way == 1:
        table = rng.choice(
            (table.remove_column(at), table.slice(0, 0), table.slice(1), table.append_column(name, [column]))
        )
    elif way == 2:
        table = table.replace_schema_metadata({odd_text(rng).encode(errors="replace"): b"\xff", b"confidence": b"a"})
    else:
        table = table.set_column(at, name, _column(rng, column, pa))
    out = io.BytesIO()
    if is_parquet:
        parquet.write_table(table, out)
    else:
        with (ipc.new_file if is_file else ipc.new_stream)(out, table.schema) as writer:
            writer.write_table(table.unify_dictionaries())
    return out.getvalue()


def _column(rng: Random, column: list[Any], pa: Any) -> Any:
    """A column of another type, or with an odd value in it."""
    kinds = [
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.null(),
        pa.list_(pa.string()),
        pa.struct({"a": pa.int8()}),
        pa.float16(),
    ]
    kinds += [
        pa.decimal128(38, 2),
        pa.timestamp("ns"),
        pa.date32(),
        pa.duration("us"),
        pa.uint64(),
        pa.int64(),
        pa.float64(),
    ]
    if rng.random() < 0.3:
        return pa.nulls(len(column), rng.choice(kinds))
    values = [[*TEXTS], [*NUMBERS[:9]], [*FLOATS], [True], [b"\xff"], [[]], [{"a": 1}], [None]]
    odd = rng.choice(rng.choice(values))
    if isinstance(odd, str):
        odd = odd.encode(errors="replace").decode()
    alike = [odd if rng.random() < 0.5 else None for _ in column]
    if column and rng.random() < 0.6:
        alike = list(column)
        alike[rng.randrange(len(alike))] = odd if type(odd) in {type(value) for value in column} else None
    return pa.array(alike)


def _cbor(rng: Random, content: bytes) -> bytes:
    import cbor2

    tree = grown(rng, cbor2.loads(content), RAW_CBOR, lambda number: b"\xffraw%c" % number)
    made = cbor2.dumps(tree, canonical=rng.random() < 0.5)
    return re.sub(rb"\x45\xffraw(.)", lambda found: RAW_CBOR[found[1][0]], made, flags=re.DOTALL)


def _avro(rng: Random, content: bytes) -> bytes:
    metadata, sync, blocks = _avro_parts(content)
    way, at = rng.randrange(9), rng.randrange(len(blocks)) if blocks else -1
    counts = [count for count, _ in blocks]
    if way == 0:
        metadata[b"avro.schema"] = _json(rng, metadata[b"avro.schema"])
    elif way == 1:
        metadata[rng.choice(list(metadata))] = rng.choice((b"deflate", b"snappy", b"", b"\xff", b"null", b"null"))
    elif way == 2:
        metadata[odd_text(rng).encode(errors="surrogatepass")] = rng.choice(TEXTS).encode(errors="surrogatepass")
    elif way == 3 and blocks:
        counts[at] = rng.choice((0, -1, 1, 2**31, 2**62, -(2**62), 10**6))
    elif way == 4:
        metadata[b"avro.codec"] = b"deflate"
        blocks = [(count, zlib.compress(data)[2:-4]) for count, data in blocks]
    elif way == 5 and rng.random() < 0.1:  # since a bomb takes as long as many others
        metadata[b"avro.codec"] = b"deflate"
        blocks, counts = [(2**25, BOMB)] * rng.choice((1, 8)), [rng.choice((1, 2**25))] * 8
    elif way == 6:
        blocks += [(0, b"")] * 2_000
        counts += [0] * 2_000
    elif blocks:
        blocks[at] = (blocks[at][0], _avro_rows(rng, metadata[b"avro.schema"], blocks[at][1]))
    made = [b"Obj\x01", _varint(len(metadata))]
    for name, value in metadata.items():
        made += [_varint(len(name)), name, _varint(len(value)), value]
    made += [b"\0", sync]
    for count, (_, data) in zip(counts, blocks, strict=False):
        made += [_varint(count), _varint(len(data)), data, sync]
    return b"".join(made)


def _avro_rows(rng: Random, schema: bytes, data: bytes) -> bytes:
    """A block with one field of one of its rows mutated."""
    kinds = [field["type"] for field in json.loads(schema)["fields"]]
    at, fields = 0, []
    while at < len(data):
        number, after = _number(data, at)
        text = kinds[len(fields) % len(kinds)] != "long"
        fields.append(data[after : after + max(number, 0)] if text else number)
        at = after + max(number, 0) if text else after
    place = rng.randrange(len(fields))
    old = fields[place]
    fields[place] = _inside(rng, old) if isinstance(old, bytes) else rng.choice(NUMBERS)  # type: ignore[call-overload]
    return b"".join(_varint(len(each)) + each if isinstance(each, bytes) else _varint(each) for each in fields)


def _avro_parts(content: bytes) -> tuple[dict[bytes, bytes], bytes, list[tuple[int, bytes]]]:
    """Metadata, sync marker and blocks of a file."""
    count, at = _number(content, 4)
    texts = []
    for _ in range(2 * min(count, 100)):
        size, at = _number(content, at)
        texts.append(content[at : at + size])
        at += size
    at += 1
    sync, blocks = content[at : at + 16], []
    at += 16
    while at < len(content):
        count, at = _number(content, at)
        size, at = _number(content, at)
        blocks.append((count, content[at : at + max(size, 0)]))
        at += max(size, 0) + 16
    return dict(zip(texts[::2], texts[1::2], strict=True)), sync, blocks


def _varint(number: int) -> bytes:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    made = bytearray()
    while zigzag >= 0x80:
        made.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*made, zigzag])


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at


STRUCTURED: dict[str, Callable[[Random, bytes], bytes]] = {
    **dict.fromkeys((".json", ".jsonl"), _json),
    **dict.fromkeys((".csv", ".tsv"), _csv),
    **dict.fromkeys((".parquet", ".arrow", ".arrows"), _arrow),
    ".toml": _toml,
    ".avro": _avro,
    ".cbor": _cbor,
}

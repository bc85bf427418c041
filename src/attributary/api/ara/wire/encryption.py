"""encryption: HPKE as browsers use it for reports, and private keys in files.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305 in base mode, without associated data: the shared info
goes into `info`, so that nobody can put a payload under another one.
"""

import base64
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from attributary.api.ara.wire.shared_info import Fault
from attributary.errors import InputError, brief

KEY_BYTES = 32
SMALLEST = 32 + 16  # the encapsulated key and the tag


def encrypt(payload: bytes, shared_info: str, public_key: bytes, version: str = "1.0") -> bytes:
    """The payload encrypted for the owner of a key, bound to its shared info."""
    sealed: bytes = _suite().encrypt(payload, _x25519(public_key, "public"), info(shared_info, version))
    return sealed


def decrypt(payload: bytes, shared_info: str, private_key: bytes, version: str = "1.0") -> bytes:
    """The payload in the clear; a Fault if it was not encrypted for this key and this shared info."""
    return opener(private_key)(payload, shared_info, version)


@cache
def opener(private_key: bytes) -> Callable[[bytes, str, str], bytes]:
    """A function that decrypts payloads with this key, for many of them."""
    suite, key = _suite(), _x25519(private_key, "private")

    def opened(payload: bytes, shared_info: str, version: str) -> bytes:
        if len(payload) < SMALLEST:
            raise Fault(f"an encrypted payload has {SMALLEST} bytes at least; got {len(payload)}")
        bound = info(shared_info, version)
        try:
            clear: bytes = suite.decrypt(payload, key, bound)
        except Exception as error:  # whatever the bytes make the package say, it means one thing
            raise Fault("the payload does not decrypt with this key and its shared info") from error
        return clear

    return opened


def info(shared_info: str, version: str) -> bytes:
    """What ties a payload to its shared info; the first version had a zero byte between."""
    try:
        return b"aggregation_service" + (b"\0" if version == "" else b"") + shared_info.encode()
    except UnicodeEncodeError:
        raise Fault("the shared info is not valid UTF-8") from None


def public_key(private_key: bytes) -> bytes:
    key: bytes = _x25519(private_key, "private").public_key().public_bytes_raw()
    return key


@cache
def _suite() -> Any:
    try:
        from cryptography.hazmat.primitives import hpke
    except ImportError:
        raise InputError(
            "encrypted reports need the package cryptography, 46 or newer: pip install 'attributary[decrypt]'"
        ) from None
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


@cache
def _x25519(key: bytes, kind: str) -> Any:
    _suite()  # says so where there is no such package
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    if len(key) != KEY_BYTES:
        raise InputError(f"a {kind} key has {KEY_BYTES} bytes (X25519); got {len(key)}")
    return X25519PrivateKey.from_private_bytes(key) if kind == "private" else X25519PublicKey.from_public_bytes(key)


ANY = ""  # the id of a key that serves every report which no other key is for
MOST_FILE_BYTES = 2**20  # of a file
IDS, KEYS = ("key_id", "kid", "id"), ("private_key_base64", "private_key", "d")  # members of a key in JSON
WEB_SAFE = str.maketrans("-_", "+/")  # base64 as addresses and JSON Web Keys have it


def read_private_keys(names: Sequence[str]) -> dict[str, bytes]:
    """The X25519 private keys in some files or folders, by their ids.

    A file holds a key (its 32 bytes, or their base64 or hexadecimal digits), or JSON: an object with `key_id` and
    `private_key_base64`, a list of such, {"keys": a list}, or {id: key}; `kid` and `d` of JSON Web Keys are taken, too.
    A key without an id is called as its file is, without ending; if it is the only file given, it serves all reports.
    """
    keys: dict[str, bytes] = {}
    for path in names:
        is_folder = os.path.isdir(path)
        for file in _inside(path) if is_folder else [path]:
            own_name = os.path.splitext(os.path.basename(file))[0] if is_folder or len(names) > 1 else ANY
            for key_id, key in _read(file):
                name = own_name if key_id is None else key_id
                if keys.setdefault(name, key) != key:
                    raise InputError(f"two private keys have the id {brief(name)}, the second in {file}; leave out one")
    return keys


def _inside(folder: str) -> list[str]:
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name[0] not in "._"]
    files = [path for path in paths if os.path.isfile(path)]
    if not files:
        raise InputError(f"the folder {folder} has no file in it; give the files of private keys")
    return files


def _read(path: str) -> list[tuple[str | None, bytes]]:
    """The keys in a file; None for the id of one that has none."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"the key {path} cannot be read: {error.strerror}") from None
    text = data.strip()
    if len(data) == KEY_BYTES:
        return [(None, data)]
    if text[:1] in (b"{", b"["):
        return _from_json(text, path)
    return [(None, _key(text.decode("latin-1"), path))]


def _from_json(text: bytes, path: str) -> list[tuple[str | None, bytes]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _refusal(path) from None
    if isinstance(data, dict) and isinstance(data.get("keys"), list):
        data = data["keys"]
    if isinstance(data, dict) and data and not any(name in data for name in KEYS):
        return [(key_id, _key(key, path)) for key_id, key in data.items()]
    items = data if isinstance(data, list) else [data]
    if not items:
        raise _refusal(path)
    return [(_member(item, IDS), _key(_member(item, KEYS), path)) for item in items]


def _member(item: object, names: tuple[str, ...]) -> str | None:
    values = [item[name] for name in names if name in item] if isinstance(item, dict) else []
    return values[0] if values and isinstance(values[0], str) else None


def _key(text: object, path: str) -> bytes:
    if isinstance(text, str) and len(text) <= 4 * KEY_BYTES:
        padded = text + "=" * (-len(text) % 4)  # JSON Web Keys leave it out
        with suppress(ValueError):
            is_hex = len(text) == 2 * KEY_BYTES
            key = bytes.fromhex(text) if is_hex else base64.b64decode(padded.translate(WEB_SAFE), validate=True)
            if len(key) == KEY_BYTES:
                return key
    raise _refusal(path)


def _refusal(path: str) -> InputError:
    return InputError(
        f"{path} is not a private key; give a file with {KEY_BYTES} bytes (raw, base64 or hexadecimal), or JSON with "
        "key_id and private_key_base64"
    )

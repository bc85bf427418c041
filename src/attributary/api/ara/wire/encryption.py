"""Encryption: HPKE as browsers use it for reports.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305 in base mode, without associated data: the shared info
goes into `info`, so that nobody can put a payload under another one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from attributary.api.ara.wire.fault import Fault
from attributary.errors import InputError

KEY_BYTES = 32
SMALLEST = 32 + 16  # the encapsulated key and the tag


def encrypt(payload: bytes, shared_info: str, public_key: bytes, version: str = "1.0") -> bytes:
    """The payload encrypted for the owner of a key, bound to its shared info."""
    sealed: bytes = _suite().encrypt(payload, _public(public_key), info(shared_info, version))
    return sealed


def decrypt(payload: bytes, shared_info: str, private_key: bytes, version: str = "1.0") -> bytes:
    """The payload in the clear; a Fault if it was not encrypted for this key and this shared info."""
    return opener(private_key)(payload, shared_info, version)


@cache
def opener(private_key: bytes) -> Callable[[bytes, str, str], bytes]:
    """A function that decrypts payloads with this key, for many of them."""
    suite, key = _suite(), _private(private_key)

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
        raise Fault("the shared info is no text that UTF-8 can hold") from None


def public_key(private_key: bytes) -> bytes:
    """The public key that belongs to a private one."""
    found: bytes = _private(private_key).public_key().public_bytes_raw()
    return found


@cache
def _suite() -> Any:
    _needs_cryptography()
    from cryptography.hazmat.primitives import hpke

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


@cache
def _private(key: bytes) -> Any:
    _needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(_checked(key, "private"))


@cache
def _public(key: bytes) -> Any:
    _needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return X25519PublicKey.from_public_bytes(_checked(key, "public"))


def _checked(key: bytes, kind: str) -> bytes:
    if len(key) != KEY_BYTES:
        raise InputError(f"a {kind} key has {KEY_BYTES} bytes (X25519); got {len(key)}")
    return key


def _needs_cryptography() -> None:
    try:
        from cryptography.hazmat.primitives import hpke  # noqa: F401
    except ImportError:
        raise InputError(
            "encrypted reports need the package cryptography, 46 or newer: pip install 'attributary[decrypt]'"
        ) from None

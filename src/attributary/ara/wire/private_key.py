"""private_key: the key that reports were encrypted for, from a file."""

import base64
import binascii

from attributary.ara.wire.encryption import KEY_BYTES
from attributary.errors import InputError


def read_private_key(path: str) -> bytes:
    """The X25519 private key in a file: its 32 bytes, or their base64 or hexadecimal digits."""
    try:
        with open(path, "rb") as file:
            data = file.read(4096)
    except OSError as error:
        raise InputError(f"the key {path} cannot be read: {error.strerror}") from None
    if len(data) == KEY_BYTES:
        return data
    text = data.strip()
    try:
        key = bytes.fromhex(text.decode()) if len(text) == 2 * KEY_BYTES else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise InputError(
            f"{path} is no private key; it holds {KEY_BYTES} bytes, as they are, in base64 or in hexadecimal"
        )
    return key

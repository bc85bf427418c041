"""whole: whether a compressed file is all there. DuckDB takes some that end too early for whole ones."""

import zlib
from threading import Event

from attributary.errors import InputError

CHUNK = 2**20
FRAME, SKIPPED = 0xFD2FB528, range(0x184D2A50, 0x184D2A60)  # how a zstd frame begins (RFC 8878)


def refuse_cut_zstd(path: str) -> None:
    """Walks from block to block of a zstd file without unpacking any; a file that ends too early is an InputError."""
    with open(path, "rb") as file:

        def number(length: int) -> int:
            data = file.read(length)
            if len(data) < length:
                raise _cut(path)
            return int.from_bytes(data, "little")

        size = file.seek(0, 2)
        file.seek(0)
        while file.tell() < size:
            magic = number(4)
            if magic in SKIPPED:
                file.seek(number(4), 1)
                continue
            if magic != FRAME:
                raise InputError(f"{path} is damaged; it is not zstd throughout")
            about = number(1)
            single, checksum = about >> 5 & 1, about >> 2 & 1
            file.seek((0 if single else 1) + (0, 1, 2, 4)[about & 3] + (single, 2, 4, 8)[about >> 6], 1)
            last = 0
            while not last:
                block = number(3)
                last, kind, length = block & 1, block >> 1 & 3, block >> 3
                file.seek(1 if kind == 1 else length, 1)
            file.seek(4 * checksum, 1)
        if file.tell() > size:
            raise _cut(path)


def refuse_cut_gzip(path: str, stop: Event) -> None:
    """Unpacks a gzip file to its end, or until told to stop; a file that ends too early is an InputError."""
    unpack, empty = zlib.decompressobj(31), True
    with open(path, "rb") as file:
        try:
            while (data := file.read(CHUNK)) and not stop.is_set():
                while data:
                    if unpack.eof:
                        unpack = zlib.decompressobj(31)  # files one after the other are one
                    unpack.decompress(data)
                    data, empty = unpack.unused_data.lstrip(b"\0"), False
        except zlib.error as error:
            raise InputError(f"{path} is damaged: {str(error).split(': ')[-1]}") from None
    if not stop.is_set() and not (unpack.eof or empty):
        raise _cut(path)


def _cut(path: str) -> InputError:
    return InputError(f"{path} ends too early; get the whole file")

"""archive: the text of a published file, however it is packed: plain, gzip, in its tar.gz, or in its zip."""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from attributary.errors import InputError

Packing = Literal["none", "gzip", "archive"]
DAMAGED = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile)
CHUNK = 2**20


def packing(path: str) -> Packing:
    """How a file is packed; what is in an archive only Python can reach."""
    with _read_errors(path), open(path, "rb") as file:
        beginning = file.read(4)
        if beginning.startswith(b"PK"):
            return "archive"
        if beginning.startswith(b"\x1f\x8b"):
            with gzip.open(path) as unpacked:
                return "archive" if _is_tar(unpacked.read(512)) else "gzip"
        return "archive" if _is_tar(beginning + file.read(508)) else "none"


def _is_tar(block: bytes) -> bool:
    return block[257:262] == b"ustar"


@contextmanager
def open_text(path: str) -> Iterator[Any]:
    """The bytes of the text, from its beginning."""
    with _read_errors(path), ExitStack() as stack:
        file = stack.enter_context(open(path, "rb"))
        magic = file.read(2)
        file.seek(0)
        if magic == b"PK":
            archive = stack.enter_context(zipfile.ZipFile(file))
            name = _largest({i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}, path)
            inner = stack.enter_context(archive.open(name))
            yield stack.enter_context(gzip.open(inner)) if name.endswith(".gz") else inner
        elif packing(path) == "archive":
            yield _first_file(stack.enter_context(tarfile.open(fileobj=file, mode="r|*")), path)
        else:
            yield stack.enter_context(gzip.open(file)) if magic == b"\x1f\x8b" else file


def _largest(sizes: dict[str, int], path: str) -> str:
    text = {name: size for name, size in sizes.items() if name.endswith((".tsv", ".tsv.gz", ".txt", "Data"))}
    if not text:
        raise InputError(f"{path} holds no .tsv or .tsv.gz; give the archive as it was published, or the file in it")
    return max(text, key=lambda name: text[name])


def _first_file(tar: tarfile.TarFile, path: str) -> Any:
    """A tar can only be read from its beginning, so its first file of more than a page is taken for the data."""
    for member in tar:
        if member.isfile() and (member.size > 10_000 or member.name.endswith("CriteoSearchData")):
            inner = tar.extractfile(member)
            if inner is not None:
                return inner
    raise InputError(f"{path} holds no file CriteoSearchData; give the archive as it was published, or the file in it")


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

"""Whole files: a file, or the files of a folder that belong together, all new or all as they were."""

import ctypes
import os
import re
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from attributary.errors import InputError, TryAgain

AT_FDCWD, EXCHANGE = -100, 2  # of Linux; renamex_np of macOS calls the same RENAME_SWAP
MARK = ".attributary-"

TEMPORARY = re.compile(r"\.attributary-[0-9a-f]{16}\.tmp")
YOUNG = 60  # seconds in which a temporary file may not have its lock yet

written: list[str] = []  # the files that this process has put in their place, for whoever is to say so


def save(content: str | bytes, path: str) -> None:
    """Writes to a file, or to standard output if the path is `-`; an interrupted write leaves the old file."""
    with output_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def output_file(path: str) -> Iterator[BinaryIO]:
    """A whole file, or standard output if the path is `-`; an InputError where it cannot be written."""
    try:
        if path == "-":
            written.append("a part to standard output")
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        else:
            with whole_file(path) as file:
                yield file
    except BrokenPipeError:  # the reader has had enough, as `head` does
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` once all is written; until then, and if not, the old one stays.

    It is written beside the old one, synced and renamed; what processes that were killed left there is removed. Where
    `path` is a link, what it points to is replaced; where it is no ordinary file, such as /dev/null, it is written to
    as it is.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        written.append(path)
        with open(target, "wb") as device:
            yield device
        return
    folder = os.path.dirname(target)
    beside = os.path.join(folder, f".attributary-{secrets.token_hex(8)}.tmp")
    if folder not in _swept:
        _swept.add(folder)
        with suppress(OSError):
            for name in filter(TEMPORARY.fullmatch, os.listdir(folder)):
                remove_if_dead(os.path.join(folder, name))
    held = None
    try:
        with open(beside, "xb") as file:
            held = os.dup(file.fileno())
            hold(held)
            if os.path.exists(target):
                os.chmod(beside, os.stat(target).st_mode & 0o7777)
            yield file
        with open(beside, "rb+") as again:  # compressors close the file they write to
            os.fsync(again.fileno())
        os.replace(beside, target)
        written.append(path)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            os.unlink(beside)
        raise
    finally:
        if held is not None:
            os.close(held)
    sync(folder)


_swept: set[str] = set()  # folders that this process has looked into


def hold(handle: int) -> None:
    """Locks a temporary file for as long as this process has it open: whoever can lock it finds it left over."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_if_dead(lock: str, remove: Callable[[str], object] = os.unlink) -> None:
    """Removes a temporary file whose process is gone, or by `remove` what belongs to that file."""
    with suppress(ImportError, OSError):
        import fcntl

        if time.time() - os.stat(lock).st_mtime < YOUNG:
            return
        handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(lock)
        finally:
            os.close(handle)


def sync(folder: str) -> None:
    """Makes the new name last; where folders cannot be synced, the file itself was."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def whole_folder(path: str, names: Collection[str]) -> Iterator[str]:
    """A new folder to write files of these names in, which then take the place of those in `path`, all at once.

    Files of these names that are not written anew go; others in `path` stay as they are. An error or Ctrl-C leaves
    `path` as it was, and so does a process that is killed. The two folders change places in one step where the system
    can do that and nothing else is in `path`. Elsewhere old files go before new ones come: killed in that moment,
    some are missing, but never are files of two runs side by side.
    """
    target = os.path.realpath(path)
    parent = os.path.dirname(target)
    already = len(written)
    with sole_writer(path) as alone:
        place, done = _beside(target, secrets.token_hex(8)), list[str]()
        try:
            os.makedirs(parent, exist_ok=True)
            for left in _others(target) if alone else ():  # by processes that were killed
                _discard(left, names)
            os.mkdir(place)
        except OSError as error:
            reason = "Not a directory" if isinstance(error, FileExistsError) else error.strerror
            raise InputError(f"{path} cannot be made: {reason}; choose another with `output`") from error
        try:
            if os.path.isdir(target):
                os.chmod(place, os.stat(target).st_mode & 0o7777)
            yield place
            with _undisturbed():
                _swap(place, target, names)
                done = [path]
        except BaseException:  # Ctrl-C too
            _discard(place, names)
            raise
        finally:
            written[already:] = [*(each for each in written[already:] if os.path.dirname(each) != place), *done]
        sync(parent)


def was_stopped(path: str) -> bool:
    """Whether a process was killed, or is at work, while it wrote to this folder."""
    return bool(_others(os.path.realpath(path)))


@contextmanager
def sole_writer(path: str) -> Iterator[bool]:
    """Keeps others from writing to a folder or file meanwhile, or raises TryAgain where another process does.

    The lock is an empty file beside it, locked by the system, so that it ends with the process. Gives whether there is
    a lock; some systems and disks have none, nor have addresses. A thread that has it may take it again.
    """
    if "://" in path:
        yield False
        return
    target = os.path.realpath(path)
    holder = (threading.get_ident(), target)
    if holder in _sole_writers:
        yield True
        return
    lock = _beside(target, "lock")
    with suppress(OSError):
        os.makedirs(os.path.dirname(target), exist_ok=True)
    handle = _lock(lock, path)
    _sole_writers.update({holder} if handle is not None else ())
    try:
        yield handle is not None
    finally:
        _sole_writers.discard(holder)
        if handle is not None:
            with suppress(OSError):
                os.unlink(lock)
            os.close(handle)


_sole_writers: set[tuple[int, str]] = set()  # threads, and what they write


def _lock(lock: str, path: str) -> int | None:
    """A lock on a file, which is made for that; None where files cannot be locked."""
    try:
        import fcntl

        while True:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(lock)):
                    return handle
            except FileNotFoundError:  # its last holder has just removed it
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
    except BlockingIOError:
        rule = f"{path} is being written by another process"
        raise TryAgain(f"{rule}; wait for it, or choose another with `output`") from None
    except (ImportError, OSError):
        return None


def _beside(target: str, end: str) -> str:
    """A place on the same disk: beside the folder, or inside it where that is not possible."""
    parent, name = os.path.split(target)
    inside = os.path.isdir(target) and (os.path.ismount(target) or not os.access(parent, os.W_OK))
    return os.path.join(target, MARK + end) if inside else os.path.join(parent, f".{name}{MARK}{end}")


def _swap(place: str, target: str, names: Collection[str]) -> None:
    if not os.path.exists(target):
        os.rename(place, target)
        return
    free = set(os.listdir(target)) <= set(names) and not os.path.samefile(target, os.curdir)
    if free and _exchange(place, target):
        _discard(place, names)
        return
    for name in names:
        with suppress(FileNotFoundError):
            _remove(os.path.join(target, name))
    for name in os.listdir(place):
        os.replace(os.path.join(place, name), os.path.join(target, name))
    os.rmdir(place)
    sync(target)


def _exchange(one: str, other: str) -> bool:
    """Makes two folders change places in one step; whether the system could."""
    try:
        libc, a, b = ctypes.CDLL(None), os.fsencode(one), os.fsencode(other)
        if sys.platform == "darwin":
            return int(libc.renamex_np(a, b, EXCHANGE)) == 0
        return int(libc.renameat2(AT_FDCWD, a, AT_FDCWD, b, EXCHANGE)) == 0
    except (AttributeError, OSError, TypeError):
        return False


def _discard(place: str, names: Collection[str]) -> None:
    """Removes a folder of ours; what is not ours stays, and the folder with it."""
    with suppress(OSError):
        for name in os.listdir(place):
            if name in names or name.startswith(MARK):
                _remove(os.path.join(place, name))
        os.rmdir(place)


def _remove(path: str) -> None:
    """Removes a file, or a folder of ours that Spark wrote as one table."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _others(target: str) -> list[str]:
    parent, name = os.path.split(target)
    others = []
    for folder, begins in ((parent, f".{name}{MARK}"), (target, MARK)):
        with suppress(OSError):
            others += [os.path.join(folder, each) for each in os.listdir(folder) if each.startswith(begins)]
    return [place for place in others if os.path.isdir(place)]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps Ctrl-C waiting for the moment that this takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before: Callable[..., object] | int | None = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)

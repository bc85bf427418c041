"""Tasks of a grid spread over processes, and a store of those that are finished."""

import json
import multiprocessing
import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from threading import Thread
from typing import Any

from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.grid_tasks import GridTask, Row, answer


class Store:
    """Finished results of a grid; with the path of a file, `evaluate` continues after an interruption.

    A line is written and synced for each finished task. The last may be cut off: then its task is done again. A method
    of yours is known by the names of its functions: when they change, give the method another name.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._rows = {} if path is None else _read(path)

    def get(self, key: str) -> list[dict[str, Any]] | None:
        """The rows of a finished task; None if it is not finished."""
        return self._rows.get(key)

    def put(self, key: str, rows: list[dict[str, Any]]) -> None:
        """Keeps the rows of a task."""
        self._rows[key] = rows
        if self._path is None:
            return
        try:
            with open(self._path, "a+b") as file:
                whole = file.tell() == 0 or _ends_a_line(file)
                file.write((b"" if whole else b"\n") + json.dumps([key, rows]).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self._path} cannot be written: {error.strerror}") from error


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    last: bytes = file.read(1)
    return last == b"\n"


def _read(path: str) -> dict[str, list[dict[str, Any]]]:
    by_key = {}
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    key, rows = json.loads(line)
                except ValueError:  # cut off
                    continue
                by_key[key] = rows
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; choose another folder for what is cached"
        ) from error
    return by_key


_CASES: dict[str, Case] = {}  # of this process, by their keys, once they were needed
_FOLDER = ""


def answers(tasks: Sequence[GridTask], cases: dict[str, Case], workers: int) -> Iterator[tuple[GridTask, list[Row]]]:
    """The rows of each task, as they come: in the tasks' order with one worker."""
    if workers <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, answer(task, cases[task.case])
        return
    _refuse_nameless(tasks)
    with tempfile.TemporaryDirectory(prefix="attributary-", ignore_cleanup_errors=True) as folder:
        for key in {task.case for task in tasks}:
            with open(_file(folder, key), "wb") as file:
                pickle.dump(cases[key], file)
        before = set(multiprocessing.active_children())
        # Processes that start afresh: a copy of this one might hold locks of threads that it does not have.
        pool = ProcessPoolExecutor(
            min(workers, len(tasks)), multiprocessing.get_context("spawn"), initializer=_begin, initargs=(folder,)
        )
        try:
            with _uninterrupted():
                futures = {pool.submit(_run, task): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise InputError(
                "a worker process ended early: too little memory, or it could not import a method's functions; "
                "use 1 worker"
            ) from None
        except BaseException:  # Ctrl-C too: what is under way is not waited for
            for worker in set(multiprocessing.active_children()) - before:
                worker.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _refuse_nameless(tasks: Sequence[GridTask]) -> None:
    try:
        pickle.dumps(tasks)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"with several workers, a method's functions must be importable by name ({error}); use 1 worker"
        ) from error


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started in here do not hear Ctrl-C; it is the parent's to hear, and it does afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _file(folder: str, key: str) -> str:
    return os.path.join(folder, f"{key}.pickle")


def _begin(folder: str) -> None:
    global _FOLDER  # noqa: PLW0603
    _FOLDER = folder
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.join,), daemon=True).start()


def _end_with(join: Callable[[], object]) -> None:
    """Ends this process when its parent has ended, which it would not hear of while it waits for work."""
    join()
    os._exit(1)


def _run(task: GridTask) -> list[Row]:
    if task.case not in _CASES:
        with open(_file(_FOLDER, task.case), "rb") as file:
            _CASES[task.case] = pickle.load(file)
    return answer(task, _CASES[task.case])

"""Files that belong together are all new or all old, whenever the process that writes them ends."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attributary import whole_files as module
from attributary.errors import TryAgain
from attributary.whole_files import sole_writer, was_stopped, whole_file, whole_folder, written
from support.effort import first_of

NAMES = ("a.csv", "b.csv", "c.csv")
STEPS = ("rename", "replace", "unlink", "rmdir", "mkdir", "chmod", "fsync")


def fill(folder: Path, words: str, names: tuple[str, ...] = NAMES) -> None:
    with whole_folder(str(folder), NAMES) as place:
        for name in names:
            with whole_file(os.path.join(place, name)) as file:
                file.write(words.encode())


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()} if folder.exists() else {}


def all_of(words: str) -> dict[str, str]:
    return dict.fromkeys(NAMES, words)


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Whether the work, done by a process of its own, was killed before its step of this number."""
    child = os.fork()
    if child == 0:
        count = 0

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **more: Any) -> Any:
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **more)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        module._exchange = counted(module._exchange)
        work()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("foreign", first_of([False, True]), ids=["alone", "beside others"])
@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "moved"])
def test_killed_at_any_step_no_two_runs_are_side_by_side(
    foreign: bool, exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(module, "_exchange", lambda one, other: False)
    folder, others = tmp_path / "run", {"note.txt": "mine"} if foreign else {}
    steps = 0
    while True:
        fill(folder, "old")
        for name, words in others.items():
            (folder / name).write_text(words)
        killed = killed_at(steps + 1, lambda: fill(folder, "new"))
        now = {name: words for name, words in contents(folder).items() if name in NAMES}
        if not killed:
            assert now == all_of("new")
            break
        steps += 1
        assert len(set(now.values())) <= 1, f"step {steps}: {now}"
        if exchange and not foreign:
            assert now in (all_of("old"), all_of("new"))
        assert {name: contents(folder).get(name) for name in others} == others
        fill(folder, "newest")
        assert contents(folder) == all_of("newest") | others
        assert os.listdir(tmp_path) == ["run"] and not was_stopped(str(folder))
    assert steps > 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_an_error_leaves_the_old_files_and_nothing_else(error: type[BaseException], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fill(folder, "old")
    written.clear()

    def fails(path: str) -> None:
        with whole_file(path) as file:
            file.write(b"new")
        raise error

    with pytest.raises(error), whole_folder(str(folder), NAMES) as place:
        fails(os.path.join(place, "a.csv"))
    assert contents(folder) == all_of("old") and os.listdir(tmp_path) == ["run"] and written == []


def test_files_that_are_not_written_anew_go_and_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fill(folder, "old")
    (folder / "note.txt").write_text("mine")
    (folder / "more").mkdir()
    fill(folder, "new", NAMES[:1])
    assert contents(folder) == {"a.csv": "new", "note.txt": "mine"} and (folder / "more").is_dir()


def test_a_new_folder_is_there_in_full_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    with pytest.raises(KeyboardInterrupt), whole_folder(str(folder), NAMES):
        raise KeyboardInterrupt
    assert not folder.exists()
    written.clear()
    fill(folder, "new")
    assert contents(folder) == all_of("new") and written == [str(folder)]


def test_the_folder_that_the_shell_is_in_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "old")
    monkeypatch.chdir(tmp_path)
    before = os.stat(".").st_ino
    fill(Path(), "new")
    assert os.stat(tmp_path).st_ino == before and contents(Path()) == all_of("new")


def held_by_another(folder: Path) -> tuple[int, int]:
    """A process that writes to the folder until it is told otherwise: its id, and the pipe whose end tells it."""
    (told, tell), (says, ready) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        with whole_folder(str(folder), NAMES) as place:
            (Path(place) / "a.csv").write_text("first")
            os.write(ready, b"!")
            os.read(told, 1)
        os._exit(0)
    os.read(says, 1)
    return child, tell


@pytest.mark.parametrize("there", [False, True], ids=["new", "old"])
def test_a_second_process_is_refused_until_the_first_has_ended(there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    if there:
        fill(folder, "old")
    child, tell = held_by_another(folder)
    before = contents(folder)
    with pytest.raises(TryAgain, match="is being written by another process; wait for it, or choose another"):
        fill(folder, "second")
    with pytest.raises(TryAgain), sole_writer(str(tmp_path / "deep" / ".." / "deep" / "run")):
        raise AssertionError
    fill(tmp_path / "deep" / "other", "free")  # beside it
    assert contents(folder) == before
    os.close(tell)
    os.waitpid(child, 0)
    assert contents(folder) == {"a.csv": "first"}
    fill(folder, "second")
    assert contents(folder) == all_of("second") and sorted(os.listdir(tmp_path / "deep")) == ["other", "run"]


def test_a_lock_ends_with_its_process_and_what_that_left_goes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child, tell = held_by_another(folder)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(tell)
    assert was_stopped(str(folder)) and not folder.exists()
    fill(folder, "new")
    assert contents(folder) == all_of("new") and os.listdir(tmp_path) == ["run"]


def test_of_many_that_begin_at_once_one_writes_at_a_time(tmp_path: Path) -> None:
    at_work, most, done, lock = 0, 0, 0, threading.Lock()

    def work() -> None:
        nonlocal at_work, most, done
        for _ in range(50):
            with suppress(TryAgain), sole_writer(str(tmp_path / "run")):
                with lock:
                    at_work, done = at_work + 1, done + 1
                    most = max(most, at_work)
                with sole_writer(str(tmp_path / "run")), lock:  # its own lock does not stop it
                    at_work -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and done > 8 and os.listdir(tmp_path) == []


def test_where_files_cannot_be_locked_folders_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    fill(tmp_path / "run", "new")
    assert contents(tmp_path / "run") == all_of("new")


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    fill(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and contents(tmp_path / "real") == all_of("new")


def test_ctrl_c_while_they_change_places_waits_until_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "run", "old")
    swap = module._swap

    def pressed(*args: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        swap(*args)

    monkeypatch.setattr(module, "_swap", pressed)
    written.clear()
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "run", "new")
    assert contents(tmp_path / "run") == all_of("new") and written == [str(tmp_path / "run")]


LEFT = """
import os, signal, sys
from attributary.whole_files import whole_file
from attributary.logs.duckdb import DuckDB
engine = DuckDB(temp=sys.argv[1])
with whole_file(sys.argv[1] + "/a.txt") as file:
    file.write(b"half")
    print("ready", flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""
NEXT = """
import sys
from attributary.logs.duckdb import DuckDB
from attributary.whole_files import save
save("whole", sys.argv[1] + "/b.txt")
DuckDB(temp=sys.argv[1]).__exit__()
"""


def test_temporary_files_go_with_the_next_run_once_their_process_is_dead(tmp_path: Path) -> None:
    begin = [sys.executable, "-c", LEFT, str(tmp_path)]
    with subprocess.Popen(begin, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (half,), (folder,) = tmp_path.glob(".attributary-*.tmp"), tmp_path.glob("attributary-*")
        for path in (half, folder / "lock"):
            os.utime(path, (0, 0))  # long ago
        subprocess.run([sys.executable, "-c", NEXT, str(tmp_path)], check=True)
        assert half.exists() and folder.exists()  # of a process that lives
        process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL and half.exists() and folder.exists()
    subprocess.run([sys.executable, "-c", NEXT, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == ["b.txt"]

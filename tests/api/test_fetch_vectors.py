"""make vectors: from local repositories, with the folders of the published ones, into the folders that tests read."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fetch_vectors import ORIGINS, Origin, fetch
from vectors import found

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=os.environ | GIT
    )
    return made.stdout.strip()


def published(base: Path, origin: Origin) -> Origin:
    """A repository with a file for each pattern and some others, and a newer commit that is not the named one."""
    folder = base / origin.repository
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for pattern, name in origin.folders:
        for number in (1, 2) if "*" in pattern else (1,):
            file = folder / pattern.replace("*", f"{Path(name).name}{number}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{pattern} {number}")
    (folder / "large.bin").write_text("not asked for")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    commit = git(folder, "rev-parse", "--short=8", "HEAD")
    for file in folder.rglob("*.json"):
        file.write_text("newer")
    git(folder, "commit", "-qam", "two", "--allow-empty")
    return replace(origin, commit=commit)


def test_every_repository_at_its_commit_fills_its_folders(tmp_path: Path) -> None:
    base, folder = tmp_path / "git", tmp_path / "vectors"
    origins = [published(base, origin) for origin in ORIGINS]
    for _ in range(2):  # a second time brings nothing else
        counts = fetch(folder, str(base), origins)
        assert set(counts) == {name for origin in ORIGINS for _, name in origin.folders}
    for origin in ORIGINS:
        for pattern, name in origin.folders:
            files = [file for file in (folder / name).iterdir() if file.name != "GOLDEN_TEST_KEY.json"]
            assert any(file.read_text().startswith(f"{pattern} 1") for file in files), (pattern, files)
    assert not list(folder.glob("*/large.bin")) and not list((folder / ".repositories").rglob("large.bin"))
    assert (folder / "golden-reports" / "GOLDEN_TEST_KEY.json").exists()


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    origin = published(tmp_path / "git", ORIGINS[0])
    odd = replace(origin, folders=(("nowhere/*.json", "x"),))
    with pytest.raises(FileNotFoundError, match="has no file nowhere"):
        fetch(tmp_path / "vectors", str(tmp_path / "git"), [odd])
    with pytest.raises(RuntimeError, match="git clone failed"):
        fetch(tmp_path / "other", str(tmp_path / "none"), [origin])


def test_vectors_are_looked_for_within_the_project_first(tmp_path: Path) -> None:
    within, beside = tmp_path / "vectors", tmp_path / "shared"
    for folder in (beside / "a", beside / "b", within / "a"):
        folder.mkdir(parents=True)
    assert found("a", (within, beside)) == within / "a" and found("b", (within, beside)) == beside / "b"
    assert found("c", (within, beside)) is None

"""Mutated inputs: every parser and command refuses them in a line, and the fuzzer sees it where one does not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import cbor2
import pytest
from fuzz.corpus import SOURCE
from fuzz.mutations import STRUCTURED, mutated

from attributary.api.ara.wire.payload import Contribution, encode

ROOT = Path(__file__).parent.parent


def fuzz(folder: Path, *options: object, program: str = "pass", code: int = 0) -> str:
    """What the fuzzer prints, in a process of its own, since it forks; `program` goes first."""
    start = f"import sys; from fuzz.__main__ import main; {program}; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", start, "--found", str(folder / "found"), *map(str, options)]
    kept = {**os.environ, "FUZZ_CORPUS": str(folder / "corpus")}
    done = subprocess.run(words, cwd=ROOT, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.sweep
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    assert "nothing was found" in fuzz(tmp_path, "--inputs", 50, "--minutes", 60, "--seed", 1)


@pytest.mark.sweep
def test_what_a_parser_must_not_raise_is_found_once_and_seen_again(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for name in ("payload.cbor", "done"):
        (tmp_path / "corpus" / name).write_bytes(encode([Contribution(1, 2)]))
    fails = "from fuzz.targets import *; PARSERS['payload'] = Target(('payload.cbor',), lambda data, path: {}[0])"
    fuzz(tmp_path, "--only", "payload", "--inputs", 9, program=fails, code=1)
    (finding,) = (tmp_path / "found").iterdir()  # nine inputs, raised at one place
    assert "KeyError" in fuzz(tmp_path, "--replay", finding, program=fails, code=1)
    assert "no longer" in fuzz(tmp_path, "--replay", finding, program="from fuzz import targets")


@pytest.mark.parametrize("ending", [".json", ".toml", ".csv", ".cbor", ".bytes"])
def test_the_same_seed_gives_the_same_mutation_and_most_change_something(ending: str) -> None:
    text = json.dumps(SOURCE).encode()
    good = {".json": text, ".cbor": cbor2.dumps(SOURCE), ".toml": b'a = 1\nb = "x"\n', ".csv": b"a,b\n1,2\n"}
    content = good.get(ending, text)
    made = [[mutated(Random(i), ending, content, [text]) for i in range(200)] for _ in "ab"]
    assert made[0] == made[1]
    assert sum(one != content for one in made[0]) > 150
    assert ending not in STRUCTURED or len(set(made[0])) > 100

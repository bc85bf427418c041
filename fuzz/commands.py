"""commands: every command, in forks of a warm process and as processes of their own.

Whatever its input, a command ends with exit code 0, 2, 75 or 77, within the limits of time and memory, without a
traceback. Unless it is 0, every file is as it was before, and standard error has a short message.
"""

import os
import re
import resource
import select
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from random import Random

from attributary.errors import InputError, TryAgain
from fuzz.findings import Finding, bad_words, coded, where
from fuzz.mutations import mutated, odd_text

SECONDS, PATIENCE = 5, 60  # of processor time, and by the clock, since others may use the processor, too
GIGABYTES = 2
ALLOWED = (0, 2, 75, 77)
LOGS = "impressions.parquet conversions.parquet impressions.csv conversions.csv events.csv"
MADE = "@ledger.sqlite.created"  # stands beside the ledger: without it, a copy was restored
QUERY = "--domain @domain.avro --ledger @ledger.sqlite --processes 1 -o out.avro"
TABLE = "denoise --levels campaign,location --value noisy --table"
SMALL = "--epsilon 1 --tau 5 --draws 2 --method equal-unbiased --workers 1 --cache cache -o out.csv"

# The command lines of each command: @ marks what may be mutated; other files stand beside it.
COMMANDS = {
    "init": [
        ("init @impressions.csv @conversions.csv -o out.toml", ""),
        ("init @impressions.parquet @conversions.parquet -o out.toml -q", ""),
        ("init @events.csv -o -", ""),
    ],
    "run": [
        ("run @spec.toml --prior-until 2026-02-02 --threads 1 -o out -q", LOGS),
        ("run @spec_csv.toml --threads 1 --method equal --format csv -o out -q", "@impressions.csv @conversions.csv"),
        ("run @values.toml --threads 1 --method equal -o out", LOGS),
        ("run @one_log.toml --threads 1 --estimator nonnegative -o out -q", "@events.csv"),
        ("run @spec.toml --plan @plan.json --prior @estimates.parquet --threads 1 -o out -q", LOGS),
    ],
    "count": [
        ("count @spec.toml --threads 1 -o out.csv", "@impressions.parquet @conversions.parquet"),
        ("count @spec_csv.toml --threads 1 -q -o out.parquet", "@impressions.csv @conversions.csv"),
        ("count @one_log.toml --threads 1 -o out.csv", "@events.csv"),
        ("count @values.toml --threads 1 --from 2026-02-02 -o out.csv", LOGS),
    ],
    "plan": [
        ("plan @spec.toml --prior @prior.csv -o out.json", ""),
        ("plan @spec.toml --prior @estimates.parquet --method equal -q -o out.json", ""),
        ("plan @spec.toml --tree @tree.parquet --last @plan.json --method equal -o out.json", ""),
        ("plan @w3c.toml --prior @prior.csv -o out.json", ""),
        ("plan @values.toml --prior @values.csv --method leaves -o out.json", ""),
    ],
    "keys": [
        ("keys @plan.json --impressions @impressions.parquet -o out", ""),
        ("keys @plan.json --impressions @impressions.csv -o out -q", ""),
        (
            "keys @w3c.json --impressions @impressions.csv -o out --impression 'campaign=brand,location=Paris' "
            "--conversion day=Monday",
            "",
        ),
        (
            "keys @nodes.json --impression 'campaign=brand,location=Paris' --conversion day=Monday",
            "@nodes.nodes.parquet",
        ),
        ("keys @values.json --impression 'campaign=brand,location=Paris' --conversion day=Monday,value=3", ""),
    ],
    "aggregate": [
        (f"aggregate @plan.json @clear.avro {QUERY}", MADE),
        (f"aggregate @plan.json @clear.json {QUERY} --no-noise", MADE),
        (f"aggregate @plan.json @encrypted.avro --key @private.key {QUERY} --seed 1", MADE),
        (f"aggregate @plan.json @encrypted.jsonl --key @hexadecimal.key {QUERY}", MADE),
    ],
    "denoise": [
        ("denoise @plan.json @summary.avro --tree @tree.parquet -o out.csv", ""),
        ("denoise @w3c.json @w3c_results.json --tree @w3c_tree.parquet -o out.csv", ""),
        ("denoise @plan.json @summary.json --tree @tree.parquet --estimator nonnegative -q -o out.parquet", ""),
    ],
    "denoise-table": [
        (f"{TABLE} @noisy.csv --variance v -o out.csv", ""),
        (f"{TABLE} @noisy.tsv --std 2 --fill --estimator learned -o out.csv", ""),
        (f"{TABLE} @noisy.parquet --noise api:epsilon=1,contribution=9 --whole -o out.arrow", ""),
        ("denoise --table @rollup.csv --noise laplace:interval=low,high@0.9,two-sided,rounded -o out.csv", ""),
        (
            "denoise --table @pivot.csv --noise 'region=laplace:scale=9;store=dlap:rate=1;week=normal:std=9' -o o.csv",
            "",
        ),
        (
            "denoise --table @rollup.csv --suppressed '<5' --empty zero --decimal , --std 9 --prefix d_ -o o.parquet",
            "",
        ),
        (f"{TABLE} @noisy.arrow --variance v --prior @prior.csv --fill -o out.csv", ""),
    ],
    "report": [
        ("report @plan.json @estimates.csv -o out.html", ""),
        ("report @estimates.parquet -o out.html -q", ""),
        ("report @evaluation.csv -o out.html", ""),
        ("report @rollup.csv --std 9 -o out.html", ""),
        ("report @pivot.csv -o out.html -q", ""),
        ("report @estimates.csv --levels campaign,location,day -o out.html", ""),
    ],
    "evaluate": [
        (f"evaluate @spec.toml --counts @counts.parquet {SMALL}", ""),
        (f"evaluate @spec_csv.toml --counts @prior.csv --prior @counts.parquet -q {SMALL}", ""),
        (f"evaluate @values.toml --counts @values.csv {SMALL}", ""),
    ],
    "explore": [
        ("explore @estimates.parquet --no-browser", ""),
        ("explore @plan.json --no-browser", ""),
        ("explore @estimates.csv @before.parquet --no-browser -q", ""),
        ("explore @spec.toml --prior @prior.csv --no-browser", LOGS),
    ],
    "generate": [("generate shop --rows 20 --seed 3 -o out -q", ""), ("generate camb --rows 20 -o out.parquet", "")],
}
WARM = ["numpy", "pyarrow", "pyarrow.csv", "pyarrow.parquet", "pyarrow.compute", "duckdb", "vl_convert"]


@dataclass(frozen=True)
class Case:
    """A command line, and the files it meets."""

    arguments: tuple[str, ...]
    files: dict[str, bytes]
    mutated: tuple[str, ...] | None = None  # the names of those that are; None: it is as a user would have it


def warm() -> None:
    """Imports what commands import, and starts no thread: a fork would not have it."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    for name in WARM:
        import_module(name)
    package = os.path.dirname(import_module("attributary").__file__ or "")
    for folder, _, names in os.walk(package):
        for name in names:
            module = os.path.join("attributary", os.path.relpath(os.path.join(folder, name), package))
            apart = "spark" in name or os.path.basename(folder) == "cluster"  # which starts no process here
            if name.endswith(".py") and not name.startswith("__") and not apart:
                import_module(module.removesuffix(".py").replace(os.sep, "."))


def made(name: str, seed: int, number: int, files: Mapping[str, bytes]) -> Case:
    """The input of a command by its number, of the first ones every other as it is; `process` takes any command."""
    rng = Random(f"{seed} {name} {number}")
    lines = COMMANDS[name if name in COMMANDS else rng.choice(list(COMMANDS))]
    good = number % 2 == 0 and number // 2 < len(lines)
    line, beside = lines[number // 2] if good else rng.choice(lines)
    arguments = shlex.split(line)
    names = [word[1:] for word in (*arguments, *beside.split()) if word.startswith("@")]
    given = {name: files[name] for name in (*names, *(word.lstrip("@") for word in beside.split()))}
    arguments = [word.removeprefix("@") for word in arguments]
    if good:
        return Case(tuple(arguments), given)
    chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2))))
    if not chosen or rng.random() < 0.1:  # an option's value, or one more
        at = rng.randrange(2, len(arguments) + 1)
        odd = odd_text(rng).replace("\0", "\x02").encode(errors="replace").decode()
        arguments[at : at + rng.randrange(2)] = [odd]
        chosen = []
    for file in chosen:
        given[file] = mutated(rng, file, files[file], list(files.values()))
    if rng.random() < 0.5 and (outputs := re.findall(r"-o (out\.\w+)", line)):
        given[outputs[0]] = b"old"
    return Case(tuple(arguments), given, tuple(chosen))


def tried(name: str, seed: int, number: int, case: Case, folder: str) -> Finding | None:
    """What is wrong with how a command ends, if anything; `process` runs it as a process of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for file, content in case.files.items():
        _write(os.path.join(folder, file), content)
    log = folder + ".log"
    code, used = (_process if name == "process" else _fork)(case, folder, log)
    with open(log, encoding="utf-8", errors="replace") as file:
        words = file.read(200_000)
    what = _wrong(code, used, words) or (_touched(case, folder) if code != 0 else "")
    if case.mutated is None and code != 0:
        what = what or f"exit code {code} for a good input: {words.strip()[:60]}"
    if not what:
        return None
    files = coded({name: case.files[name] for name in case.mutated or ()})
    arguments = shlex.join(case.arguments)
    return Finding(name, seed, number, what, f"{arguments}\nexit code {code}\n{words[-20_000:]}", case.arguments, files)


def _fork(case: Case, folder: str, log: str) -> tuple[int, int]:
    """Runs a command in a fork of this process; its exit code (negative: a signal) and its most kilobytes."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with _inside(folder, log):
                code = _run(case.arguments)
        finally:
            os._exit(code)
    return _waited(child)


def _run(arguments: tuple[str, ...]) -> int:
    """Runs a command here; a traceback goes to standard error."""
    from attributary import explore
    from attributary.cli import main

    explore.serve = lambda *given: None  # what explore does at its start is enough
    os.environ["ATTRIBUTARY_DEBUG"] = "1"  # errors come here as they are
    try:
        main.main(list(arguments), prog_name="attributary")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except (InputError, TryAgain) as error:
        sys.stderr.write(f"{where(error)}: not caught\n")
        code = 1
    except BaseException as error:
        sys.stderr.write(f"{where(error)}\n{traceback.format_exc()}")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _process(case: Case, folder: str, log: str) -> tuple[int, int]:
    """The same as a process of its own, as a user starts it."""
    rng = Random(repr(case))
    if case.arguments[0] == "explore":  # it would stay
        return _fork(case, folder, log)
    child = os.fork()
    if child == 0:
        try:
            with _inside(folder, log):
                if rng.random() < 0.2:
                    os.close(0)
                os.execv(sys.executable, [sys.executable, "-m", "attributary.cli", *case.arguments])
        finally:
            os._exit(1)
    return _waited(child)


@contextmanager
def _inside(folder: str, log: str) -> Iterator[None]:
    """In a child: the folder, the limits, and standard streams that are kept."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(HOME=folder, XDG_STATE_HOME=folder, XDG_CACHE_HOME=folder, TMPDIR=folder, COLUMNS="200")
    words = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, target in enumerate((nothing, nothing, words)):
        os.dup2(target, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + 1, SECONDS + 2))
    resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    yield


def _waited(child: int) -> tuple[int, int]:
    watch = os.pidfd_open(child)
    try:
        if not select.select([watch], [], [], PATIENCE)[0]:
            os.killpg(child, signal.SIGKILL)
    finally:
        os.close(watch)
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss


def _wrong(code: int, used: int, words: str) -> str:
    """What is wrong with the end of a command."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"more than {SECONDS} seconds of processor time, or {PATIENCE} by the clock"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if used > GIGABYTES << 20:
        return f"more than {GIGABYTES} GB"
    if code not in ALLOWED:
        first = re.search(r"^\w+ at .*|not yours: \w+.{0,60}|^\w*Error.*", words, re.MULTILINE)
        return f"exit code {code}: {first[0] if first else words.strip()[-200:]}"
    wrong = bad_words(words, printed=True) if code else ""
    return f"exit code {code} with {wrong}: {words.strip()[:60]}" if wrong else ""


def _touched(case: Case, folder: str) -> str:
    """What a command that failed has changed or left."""
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.relpath(os.path.join(path, name), folder)
            with open(os.path.join(path, name), "rb") as opened:
                content = opened.read()
            if file in case.files and content != case.files[file] and "ledger" not in file:
                return f"{case.arguments[0]} failed and changed {file}"
            if file not in case.files and "ledger" not in file and "numba" not in path:
                return f"{case.arguments[0]} failed and left a file that ends in {os.path.splitext(file)[1]}"
    return ""


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)

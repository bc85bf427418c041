"""Mutated inputs for every parser and every command, for some minutes; exit code 1 if anything was found."""

import argparse
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import RawArray
from typing import Any

from fuzz import commands, corpus, targets
from fuzz.findings import Finding, coded, decoded, load, save

NAMES = [*targets.PARSERS, *commands.COMMANDS, "process"]
WEIGHT = dict.fromkeys([*commands.COMMANDS, "process"], 8)  # of a command's time, where a parser's is 1
FEWER = 25  # times fewer inputs for commands, where their number is given
FOUND = os.path.join(os.path.dirname(__file__), "found")
STUCK = 60  # seconds by the clock after which a parser is ended
GIGABYTES = 2


@dataclass(frozen=True)
class Run:
    """What all processes of a run share."""

    seed: int
    inputs: int  # at most, of a parser
    share: float  # seconds of a parser
    files: Mapping[str, bytes]
    figures: Any  # inputs, findings and seconds of each target, in shared memory
    work: str
    found: str

    def end(self, name: str) -> float:
        return time.monotonic() + self.share * WEIGHT.get(name, 1)

    def number(self, name: str) -> int:
        """Of the next input of a target."""
        return int(self.figures_of(name)[0])

    def figures_of(self, name: str) -> list[float]:
        at = 3 * NAMES.index(name)
        return list(self.figures[at : at + 3])

    def note(self, name: str, began: float, finding: Finding | None) -> None:
        """Counts an input, and keeps what was found if it is the first of its kind."""
        at = 3 * NAMES.index(name)
        self.figures[at] += 1
        self.figures[at + 2] += time.monotonic() - began
        if finding is not None and save(finding, self.found, self.work):
            self.figures[at + 1] += 1
            print(f"{name}: {finding.what}\n    {os.path.join(self.found, finding.file)}", flush=True)


def main(given: Sequence[str]) -> int:
    options = _options(given)
    work = tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        os.environ.setdefault("FUZZ_CORPUS", os.path.join(work, "corpus"))
        files = corpus.load(os.environ["FUZZ_CORPUS"])
        if options.replay:
            return _replay(load(options.replay), files, work)
        names = options.only or NAMES
        if not targets.PARSERS.keys() >= set(names):
            commands.warm()
        share = options.minutes * 60 * options.jobs / sum(WEIGHT.get(name, 1) for name in names)
        run = Run(options.seed, options.inputs, share, files, RawArray("d", 3 * len(NAMES)), work, options.found)
        lanes = [_lane(run, names[i :: options.jobs]) for i in range(options.jobs)]
        broken = [lane for lane in lanes if os.waitpid(lane, 0)[1]]
        return _table(run, names) or int(bool(broken))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _options(given: Sequence[str]) -> Any:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all targets together")
    parser.add_argument(
        "--inputs", type=int, default=10**9, help=f"at most, for a parser; {FEWER} times fewer for a command"
    )
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="of the mutations")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--found", metavar="DIR", default=FOUND, help="where findings go")
    parser.add_argument("--replay", metavar="FILE", help="a finding, to see it again")
    return parser.parse_args(given)


def _lane(run: Run, names: list[str]) -> int:
    """A process that gives each of some targets its share of the time, one after the other."""
    lane = os.fork()
    if lane:
        return lane
    code = 1
    gc.freeze()  # forks then do not copy what collecting would touch
    try:
        for name in names:
            folder = os.path.join(run.work, name)
            os.makedirs(folder)
            (_parser if name in targets.PARSERS else _command)(run, name, folder)
            shutil.rmtree(folder, ignore_errors=True)
        code = 0
    except Exception:
        traceback.print_exc()  # a mistake of the fuzzer
    finally:
        os._exit(code)


def _command(run: Run, name: str, folder: str) -> None:
    """Runs a command on one input after the other, each in a fork of this process, which itself starts no thread."""
    end = run.end(name)
    while (began := time.monotonic()) < end and (number := run.number(name)) < max(run.inputs // FEWER, 1):
        case = commands.made(name, run.seed, number, run.files)
        run.note(name, began, commands.tried(name, run.seed, number, case, os.path.join(folder, "case")))


def _parser(run: Run, name: str, folder: str) -> None:
    """Runs a parser in a process of its own, and in another one if it dies of an input."""
    end = run.end(name)
    while (began := time.monotonic()) < end and run.number(name) < run.inputs:
        worker = os.fork()
        if worker == 0:
            code = 1
            try:
                _parse(run, name, end, folder)
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        if ending := _watched(run, worker, name):
            number = run.number(name)
            file, data = targets.made(name, run.seed, number, run.files)
            run.note(name, began, Finding(name, run.seed, number, ending, inputs=coded({file: data})))


def _parse(run: Run, name: str, end: float, folder: str) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
    while (began := time.monotonic()) < end and (number := run.number(name)) < run.inputs:
        file, data = targets.made(name, run.seed, number, run.files)
        run.note(name, began, targets.tried(name, run.seed, number, file, data, folder))


def _watched(run: Run, worker: int, name: str) -> str:
    """Waits for a parser's process; how it died, if it did."""
    last, since = -1, time.monotonic()
    while True:
        done, status = os.waitpid(worker, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code > 0:
                raise RuntimeError(f"the fuzzer made a mistake with {name}")
            return f"ended by {signal.Signals(-code).name}" if code else ""
        if run.number(name) != last:
            last, since = run.number(name), time.monotonic()
        elif time.monotonic() - since > STUCK:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            return f"more than {STUCK} seconds by the clock"
        time.sleep(0.02)


def _table(run: Run, names: list[str]) -> int:
    """Prints what was done, and gives the exit code."""
    print(f"{'target':<16}{'inputs':>10}{'findings':>10}{'inputs a second':>17}")
    for name in names:
        inputs, findings, seconds = run.figures_of(name)
        print(f"{name:<16}{inputs:>10,.0f}{findings:>10,.0f}{inputs / max(seconds, 1e-9):>17,.1f}")
    findings = sum(run.figures_of(name)[1] for name in names)
    print(f"seed {run.seed}; {f'findings are in {os.path.relpath(run.found)}' if findings else 'nothing was found'}")
    return int(findings > 0)


def _replay(finding: Finding, files: Mapping[str, bytes], work: str) -> int:
    """Tries a finding's input again, and prints what becomes of it."""
    inputs, name = decoded(finding), finding.target
    if name in targets.PARSERS:
        ((file, data),) = inputs.items()
        again = targets.tried(name, finding.seed, finding.number, file, data, work)
    else:
        case = commands.made(name, finding.seed, finding.number, files)
        case = commands.Case(finding.arguments, {**case.files, **inputs}, tuple(inputs))
        again = commands.tried(name, finding.seed, finding.number, case, os.path.join(work, "case"))
    print(f"{name}: {again.what}\n{again.details}" if again else f"{name}: no longer; it was: {finding.what}")
    return int(again is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

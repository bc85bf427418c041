"""findings: what went wrong, one file for each place where it was raised, with all that is needed to see it again."""

import base64
import hashlib
import json
import os
import re
import traceback
from dataclasses import asdict, dataclass, field

LONGEST_MESSAGE, MOST_LINES = 1_100, 60


@dataclass(frozen=True)
class Finding:
    """What a target did with an input that it must not do."""

    target: str
    seed: int
    number: int  # of the input
    what: str  # a line: the same for findings that are alike
    details: str = ""  # a traceback, or what was printed
    arguments: tuple[str, ...] = ()  # of a command
    inputs: dict[str, str] = field(default_factory=dict)  # by name, in base64

    @property
    def file(self) -> str:
        return f"{self.target}-{hashlib.sha256(self.what.encode()).hexdigest()[:10]}.json"


def save(finding: Finding, folder: str, seen: str) -> bool:
    """Writes a finding to a folder, unless `seen`, a folder of this run, has one like it; says whether it did."""
    try:
        os.close(os.open(os.path.join(seen, finding.file), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, finding.file), "w", encoding="utf-8") as file:
        json.dump(asdict(finding), file, indent=1)
    return True


def load(path: str) -> Finding:
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    return Finding(**found | {"arguments": tuple(found["arguments"])})


def coded(inputs: dict[str, bytes]) -> dict[str, str]:
    """Inputs as they stand in a finding."""
    return {name: base64.b64encode(content).decode() for name, content in inputs.items()}


def decoded(finding: Finding) -> dict[str, bytes]:
    return {name: base64.b64decode(content) for name, content in finding.inputs.items()}


def where(error: BaseException) -> str:
    """An error by its type and the last place in the package that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "attributary" in frame.filename] or list(frames)
    last = ours[-1]
    return f"{type(error).__name__} at {last.filename.rpartition('attributary/')[2]}:{last.lineno} in {last.name}"


def bad_words(words: str, printed: bool = False) -> str:
    """What is wrong with a message, if anything: it is a line or a few, none of them long; and printable if printed."""
    lines = words.rstrip("\n").split("\n")
    if not words.strip():
        return "no message"
    if "Traceback (most recent call last)" in words:
        return "a traceback"
    if max(map(len, lines)) > LONGEST_MESSAGE:
        return "a message of more than a thousand characters"
    if len(lines) > MOST_LINES:
        return "a message of many lines"
    return "a message that cannot be printed" if printed and re.search(r"[\x00-\x09\x0b-\x1f\x7f]", words) else ""

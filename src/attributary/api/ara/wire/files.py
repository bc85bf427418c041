"""files: the files that names, patterns and folders stand for."""

import os
from collections.abc import Sequence
from glob import glob, has_magic

from attributary.errors import InputError

ENDINGS = (".avro", ".json", ".jsonl", ".ndjson")


def files(given: Sequence[str], what: str) -> list[str]:
    """The files, each once, in order; of a folder those that end like Avro or JSON. Messages call them `what`."""
    found: dict[str, None] = {}
    for name in given:
        if os.path.isdir(name):
            inside = sorted(os.path.join(name, file) for file in os.listdir(name) if file[0] not in "._")
            paths = [path for path in inside if path.lower().endswith(ENDINGS) and os.path.isfile(path)]
            empty = f"the folder {name} has no file that ends in {', '.join(ENDINGS)}"
        elif has_magic(name) and not os.path.exists(name):
            paths, empty = (
                sorted(path for path in glob(name, recursive=True) if os.path.isfile(path)),
                f"no file is {name}",
            )
        else:
            paths, empty = [name] if os.path.exists(name) else [], f"there is no file {name}"
        if not paths:
            raise InputError(f"{empty}; give the files of {what}")
        found.update(dict.fromkeys(paths))
    return list(found)

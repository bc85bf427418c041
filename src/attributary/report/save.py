"""Save: a page or a chart becomes a file, whole or not at all."""

from attributary.errors import InputError
from attributary.tables.whole_file import standard_output, whole_file


def save(content: str | bytes, path: str) -> None:
    """Writes to a file, or to standard output if the path is `-`; an interrupted write leaves the old file."""
    data = content.encode() if isinstance(content, str) else content
    if path == "-":
        out = standard_output()
        out.write(data)
        out.flush()
        return
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error

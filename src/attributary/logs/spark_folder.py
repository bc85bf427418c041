"""spark_folder: a folder that a cluster writes frames to, whole or absent, on this machine's disk or at an address."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Self

from attributary.errors import InputError
from attributary.logs.spark import spark_errors
from attributary.whole_files import MARK, whole_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class SparkFolder:
    """A new folder, not yet in its place: an address that Spark writes to."""

    session: "SparkSession"
    address: str

    @classmethod
    def of(cls, session: "SparkSession", folder: str) -> Self:
        """The folder of this name, on this machine's disk or at an address."""
        return cls(session, folder.rstrip("/") if "://" in folder else "file://" + os.path.abspath(folder))

    def uri(self, name: str) -> str:
        """Where a frame of this name is written to."""
        return f"{self.address}/{name}"

    def save(self, frame: "DataFrame", name: str) -> int:
        """Writes a frame as a folder of Parquet files, and gives how many rows this machine sees there."""
        frame.write.parquet(self.uri(name))
        rows = int(self.session.read.schema(frame.schema).parquet(self.uri(name)).count())
        if not rows and not frame.isEmpty():
            raise InputError(f"{name} is not where the workers wrote it; give a folder that all machines see")
        return rows

    def write(self, name: str, text: str) -> None:
        """Writes a text file."""
        stream = self._system.create(self._path(self.uri(name)), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of this name."""
        return bool(self._system.exists(self._path(self.uri(name))))

    def not_of_spark(self, name: str) -> str:
        """A file in the folder of this name that Spark does not write; nothing where there is none."""
        path = self._path(self.uri(name))
        if not self._system.exists(path) or not self._system.getFileStatus(path).isDirectory():
            return ""
        there = [str(status.getPath().getName()) for status in self._system.listStatus(path)]
        return next((file for file in there if not file.startswith(("part-", "_", "."))), "")

    def move(self, names: Collection[str], target: "SparkFolder") -> None:
        """Puts the files of these names in the place of those that another folder has."""
        for name in names:
            self._system.delete(self._path(target.uri(name)), True)
        for name in names:
            if self.exists(name) and not self._system.rename(self._path(self.uri(name)), self._path(target.uri(name))):
                raise InputError(f"{target.uri(name)} cannot be written; choose another folder with `output`")
        self.remove()

    def remove(self) -> None:
        """Removes the folder and all that is in it."""
        self._system.delete(self._path(self.address), True)

    def _path(self, address: str) -> Any:
        java: Any = self.session._jvm
        return java.org.apache.hadoop.fs.Path(address)

    @property
    def _system(self) -> Any:
        return self._path(self.address).getFileSystem(self.session._jsc.hadoopConfiguration())


def save_frame(session: "SparkSession", frame: "DataFrame", output: str) -> int:
    """Writes a frame as a folder of Parquet files, whole or not at all, and gives how many rows it has.

    It takes the place of a file of this name, and of a folder that Spark wrote; any other one is refused.
    """
    parent, name = os.path.split(output.rstrip("/"))
    if other := SparkFolder.of(session, parent).not_of_spark(name):
        raise InputError(f"{output} is a folder that holds {other}; give a new name")
    with spark_errors(output), spark_folder(session, parent or ".", (name,)) as place:
        return place.save(frame, name)


@contextmanager
def spark_folder(session: "SparkSession", folder: str, names: Collection[str]) -> Iterator[SparkFolder]:
    """A folder to write frames and files of these names in, which then take the place of those that `folder` has.

    An error leaves `folder` as it was. At an address, old ones go before new ones come: stopped in that moment, some
    are missing.
    """
    if "://" not in folder:
        with whole_folder(folder, names) as local:
            yield SparkFolder.of(session, local)
        return
    target = SparkFolder.of(session, folder)
    place = SparkFolder(session, target.uri(MARK + token_hex(8)))
    try:
        yield place
        place.move(names, target)
    except BaseException:  # Ctrl-C too
        place.remove()
        raise

"""arrow: pyarrow, loaded when it is first used, so that commands and `import attributary` start without it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import compute as pc
    from pyarrow import csv, feather, ipc, parquet
else:

    class _Loaded:
        """A module in the place of which this stands until something of it is asked for."""

        def __init__(self, name: str) -> None:
            self.__name__ = name

        def __getattr__(self, attribute: str) -> Any:
            module = import_module(self.__name__)
            self.__dict__.update(vars(module))
            return getattr(module, attribute)

    pa = _Loaded("pyarrow")
    pc, csv, feather, ipc, parquet = map(
        _Loaded, ["pyarrow.compute", "pyarrow.csv", "pyarrow.feather", "pyarrow.ipc", "pyarrow.parquet"]
    )

__all__ = ["csv", "feather", "ipc", "pa", "parquet", "pc"]

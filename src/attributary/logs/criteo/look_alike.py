"""look_alike: a generated dataset in Parquet, which is attributed already."""

from attributary.errors import InputError
from attributary.logs.criteo.dataset import Dataset
from attributary.logs.criteo.table import quoted_path


def look_alike(path: str, of: Dataset) -> str:
    """SQL for the rows of a Parquet file that says it is a look-alike of the dataset."""
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_schema(path).metadata or {}
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, ArrowException) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error
    kind = metadata.get(b"kind", b"").decode()
    if kind != of.name:
        says = f"a look-alike of {kind}" if kind else "none"
        raise InputError(
            f"in Parquet only look-alikes of {of.name} can be read, which `attributary generate {of.name}` writes; "
            f"{path} is {says}"
        )
    return f"SELECT * FROM read_parquet({quoted_path(path)})"

"""dataset: what is known of a published file before it is opened."""

from typing import Literal, NamedTuple

from attributary.errors import InputError
from attributary.logs.criteo import camb, csscl

Name = Literal["csscl", "camb"]


class Dataset(NamedTuple):
    name: str
    file: str  # what the publisher calls it
    columns: dict[str, str]  # in the file's order, with their SQL types
    header: bool  # whether the file must begin with their names
    measured: str  # SQL over the attributed table, for these figures
    published: dict[str, int]


DATASETS = {
    part.NAME: Dataset(part.NAME, part.FILE, part.COLUMNS, part.HEADER, part.MEASURED, part.PUBLISHED)
    for part in (csscl, camb)
}


def dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise InputError(f"the published datasets are {' and '.join(DATASETS)}; got {name!r}")
    return DATASETS[name]

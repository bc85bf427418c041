"""Reports as browsers send them, made by tests."""

from collections.abc import Iterable, Sequence
from typing import Any

from attributary.api.ara.wire import avro, encryption
from attributary.api.ara.wire.aggregatable_report import Report, build
from attributary.api.ara.wire.avro_blocks import Damaged
from attributary.api.ara.wire.payload import Contribution
from attributary.api.ara.wire.shared_info import SharedInfo
from attributary.errors import InputError

PRIVATE = bytes(range(32))
HOUR = 1_234_486_800


def info(number: int = 0, **members: Any) -> SharedInfo:
    """The shared info of the report of that number; each has an hour and an id of its own."""
    return SharedInfo(
        **{
            "report_id": f"00000000-0000-4000-8000-{number:012x}",
            "reporting_origin": "https://report.test",
            "scheduled_report_time": HOUR + 3600 * number,
            "attribution_destination": "https://conversion.test",
            "source_registration_time": 1_234_483_200,
            **members,
        }
    )


def report(number: int, contributions: Sequence[tuple[int, ...]], sealed: bool = False, **members: Any) -> Report:
    """A report of (key, value) or (key, value, filtering id), in the clear or encrypted for PRIVATE."""
    public = encryption.public_key(PRIVATE) if sealed else None
    return build([Contribution(*row) for row in contributions], info(number, **members), public)


def read_reports(path: str) -> list[Report]:
    """The reports of an Avro file; an InputError where one is damaged."""
    (file,), made = avro.named_files(path, "reports"), []
    for row in avro.rows_or_damage(file, [at for at, _, _ in avro.report_blocks(file)]):
        if isinstance(row, Damaged):
            raise InputError(str(row))
        payload, key_id, text = row
        made.append(Report(text.decode(errors="replace"), payload, key_id.decode(errors="replace")))
    return made


def batch(rows: Iterable[Sequence[tuple[int, ...]]], **options: Any) -> list[Report]:
    return [report(number, contributions, **options) for number, contributions in enumerate(rows)]

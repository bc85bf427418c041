"""attributed: a published dataset, or a look-alike, as one row per impression with its conversion, if it has one."""

from typing import Any, Literal, NamedTuple, get_args

from attributary.errors import InputError
from attributary.logs.criteo import camb, csscl
from attributary.logs.criteo.dataset import Name, dataset
from attributary.logs.criteo.figures import Figure, figures
from attributary.logs.criteo.look_alike import look_alike
from attributary.logs.criteo.refused import refused
from attributary.logs.criteo.table import table
from attributary.logs.criteo.text import check_whole

Expect = Literal["published", "any"]
UnknownDelay = Literal["keep", "drop", "first"]


class Attributed(NamedTuple):
    sql: str  # for one row per impression; the connection can run it again and again
    figures: list[Figure]  # what the file holds, next to what was published


def attributed(
    connection: Any,
    path: str,
    name: Name,
    expect: Expect = "published",
    unknown_delay: UnknownDelay = "keep",
) -> Attributed:
    """The attributed table of a published file; the whole file is read once to check it.

    csscl: partner, country, device, age_group, time, user, conversion, delay, amount.
    camb:  campaign, cat1, cat8, time, user, conversion, delay; click, click_pos, click_nb, conversion_id and
           conversion_time of every impression that led to a conversion; conversion and delay at the last touch only.

    Times and delays are in seconds, `conversion` is 0 or 1, and the label of a missing value is `missing`. `path` is
    the file as published, in its archive or out of it, or a look-alike in Parquet. Unless any file is expected, its
    figures must be the published ones. `unknown_delay`: a sale without a delay stays a conversion without one (keep),
    is none (drop), or has delay 0 (first).
    """
    of = dataset(name)
    if expect not in get_args(Expect):
        raise InputError(f"expect is {' or '.join(get_args(Expect))}; got {expect!r}")
    if unknown_delay not in get_args(UnknownDelay):
        raise InputError(f"unknown_delay is one of {', '.join(get_args(UnknownDelay))}; got {unknown_delay!r}")
    with refused(path):
        if path.endswith((".parquet", ".pq")):
            published, sql = None, look_alike(path, of)
        else:
            published = table(connection, path, of)
            if expect == "any":
                check_whole(path)
            sql = (csscl.ATTRIBUTED if name == "csscl" else camb.LAST_CLICK).format(published=published)
        found = figures(connection, sql, of)
    wrong = [str(figure) for figure in found if not figure.agrees]
    if expect == "published" and wrong:
        if published:
            check_whole(path)
        raise InputError(
            f"{path} is not {of.file} as published: {', '.join(wrong)}; give that file, or expect any for a part or a "
            "look-alike of it"
        )
    if name == "csscl":
        sql = csscl.UNKNOWN_DELAY[unknown_delay].format(attributed=sql)
    elif published and found[-1].found > 0:  # conversions without clicks
        sql = camb.LAST_TOUCH.format(published=published)
    return Attributed(sql, found)

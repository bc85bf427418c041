"""profile: the published figures by which a look-alike is judged, measured in any attributed table.

    >>> profile(connection, attributed(connection, "CriteoSearchData", "csscl").sql, "csscl")    # doctest: +SKIP

Figures that grow with the log are scaled to the published number of rows.
"""

from typing import Any, NamedTuple

from attributary.logs.criteo.answers import Answer
from attributary.logs.criteo.camb_questions import CAMB
from attributary.logs.criteo.csscl_questions import CSSCL
from attributary.logs.criteo.dataset import Name, dataset

ROUNDING = 1e-9
QUESTIONS = {"csscl": CSSCL, "camb": CAMB}


class Measured(NamedTuple):
    answer: Answer
    found: float
    share: float  # of the published number of rows

    @property
    def agrees(self) -> bool:
        """Whether the figure is the published one, within its tolerance and four standard errors."""
        room = ROUNDING + self.answer.tolerance + 4 * self.answer.error / self.share**0.5
        return bool(abs(self.found / self.answer.published - 1) <= room)


def profile(connection: Any, attributed: str, name: Name) -> list[Measured]:
    """All published figures of a dataset, as they are in an attributed table, given as SQL."""
    rows = connection.sql(f"SELECT COUNT(*) FROM ({attributed})").fetchall()[0][0]
    share = rows / dataset(name).published["rows"]
    measured = []
    for question in QUESTIONS[name]:
        found = connection.sql(question.sql.format(log=f"({attributed})", scale=f"({1 / share!r})")).fetchall()
        values = [value for row in found for value in row][: len(question.answers)]
        values += [0] * (len(question.answers) - len(values))
        measured += [Measured(a, float(value), share) for a, value in zip(question.answers, values, strict=True)]
    return measured

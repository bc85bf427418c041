"""What comes to a Spark driver: the rows of everything that is collected."""

from typing import Any

import pytest


def rows_collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each frame that comes to the driver from now on."""
    from pyspark.sql.classic.dataframe import DataFrame

    sizes: list[int] = []
    for name in ("toArrow", "collect", "toPandas"):
        was = getattr(DataFrame, name)

        def told(frame: DataFrame, was: Any = was) -> Any:
            answer = was(frame)
            sizes.append(len(answer))
            return answer

        monkeypatch.setattr(DataFrame, name, told)
    return sizes

"""Report: a plan, estimates and an evaluation → one page that works offline.

    >>> page(ReportInputs.of(plan, {"count": estimate})).html     # of values in memory
    >>> page(read(["shop/run"])).html                             # of files, or of a folder that `run` wrote

    >>> series_page(attributary.periods("weeks")).html            # of periods: did it change, or is it noise?

A `Page` holds its charts, too; `to_file` draws one as a file of its own.
"""

from attributary.report.charts import Chart, to_file
from attributary.report.inputs import read
from attributary.report.page import Page, ReportInputs, page
from attributary.report.series_page import series_page
from attributary.whole_files import save

__all__ = ["Chart", "Page", "ReportInputs", "page", "read", "save", "series_page", "to_file"]

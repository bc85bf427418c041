"""Report: plan, estimates and evaluation → one page that works offline."""

from attributary.report.chart import Chart, to_png, to_svg
from attributary.report.inputs import ReportInputs, read
from attributary.report.page import Page, page, save

__all__ = ["Chart", "Page", "ReportInputs", "page", "read", "save", "to_png", "to_svg"]

"""Report: plan, estimates and evaluation → one page that works offline."""

from attributary.report.given import Given, read
from attributary.report.page import Page, page
from attributary.report.save import save
from attributary.report.theme import Chart, to_png, to_svg

__all__ = ["Chart", "Given", "Page", "page", "read", "save", "to_png", "to_svg"]

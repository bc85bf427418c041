"""Attributary: hierarchical conversion counts under differential privacy that add up."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attributary import budget, noise, prior, rmsre
    from attributary.api import aggregate
    from attributary.changes import compare, periods
    from attributary.denoising import Estimate, estimate_noise
    from attributary.denoising.denoise import denoise
    from attributary.measurements import Measurements
    from attributary.pipeline.check_table import check_table
    from attributary.pipeline.denoise_table import denoise_table
    from attributary.pipeline.draft_spec import draft_spec
    from attributary.pipeline.run import run
    from attributary.pipeline.table_form import recognise
    from attributary.plan import Plan, make_plan, what_if
    from attributary.prior import Prior
    from attributary.spec import Spec
    from attributary.tree import Tree

__all__ = [
    "Estimate",
    "Measurements",
    "Plan",
    "Prior",
    "Spec",
    "Tree",
    "aggregate",
    "budget",
    "check_table",
    "compare",
    "denoise",
    "denoise_table",
    "draft_spec",
    "estimate_noise",
    "make_plan",
    "noise",
    "periods",
    "prior",
    "recognise",
    "rmsre",
    "run",
    "what_if",
]

__version__ = "0.1.0"

HOME = {
    "api": ("aggregate",),
    "changes": ("compare", "periods"),
    "denoising": ("Estimate", "denoise", "estimate_noise"),
    "measurements": ("Measurements",),
    "pipeline.check_table": ("check_table",),
    "pipeline.denoise_table": ("denoise_table",),
    "pipeline.draft_spec": ("draft_spec",),
    "pipeline.run": ("run",),
    "pipeline.table_form": ("recognise",),
    "plan": ("Plan", "make_plan", "what_if"),
    "prior": ("Prior",),
    "spec": ("Spec",),
    "tree": ("Tree",),
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is asked for: a command that needs no arrays starts without them."""
    home = next((module for module, names in HOME.items() if name in names), None)
    if home is not None:
        return getattr(import_module(f"attributary.{home}"), name)
    if name in __all__:
        return import_module(f"attributary.{name}")
    raise AttributeError(f"module 'attributary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

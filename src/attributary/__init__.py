"""Attributary: hierarchical conversion counts under differential privacy that add up."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attributary import noise, rmsre
    from attributary.denoising import Estimate, denoise
    from attributary.measurements import Measurements
    from attributary.tree import Tree

__all__ = ["Estimate", "Measurements", "Tree", "denoise", "noise", "rmsre"]

__version__ = "0.1.0"

HOME = {
    "Estimate": "attributary.denoising",
    "Measurements": "attributary.measurements",
    "Tree": "attributary.tree",
    "denoise": "attributary.denoising",
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is asked for: a command that needs no arrays starts without them."""
    if name in HOME:
        return getattr(import_module(HOME[name]), name)
    if name in __all__:
        return import_module(f"attributary.{name}")
    raise AttributeError(f"module 'attributary' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

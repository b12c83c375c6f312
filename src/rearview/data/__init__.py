"""From a file or frame to batches: read, check, split, scale, window; and the catalogue of benchmark data sets."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rearview.data.panel import Finding, Layout, Panel
    from rearview.data.panel_reader import load
    from rearview.data.read_options import ReadOptions
    from rearview.data.step import Step

__all__ = ["Finding", "Layout", "Panel", "ReadOptions", "Step", "load"]
_HOMES = dict.fromkeys(("Finding", "Layout", "Panel"), "panel")
_HOMES |= {"ReadOptions": "read_options", "Step": "step", "load": "panel_reader"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"rearview.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rearview.data' has no attribute {name!r}")

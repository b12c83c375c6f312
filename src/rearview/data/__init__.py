"""From a file or frame to batches: read, check, split, scale, window; and the catalogue of benchmark data sets."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rearview.data.panel import Finding as Finding
    from rearview.data.panel import Layout as Layout
    from rearview.data.panel import Panel as Panel
    from rearview.data.panel_reader import load as load
    from rearview.data.read_options import ReadOptions as ReadOptions
    from rearview.data.step import Step as Step

_HOMES = {
    "Finding": "panel",
    "Layout": "panel",
    "Panel": "panel",
    "ReadOptions": "read_options",
    "Step": "step",
    "load": "panel_reader",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"rearview.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rearview.data' has no attribute {name!r}")


__all__ = ["Finding", "Layout", "Panel", "ReadOptions", "Step", "load"]

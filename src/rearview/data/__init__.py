"""From a file or frame to batches: read, check, split, scale, window; and the catalogue of benchmark data sets."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rearview.data.build_panel import load as load
    from rearview.data.panel import Finding as Finding
    from rearview.data.panel import Layout as Layout
    from rearview.data.panel import Panel as Panel
    from rearview.data.step import Step as Step

_HOMES = {"load": "build_panel", "Finding": "panel", "Layout": "panel", "Panel": "panel", "Step": "step"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"rearview.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rearview.data' has no attribute {name!r}")


__all__ = ["Finding", "Layout", "Panel", "Step", "load"]

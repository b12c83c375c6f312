"""From a file or frame to batches: read, check, split, scale, window; and the catalogue of benchmark data sets."""

from typing import TYPE_CHECKING

from rearview.core.registry import import_lazily

if TYPE_CHECKING:
    from rearview.data.panel import Finding, Layout, Panel
    from rearview.data.panel_reader import load
    from rearview.data.read_options import ReadOptions
    from rearview.data.step import Step

__all__ = ["Finding", "Layout", "Panel", "ReadOptions", "Step", "load"]
_HOMES = {"panel": ("Finding", "Layout", "Panel"), "read_options": ("ReadOptions",), "step": ("Step",)}
__getattr__ = import_lazily(__name__, _HOMES | {"panel_reader": ("load",)})

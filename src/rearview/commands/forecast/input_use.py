"""The inputs of a forecast: what kind each is, and which of the models use it."""

from collections.abc import Mapping

from rearview.data.holidays import ANY
from rearview.data.infer.categories import name_origin
from rearview.data.panel import Panel
from rearview.report.forecast.views import InputUse


def list_inputs(panel: Panel, used: Mapping[str, tuple[str, ...]]) -> tuple[InputUse, ...]:
    """Every input of a panel with the models that use it; `used`: model -> inputs."""
    kinds = {name_origin(name, panel.layout): "known in the future" for name in panel.known_names}
    if ANY in kinds:
        kinds[ANY] = "known by the calendar"
    kinds |= dict.fromkeys(panel.input_names, "past values alone")
    kinds |= dict.fromkeys(panel.layout.static, "describes the series")
    return tuple(
        InputUse(name, kind, tuple(model for model, names in used.items() if name in names))
        for name, kind in kinds.items()
    )

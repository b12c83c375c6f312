"""The `list` and `describe` commands."""

from typing import Annotated

from cyclopts import Parameter

from rearview.cli.command import command
from rearview.cli.options import HORIZON, LOOKBACK, DataDir, NetworkSettings
from rearview.cli.parse import FilesOfPattern, gather_files, mechanism, pairs
from rearview.commands.listing import What


@command(name="list")
def list_(what: What, /, *more: FilesOfPattern, data_dir: DataDir = None, results: list[str] | None = None) -> int:
    """List attentions, models, which of them go together (pairs), what goes around models (adapters), datasets,
    experiments, protocols, or published settings by source (presets).

    Args:
        what: attentions, models, adapters, pairs, datasets, experiments, protocols or presets.
        results: Files of rows, or patterns of their names: experiments say how many of their runs these hold.
    """
    from rearview.commands.listing import list_command

    return list_command(what, data_dir, gather_files("list", results, more))


@command()
def describe(
    name: str,
    /,
    *,
    channels: int = 7,
    lookback: Annotated[int, Parameter(name=LOOKBACK)] = 336,
    steps: Annotated[int, Parameter(name=("--steps", *HORIZON))] = 96,
    attention: str = "",
    settings: NetworkSettings = "",
) -> int:
    """Describe an attention, model, adapter, data set, protocol, source of presets or experiment with its settings; a
    model with its cost; `training` with every setting that --train takes.

    Args:
        name: Such as softmax, patchtst, training, lift, ETTh1, protocol:published:rbca, presets:rbca or rbca:S5.
        channels: Channels for which a model is counted.
        lookback: Steps of look-back for which a model is counted.
        steps: Steps ahead for which a model is counted.
        attention: A model's attention, such as rbca or rbca:alpha=0.5.
        settings: A model's settings, such as width=64,depth=2.
    """
    from rearview.commands.description import CostSizes, describe_command

    return describe_command(name, CostSizes(channels, lookback, steps, mechanism(attention), pairs(settings, "--set")))

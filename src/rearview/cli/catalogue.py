"""What there is."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rearview.cli.parse import app, mechanism, pairs

What = Literal["attentions", "models", "adapters", "pairs", "datasets", "experiments", "protocols", "presets"]


@app.command(name="list")
def list_(
    what: What,
    /,
    *,
    data_dir: Path | None = None,
) -> int:
    """List what is there: attentions, models, which of them go together (pairs), what goes around models (adapters),
    datasets, experiments, protocols, published settings by source (presets).

    Args:
        what: attentions, models, adapters, pairs, datasets, experiments, protocols or presets.
        data_dir: Where data sets are looked for.
    """
    from rearview.commands.catalogue import list_command

    return list_command(what, data_dir)


@app.command
def describe(
    name: str,
    /,
    *,
    channels: int = 7,
    lookback: Annotated[int, Parameter(name=["--lookback", "--seq-len", "--input-size"])] = 336,
    steps: Annotated[int, Parameter(name=["--steps", "--horizon", "--pred-len", "--h"])] = 96,
    attention: str = "",
    settings: Annotated[str, Parameter(name="--set")] = "",
) -> int:
    """Say what an attention, model, adapter, data set, protocol, source of presets or experiment is, with its
    settings; of a model, its cost too. Of `training`, every setting that --train takes.

    Args:
        name: Such as softmax, patchtst, training, lift, ETTh1, protocol:published:rbca, presets:rbca or rbca:S5.
        channels: Channels that a model is counted with.
        lookback: Steps of look-back that a model is counted with.
        steps: Steps ahead that a model is counted with.
        attention: A model's attention, such as rbca or rbca:alpha=0.5.
        settings: A model's settings, such as width=64,depth=2.
    """
    from rearview.commands.catalogue import Sizes, describe_command

    sizes = Sizes(channels, lookback, steps, mechanism(attention), pairs(settings, "--set"))
    return describe_command(name, sizes)

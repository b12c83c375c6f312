"""What there is."""

from pathlib import Path
from typing import Literal

from rearview.cli.parse import app

What = Literal["attentions", "models", "pairs", "datasets", "experiments", "protocols"]


@app.command(name="list")
def list_(
    what: What,
    /,
    *,
    data_dir: Path | None = None,
) -> int:
    """List what is there: attentions, models, which of them go together (pairs), datasets, experiments, protocols.

    Args:
        what: attentions, models, pairs, datasets, experiments or protocols.
        data_dir: Where data sets are looked for.
    """
    from rearview.jobs.shelves import list_command

    return list_command(what, data_dir)


@app.command
def describe(name: str, /) -> int:
    """Say what an attention, a model, a data set or a protocol is, with its settings.

    Args:
        name: Such as softmax, patchtst, ETTh1 or protocol:published:rbca.
    """
    from rearview.jobs.shelves import describe_command

    return describe_command(name)

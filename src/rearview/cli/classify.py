"""From two files of cases to a tested classifier."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rearview.cli.options import Lookback
from rearview.cli.parse import again, app, mechanism, pairs


@app.command
def classify(
    train: str,
    test: str,
    /,
    *,
    model: str = "patchtst",
    attention: str = "",
    lookback: Lookback = None,
    fill: Literal["last", "linear", "mean", "zero"] = "linear",
    validation: float = 0.2,
    out: Path | None = None,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
    labels: str | None = None,
    id_col: str | None = None,
    time_col: str | None = None,
    setting: Annotated[str, Parameter(name="--set")] = "",
    training: Annotated[str, Parameter(name="--train")] = "",
) -> int:
    """Train on one file of cases, test once on another, and write one HTML page that shows how it went.

    Example: rearview classify UWave_TRAIN.ts UWave_TEST.ts --attention toa:kind=relu

    Args:
        train: File of the cases to train on, a part of each class of which picks the best epoch: .ts, or long CSV or
            parquet with an id, a time, a class and a column a channel.
        test: File of the cases to test on, read once.
        model: A network. See `rearview list models`.
        attention: A mechanism, such as softmax or toa:kind=relu. See `rearview list attentions`.
        lookback: Steps the model sees; default: the longest training case. Of longer cases the last steps count.
        fill: What stands where a value is missing.
        validation: Share of each class held out of training to pick the best epoch; 0: none.
        out: Folder for predictions.csv, model/, report.html and run.json; default: rearview-classify-TRAIN.
        seed: Fixes every random draw.
        device: auto, cpu or cuda.
        resume: Take up a run that was cut off, from its checkpoint in the out folder.
        labels: Column of a long file with the class; default: label or class.
        id_col: Column of a long file that names the case; default: unique_id, id, case or case_id.
        time_col: Column of a long file with the time; default: ds, time, date, timestamp, step or t.
        setting: Settings of the network, such as width=64,depth=2.
        training: Settings of the training, such as epochs=30,batch=16. See `rearview describe training`.
    """
    from rearview.commands.classify.console import classify_command
    from rearview.commands.classify.job import Job
    from rearview.commands.output_folder import named_after

    request = {
        "model": model,
        "attention": mechanism(attention),
        "lookback": lookback,
        "fill": fill,
        "validation": validation,
        "seed": seed,
        "device": device,
        "settings": pairs(setting, "--set"),
        "training": pairs(training, "--train"),
    }
    reading = {name: given for name, given in (("id_col", id_col), ("time_col", time_col)) if given}
    job = Job(train=train, test=test, resume=resume, request=request, labels=labels, reading=reading)
    return classify_command(job, out or named_after(train, "rearview-classify"), again())

"""The command that finds anomalies."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rearview.cli.parse import again, app, mechanism, missing_marks, pairs, words
from rearview.core.errors import UsageError


@app.command
def detect(
    file: str,
    /,
    *,
    fit: str | None = None,
    model: str = "",
    labels: str | None = None,
    out: Path | None = None,
    lookback: Annotated[int | None, Parameter(name=["--lookback", "--seq-len", "--input-size"])] = None,
    attention: str = "",
    mode: Literal["reconstruct", "forecast"] | None = None,
    threshold: str = "",
    quantile: float | None = None,
    risk: float | None = None,
    seed: int = 0,
    device: str = "auto",
    resume: bool = False,
    freq: str | None = None,
    id_col: str = "",
    time_col: str | None = None,
    channels: str = "",
    drop: str = "",
    sentinels: str = "auto",
    setting: Annotated[str, Parameter(name="--set")] = "",
    training: Annotated[str, Parameter(name="--train")] = "",
) -> int:
    """Find anomalies in a file, and write one HTML page that shows when, how bad, and which channels carry them.

    Example: rearview detect today.csv --fit last-month.csv --labels label

    Args:
        file: CSV or parquet of rows to judge; or an .npz (or three .npy) with train, test and test_label.
        fit: File of ordinary rows to learn from; default: the file itself, with a threshold that bears anomalies.
        model: Folder of a saved detector, which is used as it is; or the name of a network to train.
        labels: Column that marks anomalies by 1; it is never looked at, only compared with.
        out: Folder for anomalies.csv, scores.csv, model/, report.html and run.json; default: rearview-detect-FILE.
        lookback: Rows of a window; default: 100.
        attention: A mechanism, such as softmax or toa:kind=relu. See `rearview list attentions`.
        mode: Score by giving windows back, or by forecasting the next row; default: reconstruct.
        threshold: quantile, pot, robust, or a number; default: quantile, without --fit robust.
        quantile: Share of ordinary rows below the threshold, for quantile (which it asks for); default: 0.995.
        risk: Share of ordinary rows above the threshold, for pot (which it asks for); default: 0.001.
        seed: Fixes every random draw.
        device: auto, cpu or cuda.
        resume: Take up a run that was cut off, from its checkpoint in the out folder.
        freq: The step, such as 15min, h, D; default: inferred.
        id_col: Column (or columns, by commas) that name the series of a long file.
        time_col: The time column.
        channels: Columns to look at, by commas; default: every column of numbers.
        drop: Columns to leave out, by commas.
        sentinels: Values that stand for missing, by commas; auto finds isolated ones such as -9999, none keeps all.
        setting: Settings of the network, such as width=64,depth=2.
        training: Settings of the training, such as epochs=5. See `rearview describe training`.
    """
    from rearview.commands.detect.files import detect_command
    from rearview.commands.detect.rows import Job
    from rearview.commands.output_folder import named_after

    saved = Path(model) if model and (Path(model).is_dir() or len(Path(model).parts) > 1) else None
    request = {
        "model": None if saved is not None or not model else model,
        "attention": mechanism(attention),
        "lookback": lookback,
        "mode": mode,
        "threshold": _threshold(threshold),
        "quantile": quantile,
        "risk": risk,
        "seed": seed,
        "device": device,
        "settings": pairs(setting, "--set") or None,
        "training": pairs(training, "--train") or None,
    }
    reading = {
        "id_col": words(id_col) or None,
        "time_col": time_col,
        "channels": words(channels) or None,
        "drop": words(drop) or None,
        "freq": freq,
        "sentinels": missing_marks(sentinels),
    }
    kept = {name: value for name, value in request.items() if value is not None}
    if saved is not None:
        told = {**kept, **{name: value for name, value in reading.items() if value is not None}}
        unused = [name for name in told if name not in ("seed", "device")]
        if unused:
            raise UsageError(f"--model {model} is used as it was saved; leave out the setting {unused[0]}.")
    job = Job(
        file=file,
        fit=fit,
        model=saved,
        labels=labels,
        resume=resume,
        request=kept,
        reading={name: value for name, value in reading.items() if value is not None},
    )
    return detect_command(job, out or named_after(file, "rearview-detect"), again())


def _threshold(text: str) -> str | float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text

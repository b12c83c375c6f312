"""From a file to a forecast."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rearview.cli import parse
from rearview.cli.options import Horizon, Lookback
from rearview.cli.parse import again, app, mechanism, missing_marks, numbers, pairs, words


@app.command
def forecast(
    file: str,
    /,
    *,
    horizon: Horizon,
    lookback: Lookback = None,
    model: str = "",
    attention: str = "",
    target: str = "",
    level: str = "80,95",
    out: Path | None = None,
    seed: int = 0,
    device: str = "auto",
    freq: str | None = None,
    resume: bool = False,
    windows: int | None = None,
    refit: bool = False,
    season: int | None = None,
    future: str | None = None,
    known: str = "",
    id_col: str = "",
    time_col: str | None = None,
    target_col: str | None = None,
    together: bool = False,
    drop: str = "",
    sentinels: str = "auto",
    loss: str = "mse",
    intervals: Literal["conformal", "quantile", "none"] = "conformal",
    transform: Literal["none", "log1p"] = "none",
    nonnegative: bool = False,
    setting: Annotated[str, Parameter(name="--set")] = "",
    training: Annotated[str, Parameter(name="--train")] = "",
) -> int:
    """Train, backtest beside naive baselines, forecast, and write one HTML page that shows it all.

    Example: rearview forecast sales.csv --horizon 28 --target store_1,store_2 --level 80,95

    Args:
        file: CSV (comma, semicolon, tab; gz) or parquet: wide (a time column, then numbers) or long (unique_id, ds, y).
        horizon: Steps to forecast.
        lookback: Steps the model sees; default: from the data's length, step and season.
        model: One or several networks, by commas; default: chosen from the data. See `rearview list models`.
        attention: A mechanism, such as softmax or linear:eps=1e-5. See `rearview list attentions`.
        target: Columns of a wide file to forecast, by commas; the others are inputs.
        level: Levels of the intervals in percent, by commas.
        out: Folder for forecast.csv, backtest.csv, model/, report.html and run.json; default: rearview-FILE.
        seed: Fixes every random draw.
        device: auto, cpu or cuda.
        freq: The step, such as 15min, h, D, B, W, MS, ME; default: inferred.
        resume: Take up a run that was cut off, from its checkpoints in the out folder.
        windows: Backtest windows; default: as many as fit, five at most; 0: none.
        refit: Train afresh at every backtest window.
        season: Steps of a season; default: from the step.
        future: File with the known inputs of the steps to forecast.
        known: Columns known in the future, by commas.
        id_col: Column (or columns, by commas) that name the series of a long file.
        time_col: The time column.
        target_col: The column to forecast in a long file.
        together: Align the series of a long file as channels of one.
        drop: Columns to leave out, by commas.
        sentinels: Values that stand for missing, by commas; auto finds isolated ones such as -9999, none keeps all.
        loss: What a point forecast minimises: mse, mae, huber (huber:delta=2) or fredf (fredf:time_share=0.3).
        intervals: From held-out residuals, from learned quantiles, or none.
        transform: log1p trains on the logarithm of 1 + y.
        nonnegative: Cut forecasts and bounds off at 0.
        setting: Settings of the network, such as width=64,depth=2.
        training: Settings of the training, such as epochs=30,batch=64. See `rearview describe training`.
    """
    request = {
        "attention": mechanism(attention),
        "level": numbers(level, "--level"),
        "seed": seed,
        "device": device,
        "season": season,
        "loss": parse.loss(loss),
        "intervals": intervals,
        "transform": transform,
        "nonnegative": nonnegative,
        "settings": pairs(setting, "--set"),
        "training": pairs(training, "--train"),
    }
    reading = {
        "target": words(target) or None,
        "known": words(known) or None,
        "id_col": words(id_col) or None,
        "time_col": time_col,
        "target_col": target_col,
        "together": together or None,
        "drop": words(drop) or None,
        "freq": freq,
        "sentinels": missing_marks(sentinels),
    }
    _check_readable(file)
    from rearview.commands.forecast.console import forecast_command
    from rearview.commands.forecast.job import Job
    from rearview.commands.output_folder import named_after

    job = Job(
        file=file,
        horizon=horizon,
        models=words(model),
        lookback=lookback,
        windows=windows,
        refit=refit,
        future=future,
        resume=resume,
        request=request,
        reading={name: value for name, value in reading.items() if value is not None},
    )
    return forecast_command(job, out or named_after(file), again())


@app.command
def predict(
    model: Path,
    file: str,
    /,
    *,
    future: str | None = None,
    level: str = "",
    out: Path | None = None,
    device: str = "auto",
) -> int:
    """Forecast what follows the rows of a file with a saved model, without training.

    Example: rearview predict rearview-sales/model new.csv --out next.csv

    Args:
        model: Folder of a saved model.
        file: New rows, in the layout the model was trained on.
        future: File with the known inputs of the steps to forecast.
        level: Levels of the intervals in percent, by commas; default: those of the model.
        out: CSV to write; default: standard output.
        device: auto, cpu or cuda.
    """
    if model.is_dir():
        _check_readable(file)
    from rearview.commands.forecast.console import predict_command

    return predict_command(model, file, future, numbers(level, "--level"), out, device)


@app.command
def demo(*, out: Path = Path("demo"), horizon: Horizon = 48, seed: int = 0) -> int:
    """Run the main job on a generated data set: train, backtest, forecast, report; about two minutes on two cores.

    Args:
        out: Folder for the data and the results.
        horizon: Hours to forecast.
        seed: Fixes the data and every random draw.
    """
    from rearview.commands.forecast.console import demo_command

    return demo_command(out, horizon, seed, again())


def _check_readable(file: str) -> None:
    """Refuse what is no table before torch is imported, which takes a while."""
    from rearview.data.io.files import column_names

    column_names(file)

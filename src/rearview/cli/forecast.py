"""The `forecast`, `predict` and `demo` commands."""

import time
from pathlib import Path

from rearview.cli.command import command
from rearview.cli.options import Horizon, Out, Overwrite
from rearview.cli.parse import command_line, numbers, pairs, words
from rearview.cli.spec_options import Given, pick, pick_reading, takes
from rearview.estimators.forecast.spec import ForecasterOptions, ForecastSpec
from rearview.estimators.options import TextKeywords

MOST_USED = ("horizon", "target", "known", "future", "level", "model", "quick", "time_limit", "id_col", "out")


@command(dry_run=True)
@takes(ForecasterOptions, leave_out=("model", "calendar", "fill", "alias", "progress"), first=MOST_USED)
def forecast(
    given: Given,
    file: str,
    /,
    *more: str,
    model: str = "",
    time_limit: float | None = None,
    quick: bool = False,
    threads: int | None = None,
    members: bool = False,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: bool = False,
    windows: int | None = None,
    refit: bool = False,
    future: str | None = None,
) -> int:
    """Backtest statistical models and networks, forecast with their best combination, and show it on one HTML page.

    Example: rearview forecast sales.csv --horizon 28 --target store_1,store_2 --level 80,95

    Args:
        file: CSV (comma, semicolon, tab; gz), parquet, Arrow, JSON lines, Excel, a folder of such files, or - for
            standard input: wide (a time column, then numbers) or long (unique_id, ds, y).
        more: Further files; each is a series.
        model: auto (the default), or one or several by commas: networks (see `rearview list models`), or ets, theta,
            mstl and ridge, members of auto; those alone, beside naive baselines.
        time_limit: Seconds for the whole command, about; default: 180 for auto, none for networks that are named.
        quick: Nothing that trains on the file: statistics, linear models, and the network that came with its weights,
            where this build has them; seconds instead of minutes.
        threads: Threads of the processor to use; default: all cores.
        members: Write the forecasts of the members of auto to forecast.csv, too, each in a column of its name.
        out: Folder for forecast.csv, backtest.csv, model/, report.html, summary.md and run.json; default:
            rearview-FILE.
        resume: Take up a run that was cut off, from its checkpoints in the out folder.
        windows: Backtest windows; default: as many as fit, five at most; 0: none.
        refit: Train afresh at every backtest window.
        future: File with the known inputs of the steps to forecast.
    """
    started = time.perf_counter()
    from rearview.commands.run_files import default_folder
    from rearview.data.io.files import name_files
    from rearview.data.panel_reader import open_source

    spec, reading = pick(ForecastSpec, given), pick_reading(given)
    # What is no table is refused before torch is imported, which takes a while.
    table = open_source([file, *more] if more else file, reading)
    from rearview.commands.forecast.console import forecast_command
    from rearview.commands.forecast.job import Job

    job = Job(
        file=name_files([file, *more]),
        files=(file, *more),
        spec=spec,
        reading=reading,
        table=table,
        models=words(model),
        windows=windows,
        refit=refit,
        future=future,
        resume=resume,
        time_limit=time_limit,
        quick=quick,
        threads=threads,
        members=members,
        started=started,
    )
    return forecast_command(job, out or default_folder(file), command_line(), overwrite=overwrite)


@command()
@takes(TextKeywords)
def predict(
    given: Given,
    model: Path,
    file: str,
    /,
    *,
    future: str | None = None,
    what_if: str | None = None,
    page: Out = None,
    level: str = "",
    members: bool = False,
    out: Out = None,
    device: str = "auto",
) -> int:
    """Use a saved model on a new file, without training: forecast what follows its rows, judge them, or tell its cases
    apart, whichever the model was made for; the answer is a CSV table.

    Example: rearview predict rearview-sales/model new.csv --out next.csv

    Args:
        model: Folder of a saved forecaster, detector or classifier, or of the run that made it.
        file: New rows or cases, in the layout the model was trained on; - for standard input.
        future: File with the known inputs of the steps to forecast.
        what_if: What changes, such as promo=0,price=2.5, or a file like that of --future; forecasts as planned and as
            changed are written, and their difference.
        page: HTML page that draws what the change makes.
        level: Levels of the intervals in percent, by commas; default: those of the model.
        members: Write the forecasts of a portfolio's members, too, each in a column of its name.
        out: CSV to write; default: standard output.
        device: auto, cpu or cuda.
    """
    if model.is_dir() and not file.casefold().endswith((".ts", ".npz", ".npy")):
        from rearview.data.io.files import column_names

        column_names(file, sheet=given.get("sheet"))  # refused before torch is imported
    from rearview.commands.predict.command import predict_command

    changed = pairs(what_if, "--what-if") if what_if and "=" in what_if and not Path(what_if).exists() else what_if
    return predict_command(
        model,
        file,
        future,
        numbers(level, "--level"),
        out,
        device,
        pick_reading(given),
        what_if=changed,
        page=page,
        command=command_line(),
        members=members,
    )


@command()
def demo(*, out: Out = Path("demo"), horizon: Horizon = 48, seed: int = 0, overwrite: Overwrite = False) -> int:
    """Run the main job on a generated data set: train, backtest, forecast, report; about two minutes on two cores.

    Args:
        out: Folder for the data and the results.
        horizon: Hours to forecast.
        seed: Fixes the data and every random draw.
    """
    from rearview.commands.demo import demo_command

    return demo_command(out or Path("demo"), horizon, seed, command_line(), overwrite=overwrite)

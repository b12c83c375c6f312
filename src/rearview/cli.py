"""The command line: parse, call one function, print.

Only the parser is imported here; torch and the rest come with the command that needs them.
"""

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Literal

import cyclopts
from cyclopts import App, Parameter

from rearview import __version__
from rearview.errors import RearviewError, SettingsError, UsageError


def _shown(default: object) -> str | None:
    """Defaults that say something; what is left open is explained in words."""
    return None if default is None or default is False or default == "" else str(default)


app = App(
    name="rearview",
    default_parameter=Parameter(negative="", show_default=_shown),
    version=__version__,
    help="Time series with attention: from a CSV to a forecast in one command.",
    suppress_keyboard_interrupt=False,
    help_epilogue="Examples: rearview demo; rearview forecast sales.csv --horizon 28; rearview describe patchtst",
)

_called: ContextVar[tuple[str, ...]] = ContextVar("called", default=())
"""The arguments of the command that is running."""

Horizon = Annotated[int, Parameter(name=["--horizon", "--pred-len", "--h"])]
Lookback = Annotated[int | None, Parameter(name=["--lookback", "--seq-len", "--input-size"])]


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
    loss: Literal["mse", "mae", "huber"] = "mse",
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
        loss: What a point forecast minimises.
        intervals: From held-out residuals, from learned quantiles, or none.
        transform: log1p trains on the logarithm of 1 + y.
        nonnegative: Cut forecasts and bounds off at 0.
        setting: Settings of the network, such as width=64,depth=2.
        training: Settings of the training, such as epochs=30,batch=64.
    """
    from rearview.jobs.console import forecast_command
    from rearview.jobs.forecast import Job

    request = {
        "attention": _attention(attention),
        "level": _numbers(level, "--level"),
        "seed": seed,
        "device": device,
        "season": season,
        "loss": loss,
        "intervals": intervals,
        "transform": transform,
        "nonnegative": nonnegative,
        "settings": _pairs(setting, "--set"),
        "training": _pairs(training, "--train"),
    }
    reading = {
        "target": _words(target) or None,
        "known": _words(known) or None,
        "id_col": _words(id_col) or None,
        "time_col": time_col,
        "target_col": target_col,
        "together": together or None,
        "drop": _words(drop) or None,
        "freq": freq,
        "sentinels": _sentinels(sentinels),
    }
    job = Job(
        file=file,
        horizon=horizon,
        models=_words(model),
        lookback=lookback,
        windows=windows,
        refit=refit,
        future=future,
        resume=resume,
        request=request,
        reading={name: value for name, value in reading.items() if value is not None},
    )
    folder = out or Path(f"rearview-{Path(file).name.partition('.')[0]}")
    return forecast_command(job, folder, _again())


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
    from rearview.jobs.console import predict_command

    return predict_command(model, file, future, _numbers(level, "--level"), out, device)


@app.command
def demo(*, out: Path = Path("demo"), horizon: Horizon = 48, seed: int = 0) -> int:
    """Run the main job on a generated data set: train, backtest, forecast, report; about two minutes on two cores.

    Args:
        out: Folder for the data and the results.
        horizon: Hours to forecast.
        seed: Fixes the data and every random draw.
    """
    from rearview.jobs.console import demo_command

    return demo_command(out, horizon, seed, _again())


@app.command
def bench(
    *,
    dataset: str,
    model: str,
    horizon: Horizon = 96,
    lookback: Annotated[int, Parameter(name=["--lookback", "--seq-len", "--input-size"])] = 96,
    attention: str = "",
    seed: int = 0,
    data_dir: Path | None = None,
    results: Path = Path("results.csv"),
    device: str = "auto",
    again: bool = False,
    setting: Annotated[str, Parameter(name="--set")] = "",
    training: Annotated[str, Parameter(name="--train")] = "",
) -> int:
    """Run one network on one benchmark data set under the clean protocol and keep one result row.

    Example: rearview bench --dataset ETTh1 --model itransformer --lookback 96 --horizon 96 --data-dir data

    Args:
        dataset: A data set of the catalogue. See `rearview list datasets`.
        model: A network.
        horizon: Steps to forecast.
        lookback: Steps the model sees.
        attention: A mechanism.
        seed: Fixes every random draw.
        data_dir: Where the data sets lie; default: the folder that REARVIEW_DATA names, or ./data.
        results: CSV file for the row; a run that is in it already is not repeated, one that was cut off goes on.
        device: auto, cpu or cuda.
        again: Run even if the results hold this run already.
        setting: Settings of the network, such as width=16,heads=4; default: as published for the data set.
        training: Settings of the training, such as epochs=10; default: as published for the data set.
    """
    from rearview.jobs.console import bench_command

    return bench_command(
        dataset=dataset,
        model=model,
        horizon=horizon,
        lookback=lookback,
        attention=_attention(attention),
        seed=seed,
        data_dir=data_dir,
        results=results,
        device=device,
        resume=not again,
        checkpoint=results.with_suffix(".checkpoints"),
        settings=_pairs(setting, "--set") or None,
        training=_pairs(training, "--train") or None,
    )


@app.command(name="list")
def list_(what: Literal["attentions", "models", "datasets"], /, *, data_dir: Path | None = None) -> int:
    """List what is on the shelf: attentions, models or datasets.

    Args:
        what: attentions, models or datasets.
        data_dir: Where data sets are looked for.
    """
    from rearview.jobs.shelves import list_command

    return list_command(what, data_dir)


@app.command
def describe(name: str, /) -> int:
    """Say what an attention, a model or a data set is, with its settings.

    Args:
        name: Such as softmax, patchtst or ETTh1.
    """
    from rearview.jobs.shelves import describe_command

    return describe_command(name)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for bad input, 2 for usage, 130 for Ctrl-C."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    _called.set(tuple(tokens))
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as problem:
        return _refused(f"{problem}\nTry: rearview --help", UsageError.exit_code)
    except RearviewError as problem:
        return _refused(str(problem), problem.exit_code)
    except KeyboardInterrupt:
        return _refused("Interrupted.", 130)
    except BrokenPipeError:
        return 0
    except OSError as problem:
        place = f": {problem.filename}" if problem.filename else ""
        return _refused(f"{problem.strerror or problem}{place}.", RearviewError.exit_code)
    return code if isinstance(code, int) else 0


def run() -> None:
    """The console script."""
    sys.exit(main())


def _refused(sentence: str, code: int) -> int:
    sys.stderr.write(f"rearview: {sentence}\n")
    return code


def _again() -> str:
    """The command that makes this run again."""
    import shlex

    return shlex.join(["rearview", *_called.get()])


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str, flag: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in _words(text))
    except ValueError:
        raise UsageError(f"{flag} takes numbers separated by commas, such as 80,95; got {text!r}.") from None


def _sentinels(text: str) -> tuple[float, ...] | None:
    """None leaves the reader's own way; an empty list keeps every value."""
    if text == "auto":
        return None
    return () if text == "none" else _numbers(text, "--sentinels")


def _pairs(text: str, flag: str) -> dict[str, Any]:
    """width=64,dropout=0.1 as a mapping with numbers, True, False and None read as such."""
    import ast

    pairs: dict[str, Any] = {}
    for word in _words(text):
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{flag} takes name=value pairs separated by commas; got {word!r}.")
        try:
            pairs[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            pairs[name.strip()] = {"true": True, "false": False, "none": None}.get(value.lower(), value.strip())
    return pairs


def _attention(text: str) -> dict[str, Any] | str | None:
    name, colon, settings = text.partition(":")
    if not text:
        return None
    if colon and not name:
        raise SettingsError(f"--attention needs a name before the colon; got {text!r}.")
    return {"name": name, **_pairs(settings, "--attention")} if colon else name

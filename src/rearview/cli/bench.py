"""Benchmark runs, and the papers' tables beside ours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from rearview.cli import parse
from rearview.cli.parse import app, choices, mechanisms, pairs, part, whole_numbers, words
from rearview.core.errors import UsageError

Horizons = Annotated[str, Parameter(name=["--horizon", "--pred-len", "--h"])]
Lookbacks = Annotated[str, Parameter(name=["--lookback", "--seq-len", "--input-size"])]
NetworkSettings = Annotated[str, Parameter(name="--set")]
TrainingSettings = Annotated[str, Parameter(name="--train")]
TriedSettings = Annotated[list[str] | None, Parameter(name="--try")]


@app.command
def bench(
    *,
    dataset: str,
    model: str,
    horizon: Horizons = "96",
    lookback: Lookbacks = "96",
    attention: str = "",
    seeds: int = 1,
    seed: int = 0,
    protocol: str = "clean",
    presets: str = "",
    loss: str = "",
    data_dir: Path | None = None,
    results: Path = Path("results.csv"),
    device: str = "auto",
    again: bool = False,
    workers: int = 1,
    seconds: float | None = None,
    ray: bool = False,
    setting: NetworkSettings = "",
    training: TrainingSettings = "",
    tried: TriedSettings = None,
    tune: int | None = None,
) -> int:
    """Run any attention x network x data set x horizon x seed and keep a result row of each.

    Example: rearview bench --dataset ETTh1,ETTh2 --model patchtst --attention softmax,rbca --horizon 96,192 --seeds 3

    Args:
        dataset: Data sets of the catalogue (`rearview list datasets`) or files of your own, separated by commas. Of a
            file the first 70 % of rows train, the next 10 % select and the last 20 % test.
        model: Networks, separated by commas.
        horizon: Steps to forecast; several, separated by commas.
        lookback: Steps the model sees; several, separated by commas.
        attention: Mechanisms, separated by commas, or by semicolons where they have settings (softmax; rbca:alpha=1).
        seeds: How many seeds, from --seed on.
        seed: The first seed; it fixes every random draw.
        protocol: How numbers are made. See `rearview describe protocol:clean`.
        presets: Whose published settings. See `rearview list presets`; default: the protocol's.
        loss: What training minimises: mse, mae, huber or fredf, with settings such as fredf:time_share=0.3; default: as
            the protocol says.
        data_dir: Where the data sets lie; default: the folder that REARVIEW_DATA names, or ./data.
        results: CSV file for the rows; a run that is in it already is not repeated, one that was cut off goes on.
        device: auto, cpu or cuda.
        again: Run even if the results hold a run already.
        workers: Runs at once, each in a process of its own.
        seconds: Begin no run after this long.
        ray: Spread the runs over the Ray cluster at hand.
        setting: Settings of the network, such as width=16,heads=4; default: as published for the data set. Of several
            networks those get a setting that have it, and the others are named. What stands around a network is one
            of them: adapters=lift or adapters=[decorrelate,channel_heads], the outermost first.
        training: Settings of the training, such as epochs=10; default: as published for the data set. See `rearview
            describe training`.
        tried: Values to try for settings of mechanism, network or training, such as alpha=0.25|0.5|1; several settings,
            separated by commas or each with a --try of its own, make a grid. Each is trained alike, and the best on
            validation is tested. What has none of these settings is run as it is.
        tune: Draw so many combinations by optuna instead of trying all, the same number for each network and mechanism.
            --try may then have ranges, such as dropout=0..0.5, learning_rate=1e-5..1e-3:log on the logarithmic scale,
            depth=1..4 (of a setting that counts: whole numbers), or with a step, width=64..256:32.
    """
    from rearview.commands.bench import grid_command

    _check_counts(seeds, seconds)
    if tune is not None and tune < 1:
        raise UsageError(f"--tune is {tune}; it must be at least 1.")
    return grid_command(
        datasets=_named(dataset, "--dataset"),
        models=_named(model, "--model"),
        attentions=mechanisms(attention),
        horizons=whole_numbers(horizon, "--horizon"),
        lookbacks=whole_numbers(lookback, "--lookback"),
        seeds=range(seed, seed + seeds),
        plan={
            "protocol": protocol,
            "presets": presets or None,
            "data_dir": data_dir,
            "results": results,
            "device": device,
            "again": again,
        },
        settings=pairs(setting, "--set"),
        training=pairs(training, "--train"),
        workers=workers,
        seconds=seconds,
        loss=part(loss, "--loss"),
        over="ray" if ray else "here",
        tried=_tried(tried),
        trials=tune,
    )


@app.command
def reproduce(
    paper: str,
    /,
    *,
    table: str | None = None,
    dataset: str | None = None,
    horizon: Annotated[int | None, Parameter(name=["--horizon", "--pred-len", "--h"])] = None,
    model: str | None = None,
    attention: str | None = None,
    seeds: int = 1,
    protocol: str | None = None,
    presets: str = "",
    data_dir: Path | None = None,
    results: Path = Path("results.csv"),
    device: str = "auto",
    workers: int = 1,
    seconds: float | None = None,
    compare: bool = False,
    ray: bool = False,
    training: TrainingSettings = "",
    full: bool = False,
    out: Path = Path("results"),
) -> int:
    """Make a paper's table again: ours, published, difference, verdict, time.

    Example: rearview reproduce rbca --table S5 --dataset ETTh1 --horizon 96 --seeds 3

    Three synthetic studies are made the same way: flipflop, harmonic, components. They take --full, --out, --attention
    (an arm, or several), --seeds, --device, --workers, --seconds, --compare and --train (steps, learning_rate ...).

    Of a table of costs the networks are built and counted, which needs no data and trains nothing; milliseconds stand
    beside those that --results holds, a file of benchmarks/scaling.py or benchmarks/train_speed.py.

    Args:
        paper: rbca, caps, toa, mica, prime, rearview for questions of our own, or a synthetic study. See `rearview list
            experiments`.
        table: One table; default: all of the paper.
        dataset: One data set.
        horizon: One horizon.
        model: One network.
        attention: One mechanism.
        seeds: How many seeds.
        protocol: Default: the paper's own; clean is ours.
        presets: Whose published settings. See `rearview list presets`; default: those that the table's numbers rest on,
            which `rearview describe rbca:T1` tells.
        data_dir: Where the data sets lie; default: the folder that REARVIEW_DATA names, or ./data.
        results: CSV file for the rows; what it holds already is not run again. Of a whole paper, rows of classification
            and detection go to files of their own beside it (results-classification.csv).
        device: auto, cpu or cuda.
        workers: Runs at once, each in a process of its own.
        seconds: Begin no run after this long, over all tables.
        compare: Run nothing; compare the rows that are there. Of a synthetic study the page is made from them.
        ray: Spread the runs over the Ray cluster at hand.
        training: Settings of the training on top of the published ones, such as epochs=10; rows tell them.
        full: A synthetic study at its full size, for a GPU; default: a reduced one, minutes on a CPU.
        out: Folder for a synthetic study's rows, curves, figures and page.
    """
    from rearview.bench.synthetic import NAMES
    from rearview.commands.reproduce.command import reproduce_command
    from rearview.commands.reproduce.table_filter import Chosen

    _check_counts(seeds, seconds)
    if paper in NAMES:
        unused = {"--table": table, "--dataset": dataset, "--horizon": horizon, "--model": model}
        others = {"--protocol": protocol, "--presets": presets, "--data-dir": data_dir}
        given = [flag for flag, value in {**unused, **others}.items() if value]
        if given:
            raise UsageError(f"{paper} is a synthetic study and takes no {' or '.join(given)}.")
        from rearview.commands.reproduce.synthetic import synthetic_command

        return synthetic_command(
            paper,
            out=out,
            full=full,
            arms=words(attention or ""),
            seeds=seeds,
            device=device,
            seconds=seconds,
            workers=workers,
            changes=pairs(training, "--train") or None,
            only_show=compare,
            command=parse.again(),
        )
    return reproduce_command(
        Chosen(paper, table, dataset, horizon, attention, model),
        results=results,
        seeds=seeds,
        protocol=protocol,
        presets=presets or None,
        data_dir=data_dir,
        device=device,
        training=pairs(training, "--train") or None,
        workers=workers,
        seconds=seconds,
        only_compare=compare,
        over="ray" if ray else "here",
    )


def _check_counts(seeds: int, seconds: float | None) -> None:
    if seeds < 1:
        raise UsageError(f"--seeds is {seeds}; it must be at least 1.")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"--seconds is {seconds:g}; it must be above 0, or left out where time has no limit.")


def _named(text: str, flag: str) -> tuple[str, ...]:
    """Names separated by commas, at least one."""
    if not (names := words(text)):
        raise UsageError(f"{flag} is {text!r}; it takes one name, or several separated by commas.")
    return names


def _tried(given: Sequence[str] | None) -> dict[str, Any]:
    """Settings to try with their values; a --try that has none is refused."""
    for text in given or ():
        if not words(text):
            raise UsageError(f"--try is {text!r}; it takes settings with values, such as alpha=0.5|1, or is left out.")
    return choices(",".join(given or ()), "--try")

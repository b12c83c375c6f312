"""The `bench`, `ablate`, `reproduce` and `figure` commands."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rearview.cli.command import command
from rearview.cli.options import (
    HORIZON,
    LOOKBACK,
    DataDir,
    Horizons,
    Lookbacks,
    NetworkSettings,
    Out,
    Runs,
    TrainingSettings,
)
from rearview.cli.parse import (
    FilesOfPattern,
    choices,
    command_line,
    gather_files,
    mechanisms,
    names,
    pairs,
    part,
    whole_numbers,
    words,
)
from rearview.commands.sweep import AblationOptions, RunOptions
from rearview.core.errors import UsageError

if TYPE_CHECKING:
    from rearview.bench.runs.tuning import Values


@command(dry_run=True)
def bench(
    *,
    dataset: str,
    model: str,
    horizon: Horizons = "96",
    lookback: Lookbacks = "96",
    attention: str = "",
    protocol: str = "clean",
    seed: int = 0,
    loss: str = "",
    again: bool = False,
    options: Runs = None,
    setting: NetworkSettings = "",
    training: TrainingSettings = "",
    tried: Annotated[list[str] | None, Parameter(name="--try")] = None,
    tune: int | None = None,
) -> int:
    """Run any attention x network x data set x horizon x seed and keep a result row of each.

    Example: rearview bench --dataset ETTh1,ETTh2 --model patchtst --attention softmax,rbca --horizon 96,192 --seeds 3

    Args:
        dataset: Data sets of the catalogue (`rearview list datasets`) or files of your own, separated by commas. Of a
            file the first 70 % of rows train, the next 10 % select and the last 20 % test.
        model: Networks, separated by commas.
        attention: Mechanisms, separated by commas, or by semicolons where they have settings (softmax; rbca:alpha=1).
        protocol: How numbers are made. See `rearview describe protocol:clean`.
        seed: The first seed; it fixes every random draw.
        loss: What training minimises: mse, mae, huber or fredf, with settings such as fredf:time_share=0.3; default: as
            the protocol says.
        again: Run even if the results hold a run already.
        setting: Settings of the network, such as width=16,heads=4; default: as published for the data set. Each network
            gets those that it has, and the others are named. What stands around a network is one of them:
            adapters=lift or adapters=[decorrelate,channel_heads], the outermost first.
        tried: Values to try for settings of mechanism, network or training, such as alpha=0.25|0.5|1; several settings,
            separated by commas or each with its own --try, make a grid. Each is trained alike, and the best on
            validation is tested. What has none of these settings is run as it is.
        tune: Draw so many combinations by optuna instead of trying all, the same number for each network and mechanism.
            --try may then have ranges, such as dropout=0..0.5, learning_rate=1e-5..1e-3:log on the logarithmic scale,
            depth=1..4 (whole numbers for a setting that counts), or with a step, width=64..256:32.
    """
    from rearview.commands.bench import Grid, bench_command

    grid = Grid(
        datasets=names(dataset, "--dataset"),
        models=names(model, "--model"),
        attentions=mechanisms(attention),
        horizons=whole_numbers(horizon, "--horizon"),
        lookbacks=whole_numbers(lookback, "--lookback"),
        seed=seed,
        protocol=protocol,
        loss=part(loss, "--loss"),
        settings=pairs(setting, "--set"),
        training=pairs(training, "--train"),
        tried=_choices(tried or []),
        trials=_draws(tune),
        again=again,
    )
    return bench_command(grid, options or RunOptions())


@command(json=False, dry_run=True)
def ablate(
    *,
    dataset: str,
    model: str,
    horizon: Annotated[str | None, Parameter(name=HORIZON)] = None,
    lookback: Annotated[str | None, Parameter(name=LOOKBACK)] = None,
    attention: str = "",
    protocol: str = "clean",
    seed: int = 0,
    options: Annotated[AblationOptions | None, Parameter(name="*")] = None,
    setting: NetworkSettings = "",
    training: TrainingSettings = "",
    tried: Annotated[list[str] | None, Parameter(name="--try")] = None,
    tune: int | None = None,
) -> int:
    """Hold attention against controls that do not look at what tokens hold: does it earn its place here?

    Example: rearview ablate --dataset ETTh1 --model patchtst --lookback 336 --seeds 5

    Softmax, the five papers' mechanisms where they fit, and the controls zero, identity, uniform, fixed (one learned
    matrix of either sign) and positional (attention by place alone) are trained with the same settings and seeds. The
    best control on validation is the yardstick; every other arm has its difference in test error (accuracy where cases
    are classified, AUC-PR where anomalies are detected) with an interval over seeds, corrected for all comparisons that
    are printed.

    Args:
        dataset: Data sets of one task, separated by commas: sets to forecast of the catalogue or files of your own, as
            for `rearview bench`, sets of the classification archive, or sets of labelled anomalies (`rearview list
            datasets`).
        model: Networks with attention, separated by commas.
        horizon: Steps to forecast, 96 unless given; several, separated by commas.
        lookback: Steps the model sees, 96 unless given, to detect 100; several, separated by commas. Cases to classify
            are read whole.
        attention: Mechanisms to hold against the controls, separated by commas, or by semicolons where they have
            settings; default: softmax, rbca, caps, mica, toa and prime, those that the network can take.
        protocol: How numbers are made. See `rearview describe protocol:clean`.
        seed: The first seed; it fixes every random draw.
        setting: Settings of the network, such as width=16,heads=4; default: as published for the data set.
        tried: Values to try for settings, such as learning_rate=1e-4|1e-3, for every arm alike and chosen on
            validation. For forecasts alone, as is --tune.
        tune: Draw so many combinations by optuna instead of trying all, as many for each arm.
    """
    from rearview.commands.ablate import ablate_command
    from rearview.commands.bench import Grid

    grid = Grid(
        datasets=names(dataset, "--dataset"),
        models=names(model, "--model"),
        attentions=mechanisms(attention) if attention else (),
        horizons=() if horizon is None else whole_numbers(horizon, "--horizon"),
        lookbacks=() if lookback is None else whole_numbers(lookback, "--lookback"),
        seed=seed,
        protocol=protocol,
        settings=pairs(setting, "--set"),
        training=pairs(training, "--train"),
        tried=_choices(tried or []),
        trials=_draws(tune),
    )
    return ablate_command(grid, options or AblationOptions())


@command(json=False, dry_run=True)
def reproduce(
    paper: str,
    /,
    *,
    table: str | None = None,
    dataset: str | None = None,
    horizon: Annotated[str | None, Parameter(name=HORIZON)] = None,
    model: str | None = None,
    attention: str | None = None,
    protocol: str | None = None,
    compare: bool = False,
    options: Runs = None,
    training: TrainingSettings = "",
    full: bool = False,
    tune: bool = False,
    out: Out = Path("results"),
) -> int:
    """Reproduce a paper's table: ours, published, difference, verdict, time.

    Example: rearview reproduce rbca --table S5 --dataset ETTh1 --horizon 96 --seeds 3

    Synthetic studies are made the same way: flipflop, harmonic, operators, components. They take --full, --out,
    --attention (an arm, or several), --seeds, --device, --workers, --seconds, --compare and --train (steps=800 ...).

    For a table of costs the networks are built and counted, which needs no data and trains nothing; milliseconds stand
    beside those in the file of --results, which benchmarks/scaling.py or benchmarks/train_speed.py wrote.

    Args:
        paper: rbca, caps, toa, mica, prime, rearview for questions of our own, or a synthetic study. See `rearview list
            experiments`.
        table: One table; default: all of the paper.
        dataset: Data sets, separated by commas; default, as of the next three: all.
        horizon: Horizons, separated by commas.
        model: Networks, separated by commas.
        attention: Mechanisms by name, separated by commas.
        protocol: Default: the paper's own; clean is ours.
        compare: Run nothing; compare the rows that are there. For a synthetic study, make the page from them.
        tune: Draw by optuna what the paper's authors drew (the gates of MICA that are perceptrons, five times each).
        full: A synthetic study at its full size, for a GPU; default: a reduced one, minutes on a CPU.
        out: Folder for a synthetic study's rows, curves, figures and page.
    """
    from rearview.bench.synthetic import NAMES

    options = options or RunOptions()
    changes = pairs(training, "--train") or None
    if paper in NAMES:
        from rearview.commands.reproduce.study import study_command

        given = {
            "--table": table, "--dataset": dataset, "--horizon": horizon, "--model": model, "--tune": tune,
            "--protocol": protocol, "--presets": options.presets, "--data-dir": options.data_dir,
        }  # fmt: skip
        if flags := [flag for flag, value in given.items() if value]:
            raise UsageError(f"{paper} is a synthetic study and takes no {' or '.join(flags)}.")
        return study_command(
            paper,
            options,
            out=out or Path("results"),
            full=full,
            arms=words(attention or ""),
            changes=changes,
            only_show=compare,
            command=command_line(),
        )
    from rearview.commands.reproduce.command import Selection, reproduce_command

    selection = Selection(
        paper,
        table,
        datasets=() if dataset is None else names(dataset, "--dataset"),
        horizons=() if horizon is None else whole_numbers(horizon, "--horizon"),
        attentions=() if attention is None else names(attention, "--attention"),
        models=() if model is None else names(model, "--model"),
    )
    return reproduce_command(selection, options, protocol=protocol, training=changes, only_compare=compare, tune=tune)


@command(json=False)
def figure(
    name: str,
    /,
    *more: FilesOfPattern,
    dataset: str | None = None,
    training: TrainingSettings = "",
    seed: int = 0,
    results: list[str] | None = None,
    data_dir: DataDir = None,
    device: str = "auto",
    out: Out = Path("figures"),
) -> int:
    """Draw a figure of a paper from our own data, networks or rows: a table, a sentence, a page.

    Example: rearview figure prime:F5 --dataset ETTh1 --train epochs=3

    Attention maps, weights by age and forecasts need networks, which are trained here as published unless --train says
    otherwise; gains, ranks and curves are views of rows (--results) beside the printed numbers; masks and correlations
    need neither.

    Args:
        name: The figure, as `rearview list experiments` names it: prime:F5, rbca:F4, rbca:FS8, caps:paths, mica:F3.
        dataset: Another data set than the paper's.
        seed: Fixes every random draw.
        results: Files of rows, or patterns of their names.
        device: auto, cpu or cuda.
        out: Folder for the page, which has the figure's name.
    """
    from rearview.commands.figure.command import figure_command
    from rearview.commands.figure.drawing import FigureOptions

    options = FigureOptions(
        dataset=dataset,
        training=pairs(training, "--train") or None,
        seed=seed,
        data_dir=data_dir,
        device=device,
        results=gather_files("figure", results, more),
    )
    return figure_command(name, options, out or Path("figures"), command_line())


def _draws(tune: int | None) -> int | None:
    if tune is not None and tune < 1:
        raise UsageError(f"--tune is {tune}; it must be at least 1.")
    return tune


def _choices(texts: list[str]) -> Mapping[str, "Values"]:
    """Settings to try with their values; a --try that has none is refused."""
    for text in texts:
        if not words(text):
            raise UsageError(f"--try is {text!r}; it takes settings with values, such as alpha=0.5|1, or is left out.")
    return choices(",".join(texts), "--try")

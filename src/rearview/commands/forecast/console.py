"""The commands that train and forecast, as a person sees them in a terminal."""

import math
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from rearview.commands.forecast import files
from rearview.commands.forecast.job import Job, Outcome, run
from rearview.commands.forecast.verdict import counted
from rearview.commands.output_folder import check_file, check_folder, replaced
from rearview.core.errors import InputError
from rearview.core.wording import listing
from rearview.data.panel import Panel
from rearview.estimators.forecast.forecaster import Forecaster
from rearview.tasks.plan import Choice
from rearview.train import Line


class Ended(Protocol):
    """What runs of every kind have to say at their end."""

    @property
    def verdict(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def interrupted(self) -> bool: ...


def forecast_command(job: Job, out: Path, command: str) -> int:
    """Run a forecast job, write its files and print what came of it; `command` is how to make the run again."""
    check_folder(out, "forecast")
    console = new_console()
    before = None if job.resume else replaced(out)
    if before is not None:
        console.print(before)
    outcome = run(job, out, progress=Line(), say=lambda sentence: console.print(sentence, style="dim"))
    written = files.write(outcome, out, command)
    _print_choices(console, outcome)
    _print_scores(console, outcome)
    return ended(console, outcome, out, written)


def ended(console: Any, outcome: Ended, out: Path, written: Sequence[Path]) -> int:
    """Print how a run of any kind ended and what it left; returns the command's exit code."""
    console.print(f"\n{outcome.verdict}", style="bold")
    for note in outcome.notes:
        console.print(f"- {note}")
    console.print(f"\nWritten to {out}: {', '.join(path.name for path in written)}")
    if outcome.interrupted:
        kept = any((out / "checkpoints").glob("*.safetensors"))
        console.print(
            f"Interrupted: this is the best model so far{'; --resume takes the run up again' if kept else ''}."
        )
        return 130
    return 0


def demo_command(out: Path, horizon: int, seed: int, command: str) -> int:
    """The main job on generated data."""
    from rearview.data.synthetic.energy import write_demo

    check_folder(out, "forecast")
    out.mkdir(parents=True, exist_ok=True)
    data = write_demo(out / "demo.csv", seed=seed)
    training = {"epochs": 6, "windows_per_epoch": 1280}
    job = Job(
        file=str(data),
        horizon=horizon,
        models=("patchtst",),
        lookback=168,
        windows=5,
        request={"seed": seed, "settings": {"width": 32, "heads": 4, "feed_forward": 64}, "training": training},
    )
    return forecast_command(job, out, command)


def predict_command(
    model: Path, file: str, future: str | None, level: tuple[float, ...], out: Path | None, device: str
) -> int:
    """Forecast new rows with a saved model."""
    from rearview.core.files import write_atomically
    from rearview.estimators.forecast.frames import file_layout, forecast_frame

    if out is not None:
        check_file(out)
    if not model.is_dir():
        wrong = "is a file" if model.exists() else "does not exist"
        raise InputError(f"{model} {wrong}; give the folder of a saved model first, then the file of new rows.")
    forecaster = Forecaster.load(model, device=device)
    panel = _read_as_trained(forecaster, file)
    for finding in panel.findings:
        if finding.kind != "inferred":
            sys.stderr.write(f"{finding.message}\n")
    said, stamps = forecaster.forecast(panel, future=future, level=level or None)
    for note in said.notes:
        sys.stderr.write(f"{note}\n")
    columns = forecast_frame(panel, said, stamps, forecaster.name, layout=file_layout(panel.layout))
    content = files.csv(columns)
    if out is None:
        sys.stdout.write(content.decode())
    else:
        write_atomically(out, content)
        sys.stderr.write(f"Written to {out}\n")
    return 0


def _read_as_trained(forecaster: Forecaster, file: str) -> Panel:
    """New rows; a refusal names the layout they need instead of flags that only a training has."""
    try:
        return forecaster.read_new(file)
    except InputError as problem:
        clauses = re.split(r"(?<=[;.]) ", str(problem))
        kept = list(takewhile(lambda clause: "--" not in clause, clauses))
        if len(kept) == len(clauses):
            raise
        layout, fitted = forecaster.tail.layout, forecaster.fitted
        names = [layout.id_col] if layout.id_col else []
        names += [layout.time_col, *([layout.target_col] if layout.target_col else fitted.columns)]
        wrong = " ".join(kept or [re.sub(r" \(--[^)]*\)", "", clauses[0])]).rstrip(".;")
        raise InputError(
            f"{wrong}. The model was trained on a {layout.form} file with the columns {listing(names)}; bring new rows "
            "in that layout."
        ) from problem


def new_console() -> Any:
    """A terminal to print to."""
    from rich.console import Console

    # File and column names are printed as they are: nothing in them is markup.
    return Console(soft_wrap=True, markup=False, highlight=False, emoji=False)


def _print_choices(console: Any, outcome: Outcome) -> None:
    chosen: dict[str, Choice[object]] = {"model": outcome.model} if outcome.model is not None else {}
    chosen["lookback"] = outcome.lookback
    for result in outcome.chosen:
        if result.forecaster is None:
            continue
        plan = result.forecaster.fitted.plan
        chosen |= plan.sections()["data"] | {"lookback": outcome.lookback}
        chosen |= {f"{result.name} {name}": choice for name, choice in (*plan.model.items(), *plan.training.items())}
    console.print()
    for name, choice in chosen.items():
        console.print(f"{name} = {choice.value}  ({choice.reason})", style="dim")


def _print_scores(console: Any, outcome: Outcome) -> None:
    from rich.table import Table

    scored = [result for result in outcome.results if result.scores is not None]
    if not scored:
        return
    levels = sorted({level for r in scored if r.scores is not None for level in r.scores.coverage})
    title = f"Backtest, {counted(outcome.windows, 'window')} of {counted(outcome.job.horizon, 'step')}"
    table = Table(title=title, title_justify="left")
    table.add_column("model")
    for column in ("MSE", "MAE", "MASE", *(f"in {level:g} %" for level in levels)):
        table.add_column(column, justify="right")
    for result in scored:
        scores = result.scores
        assert scores is not None
        inside = [_or_dash(100 * scores.coverage.get(level, math.nan), ".1f", " %") for level in levels]
        name = f"{result.name} (baseline)" if result.baseline else result.name
        errors = [_or_dash(scores.mse, ".4g"), _or_dash(scores.mae, ".4g"), _or_dash(scores.mase, ".3g")]
        table.add_row(name, *errors, *inside)
    console.print()
    console.print(table)


def _or_dash(number: float, shape: str, unit: str = "") -> str:
    """A number of a table, or a dash for one that does not exist."""
    return "-" if math.isnan(number) else f"{number:{shape}}{unit}"

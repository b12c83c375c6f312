"""The terminal output of the `forecast` command."""

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rearview.commands.console import (
    new_console,
    number_or_dash,
    output,
    print_choices,
    print_dim,
    print_end,
    print_preview,
    print_table,
    progress_stream,
)
from rearview.commands.forecast.files import forecast_columns, write
from rearview.commands.forecast.job import Job, Outcome, plan, run
from rearview.commands.run_files import describe_replaced
from rearview.core.output_folder import OutputFolder, check_folder
from rearview.core.wording import quantity
from rearview.estimators.auto.schedule import Listener
from rearview.estimators.forecast.prediction import Fitted
from rearview.tasks.plan import Choice
from rearview.train import JobLine

if TYPE_CHECKING:
    from rich.console import Console


def forecast_command(job: Job, out: Path, command: str, *, overwrite: bool = False) -> int:
    """Run a forecast job, write its files and print the result; `command` repeats the run."""
    if output.get().dry_run:
        return _preview(job, out, overwrite)
    with OutputFolder.claim(
        out, "forecast", inputs=(*(job.files or (job.file,)), job.future), overwrite=overwrite
    ) as folder:
        return forecast_into(folder, job, command)


def forecast_into(folder: OutputFolder, job: Job, command: str) -> int:
    """The same in a folder that is claimed."""
    out, console = folder.path, new_console()
    replaced = None if job.resume else describe_replaced(out)
    if replaced is not None:
        console.print(replaced)
    spent = 0.0 if job.started is None else time.perf_counter() - job.started
    with JobLine(job.limit, progress_stream(), log=output.get().verbose, spent=spent) as line:

        def say(sentence: str) -> None:
            line.wipe()
            console.print(sentence, style="dim")

        outcome = run(job, out, Listener(line, say, line.stage))
        line.stage("forecast, page and files")
        written = folder.publish(lambda place: write(outcome, place, command), finished=not outcome.interrupted)
    choices: dict[str, Choice[object]] = {} if outcome.model is None else {"model": outcome.model}
    for name, final in outcome.finals.items():
        fitted = final.forecaster.fitted
        if not isinstance(fitted, Fitted):
            continue
        chosen = fitted.plan
        choices |= chosen.sections()["data"] | {"lookback": outcome.lookback}
        choices |= {f"{name} {key}": choice for key, choice in (*chosen.model.items(), *chosen.training.items())}
    console.print()
    print_choices(console, choices)
    _print_scores(console, outcome)
    if outcome.inputs:
        console.print("\nInputs")
    for one in outcome.inputs:
        console.print(f"- {one.sentence}", highlight=False, markup=False)
    return print_end(console, outcome, out, written, {"forecast": forecast_columns(outcome)})


def _preview(job: Job, out: Path, overwrite: bool) -> int:
    """Print what a job would do and write."""
    check_folder(out, "forecast", inputs=(*(job.files or (job.file,)), job.future), overwrite=overwrite)
    planned = plan(job, out, Listener(say=print_dim(new_console())))
    panel, lines = planned.panel, planned.describe()
    facts = {
        "file": job.file,
        "horizon": job.spec.horizon,
        "series": list(panel.ids),
        "targets": list(panel.target_names),
        "rows": len(panel.values),
        "step": str(panel.step),
        "findings": [asdict(finding) for finding in panel.findings],
        "models": list(planned.names),
        "windows": planned.windows,
        "time_limit": job.limit,
        "plan": lines,
    }
    files = ["forecast.csv", *(["backtest.csv"] if planned.windows else []), "model"]
    return print_preview(lines, facts, out, files)


def _print_scores(console: "Console", outcome: Outcome) -> None:
    scored = [(result, result.scores) for result in outcome.results if result.scores is not None]
    if not scored:
        return
    levels = sorted({level for _, scores in scored for level in scores.coverage})
    title = f"Backtest, {quantity(outcome.windows, 'window')} of {quantity(outcome.job.spec.horizon, 'step')}"
    shares = {one.name: one for one in outcome.leaderboard}
    extra = ["weight", "seconds"] if shares else []
    # Errors of columns in unlike units can't be pooled; scaled ones can.
    measures = ["MASE", "RMSSE"] if outcome.panel.targets > 1 else ["MAE", "MASE"] if shares else ["MSE", "MAE", "MASE"]
    heads = [*measures, *(f"in {level:g} %" for level in levels), *extra]
    rows = []
    for result, scores in scored:
        inside = [number_or_dash(100 * scores.coverage.get(level, math.nan), ".1f", " %") for level in levels]
        name = f"{result.name} (baseline)" if result.final is None and not shares else result.name
        errors = [(getattr(scores, name.lower()), ".4g" if name in ("MSE", "MAE") else ".3g") for name in measures]
        share = shares.get(result.name)
        part = ["", ""] if share is None else [f"{100 * share.weight:.0f} %", f"{share.seconds:.1f}"]
        cells = [*(number_or_dash(error, shape) for error, shape in errors), *inside, *(part if shares else [])]
        rows.append([name, *cells])
    print_table(console, title, ["model", *heads], rows, right=heads)

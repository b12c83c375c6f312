"""Parts that `bench`, `ablate` and `reproduce` share: the options of their runs, and the end of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rearview.commands.console import output, progress_stream, say
from rearview.core.errors import InputError, UsageError
from rearview.core.wording import quantity

if TYPE_CHECKING:
    from rearview.bench.rows.row import Facts, RunRow
    from rearview.bench.runs.sweep import Over, Run, SweepPlan
    from rearview.bench.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of benchmark runs; the text below a field is its help on the command line."""

    seeds: int = 1
    """Number of seeds."""
    presets: str = ""
    """Whose published settings. See `rearview list presets`; default: those of the protocol or the table."""
    data_dir: Path | None = None
    """Folder of the data sets; default: the one that REARVIEW_DATA names, or ./data."""
    results: Path = Path("results.csv")
    """CSV file for the rows. A run that it holds is not repeated, one that was cut off goes on. Rows of classification
    and detection of a whole paper go to files beside it (results-classification.csv)."""
    device: str = "auto"
    """auto, cpu or cuda."""
    workers: int = 1
    """Runs at once, each in its own process."""
    seconds: float | None = None
    """Begin no run after this long."""
    ray: bool = False
    """Spread the runs over the Ray cluster at hand."""

    def changed_flags(self) -> list[str]:
        """The flags of training whose values are not the defaults."""
        names = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return [f"--{name.replace('_', '-')}" for name in names if name != "results"]

    def plan(
        self, protocol: str, first_seed: int, *, results: Path, training: "Facts | None" = None, again: bool = False
    ) -> "SweepPlan":
        """The plan of runs with these options, from a seed on."""
        from rearview.bench.runs.sweep import SweepPlan

        return SweepPlan(
            results=results,
            seeds=tuple(range(first_seed, first_seed + self.seeds)),
            protocol=protocol,
            presets=self.presets or None,
            data_dir=self.data_dir,
            device=self.device,
            training=training,
            again=again,
        )

    def obstacle(self, task: "Task", protocol: str) -> str:
        """Why no run of a task can be made under a protocol with these options; empty: some can."""
        if self.ray and task.name != "forecasting":
            return f"--ray spreads runs of forecasting, and runs of {task.name} share a machine: use --workers instead"
        return task.obstacle(protocol)

    def check(self) -> None:
        """Refuse numbers that no sweep can have."""
        if self.seeds < 1:
            raise UsageError(f"--seeds is {self.seeds}; it must be at least 1.")
        if self.workers < 1:
            raise UsageError(f"--workers is {self.workers}; it must be at least 1.")
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"--seconds is {self.seconds:g}; it must be above 0. Omit it for no limit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationOptions(RunOptions):
    """Options of the runs of an ablation; an interval needs several seeds."""

    seeds: int = 5
    """Number of seeds, at least two."""

    def check(self) -> None:
        """Refuse numbers that no ablation can have."""
        RunOptions.check(self)
        if self.seeds < 2:
            raise UsageError(f"--seeds is {self.seeds}; an interval needs at least 2 seeds, better 5.")


def preview(runs: "Sequence[Run]", known: "Sequence[RunRow]", results: Path) -> tuple[list[str], list[str]]:
    """(the runs that a file of rows lacks, by their titles, the lines that a dry run prints); a run that can't be
    resolved is among them, and its line says why."""
    left = [run for run in runs if not run.find_finished(known)]
    lines = [f"would fail: {run.title}: {run.problem}" if run.problem else f"would run: {run.title}" for run in left]
    if len(left) < len(runs):
        lines.append(f"{len(runs) - len(left)} of {quantity(len(runs), 'run')} are in {results} already.")
    end = f"Would write {quantity(len(left), 'row')} to {results}" if left else "Nothing is left to run."
    return [run.title for run in left], [*lines, end]


def make_runs(runs: "Sequence[Run]", plan: "SweepPlan", options: RunOptions, seconds: float | None) -> "list[RunRow]":
    """Make runs as the options say, keep their rows and print progress; no run begins after `seconds`."""
    from rearview.bench.runs.sweep import sweep
    from rearview.train import Line

    over: Over = "ray" if options.ray else "here"
    line = Line(progress_stream(), log=output.get().verbose)
    return sweep(runs, plan, workers=options.workers, seconds=seconds, say=say, over=over, progress=line)


def late_lines(rows: "Sequence[RunRow]", count: int, seconds: float | None) -> list[str]:
    """A line on the runs that `seconds` left no time for; none where time was not limited."""
    from rearview.bench.runs.sweep import describe_unbegun

    return [describe_unbegun(count - len(rows), count)] if seconds is not None and len(rows) < count else []


def exit_code(rows: "Sequence[RunRow]", first: bool) -> int:
    """0, unless every run failed, which the first process alone says."""
    if not rows or any(row.status != "failed" for row in rows):
        return 0
    if not first:
        return InputError.exit_code
    raise InputError(f"Every run failed; the first: {rows[0].problem}")

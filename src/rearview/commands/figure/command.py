"""The `figure` command: draw a figure of a paper from our own data, networks or rows, on a page."""

import time
from collections.abc import Callable
from pathlib import Path

from rearview.bench.papers import catalogue
from rearview.bench.papers.catalogue import Exhibit
from rearview.commands.console import print_lines
from rearview.commands.figure import plain, rows, trained
from rearview.commands.figure.drawing import Drawing, FigureOptions, FigureSpec
from rearview.core.errors import SettingsError, UsageError, collect_warnings, did_you_mean
from rearview.core.output_folder import check_place
from rearview.core.wording import align
from rearview.report.common.page import write
from rearview.report.common.summary import FactList
from rearview.report.results.study import StudySummary

TRAINING = ("--dataset", "--train", "--seed", "--data-dir", "--device")


KINDS: dict[str, tuple[Callable[[FigureSpec, FigureOptions], Drawing], tuple[str, ...]]] = {
    "masks": (plain.draw_masks, ()),
    "correlation": (plain.draw_correlation, ("--dataset", "--data-dir")),
    "maps": (trained.draw_maps, TRAINING),
    "ages": (trained.draw_ages, TRAINING),
    "forecasts": (trained.draw_forecasts, TRAINING),
    "paths": (trained.draw_paths, TRAINING),
    "gains": (rows.draw_gains, ("--results",)),
    "differences": (rows.draw_differences, ("--results",)),
    "ranks": (rows.draw_ranks, ("--results",)),
    "curves": (rows.draw_curves, ("--results", "--dataset")),
    "density": (rows.draw_density, ("--results", "--dataset")),
}
"""Kind of figure -> the function that draws it, and the flags that mean something to it."""


def figure_command(name: str, options: FigureOptions, out: Path, command: str) -> int:
    """Make a figure, print its table and what it shows, and write its page."""
    exhibit = find(name)
    draw, used = KINDS[exhibit.draw["kind"]]
    if flags := options.changed_flags(used):
        has = f"it takes {', '.join(used)}" if used else "it takes none of these options"
        raise UsageError(f"{exhibit.name} has no use for {' and '.join(flags)}; {has}.")
    check_place(out)
    started = time.perf_counter()
    with collect_warnings() as warnings:
        drawing = draw(exhibit.draw, options)
    summary = StudySummary(
        title=f"{exhibit.name}: {exhibit.title}{_spell_place(exhibit, options.dataset)}",
        verdict=drawing.verdict,
        command=command,
        device=options.device if options.device != "auto" else "this machine",
        seconds=time.perf_counter() - started,
        data=FactList((("Figure", exhibit.name), *drawing.facts)),
        settings=drawing.settings or {},
        notes=(*drawing.notes, *warnings),
        tiles=(),
        table=drawing.table,
        figures=drawing.figures,
        diagrams=drawing.diagrams,
    )
    table = [drawing.table.heads, *([cell.text for cell in row] for row in drawing.table.rows)]
    page = write(out / f"{exhibit.name.replace(':', '-')}.html", summary)
    shown = align(table, right=range(1, len(drawing.table.heads)))
    print_lines([*shown, "", drawing.verdict, *drawing.notes, f"Written to {out}: {page.name}"])
    return 0


def _spell_place(exhibit: Exhibit, dataset: str | None) -> str:
    """The data set that a figure was drawn of where its title names another; nothing otherwise."""
    drawn = {name.casefold() for name in exhibit.datasets}
    return f" (here {dataset})" if dataset and drawn and {dataset.casefold()} != drawn else ""


def find(name: str) -> Exhibit:
    """The exhibit of that name, in any case; one that is not drawn says what stands for it."""
    every = catalogue.exhibits()
    exhibit = next((one for one in every if one.name.casefold() == name.casefold()), None)
    if exhibit is None:
        drawn = [one.name for one in every if one.draw]
        raise SettingsError(
            f"There is no figure {name!r}.{did_you_mean(name, drawn)} These can be drawn: {', '.join(drawn)}."
        )
    if not exhibit.draw:
        way = f"`rearview reproduce {exhibit.of.replace(':', ' --table ')}`" if exhibit.of else f"`{exhibit.command}`"
        reason = exhibit.why or f"{way} makes it"
        raise SettingsError(f"{exhibit.name} ({exhibit.title}) is not drawn by this command: {reason}.")
    return exhibit

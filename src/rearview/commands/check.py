"""The `check` command: what would be read of a file and how it would be repaired, without training anything."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rearview.commands.console import print_answer
from rearview.commands.forecast.input_use import list_inputs
from rearview.core.errors import InputError
from rearview.core.wording import listing, plural, quantity
from rearview.data.infer.problems import MessyData, Problem, Repair, number_problems
from rearview.data.infer.timestamps import show_ends
from rearview.data.io.files import name_files
from rearview.data.panel import Panel
from rearview.data.panel_checks import drop_empty_targets, note_ends
from rearview.data.panel_reader import read_panel
from rearview.data.read_options import ReadOptions


@dataclass(frozen=True, slots=True)
class Check:
    """A file as it would be read, or the problems that stand in the way."""

    source: str
    panel: Panel | None
    problems: tuple[Problem, ...]
    command: str
    """What to run next: the forecast, or the check with the flags that settle problems."""

    def facts(self) -> dict[str, object]:
        """The check for a program."""
        facts: dict[str, object] = {"file": self.source, "readable": self.panel is not None}
        if self.panel is not None:
            first, last = show_ends(self.panel)
            facts |= {
                "layout": self.panel.layout.form,
                "time": self.panel.layout.time_col,
                "step": str(self.panel.step),
                "first": first,
                "last": last,
                "rows": len(self.panel.values),
                "series": list(self.panel.ids),
                "targets": list(self.panel.target_names),
                "inputs": list(self.panel.input_names),
                "known": list(self.panel.known_names),
                "static": list(self.panel.layout.static),
                "findings": [asdict(one) for one in self.panel.findings if not isinstance(one, Repair)],
                "repairs": [asdict(one) for one in self.panel.findings if isinstance(one, Repair)],
            }
        return facts | {"problems": [asdict(problem) for problem in self.problems], "command": self.command}

    def lines(self) -> list[str]:
        """The check as a person reads it."""
        if self.panel is None:
            count = len(self.problems)
            lines = [f"{self.source} can't be read as it is: {count} {plural(count, 'problem', 'problems')}."]
            lines += number_problems(self.source, self.problems)
            return [*lines, *(["", "With the flags named above:", f"  {self.command}"] if self.command else [])]
        panel, (first, last) = self.panel, show_ends(self.panel)
        rows = quantity(len(panel.values), "row")
        rows = f"{panel.series:,} series, {rows}" if panel.layout.named_series else rows
        lines = [
            f"{self.source}: {rows}, {panel.step.words()}, from {first} to {last}.",
            f"To forecast: {listing(panel.target_names)}.",
        ]
        lines += [f"Input {one.name}, {one.kind}." for one in list_inputs(panel, {})]
        titles = {"inferred": "Inferred", "repaired": "Repaired", "warning": "To know"}
        for kind, title in titles.items():
            messages = [finding.message for finding in panel.findings if finding.kind == kind]
            lines += [f"{title}:", *(f"  - {message}" for message in messages)] if messages else []
        return [*lines, "", "To run:", f"  {self.command}"]


def check_command(source: str | Sequence[str], options: ReadOptions, arguments: Sequence[str]) -> int:
    """Print what would be read of a source; `arguments` are the files and flags of the command line."""
    check = check_source(source, options, arguments)
    print_answer(check.lines(), check.facts)
    return 0 if check.panel is not None else InputError.exit_code


def check_source(source: str | Sequence[str], options: ReadOptions, arguments: Sequence[str]) -> Check:
    """Read a source as a forecast would, and say what to run next."""
    name = name_files([source] if isinstance(source, str) else source)
    try:
        panel = read_panel(source, options)
        named = options.target is not None or options.target_col is not None
        panel = note_ends(drop_empty_targets(panel, named=named))
    except InputError as error:
        problems = error.problems if isinstance(error, MessyData) else (Problem("file", str(error)),)
        flags = _join_flags(problems)
        return Check(name, None, problems, shlex.join(["rearview", "check", *arguments, *flags]) if flags else "")
    command = shlex.join(["rearview", "forecast", *arguments, "--horizon", str(_likely_horizon(panel))])
    return Check(name, panel, (), command)


def _join_flags(problems: Sequence[Problem]) -> list[str]:
    """The flags that settle problems, each once; several words for missing values are one list."""
    values: dict[str, list[str]] = {}
    for problem in problems:
        words = shlex.split(problem.flag or "")
        # A flag without its value, or one that leaves data out, is for the reader to decide on.
        if words and words[0] != "--drop" and (len(words) > 1 or words == ["--dayfirst"]):
            for word in words:
                if word.startswith("--"):
                    taken = values.setdefault(word, [])
                elif word not in taken:
                    taken.append(word)
    lists = ("--missing",)
    return [
        part
        for flag, words in values.items()
        for part in (flag, ",".join(words if flag in lists else words[:1]))
        if part
    ]


def _likely_horizon(panel: Panel) -> int:
    """Steps that are often asked for: about a season, of days four weeks; a fifth of the rows at most."""
    season = panel.step.season
    wanted = 4 * season if 1 < season <= 7 else season if season > 1 else 10
    return max(1, min(wanted, int(panel.lengths.max()) // 5))

"""The `list` command: names with a line each. What is light to list imports nothing heavy."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from rearview.commands.console import print_answer
from rearview.core.errors import UsageError
from rearview.core.wording import align

What = Literal["attentions", "models", "adapters", "pairs", "datasets", "experiments", "protocols", "presets"]


MOST_MISSING = 4
"""Missing parts of an experiment that its line names."""

Entries = list[dict[str, object]]
"""What is listed, for a program."""


def list_command(what: What, data_dir: Path | None, results: Sequence[str] = ()) -> int:
    """Print what there is of one kind; of experiments also the runs that files of rows hold."""
    if results and what != "experiments":
        raise UsageError(f"--results goes with `rearview list experiments`; rows say nothing of {what}.")
    if what == "datasets":
        lines, entries = _datasets(data_dir)
    elif what == "experiments":
        lines, entries = _experiments(data_dir, results)
    else:
        lines, entries = _pairs() if what == "pairs" else _parts(what)
    print_answer(lines, lambda: {what: entries})
    return 0


def _parts(what: What) -> tuple[list[str], Entries]:
    """(lines, entries) of parts that have a name and a summary each."""
    from rearview import attention, models
    from rearview.bench import presets, protocols
    from rearview.core.installation import install_command
    from rearview.models import adapters

    summaries: dict[What, Callable[[], dict[str, str]]] = {
        "attentions": lambda: {name: attention.summary(name) for name in attention.names()},
        "models": lambda: {name: models.summary(name) for name in (*models.names(), *models.external_names())},
        "adapters": lambda: {name: adapters.summary(name) for name in adapters.names()},
        "presets": lambda: {name: presets.summary(name) for name in presets.names()},
        "protocols": lambda: {name: protocols.get(name).summary for name in protocols.names()},
    }
    parts = summaries[what]()
    entries: Entries = [{"name": name, "summary": summary} for name, summary in parts.items()]
    if what == "protocols":
        return [f"{name}: {summary}" for name, summary in parts.items()], entries
    if what != "models":
        return align(list(parts.items())), entries
    return [
        *align([(name, parts[name]) for name in models.names()]),
        "",
        f"networks of other packages ({install_command('baselines')}):",
        *align([(name, parts[name]) for name in models.external_names()]),
        "",
        f"inputs known in the future (--known) go into: {', '.join(models.KNOWN_INPUTS)}",
    ], [{**entry, "known_inputs": entry["name"] in models.KNOWN_INPUTS} for entry in entries]


def _pairs() -> tuple[list[str], Entries]:
    """(lines, entries) of networks with mechanisms: a table, then why some are refused."""
    from rearview.models import pairs

    matrix = pairs.matrix()
    names = list(dict.fromkeys(pair.attention for pair in matrix))
    rows = [["", *names]]
    for model in dict.fromkeys(pair.model for pair in matrix):
        marks = {pair.attention: "-" if pair.reason else "yes" for pair in matrix if pair.model == model}
        rows.append([model, *(marks[name] for name in names)])
    lines = align(rows)
    for heading, words in (
        ("Refused, and why:", {pair: pair.reason for pair in matrix}),
        ("Possible, with a caution:", {pair: pair.caution for pair in matrix}),
    ):
        sentences = [f"{pair.model} with {pair.attention}: {sentence}" for pair, sentence in words.items() if sentence]
        lines += ["", heading, *sentences] if sentences else []
    return lines, [{**asdict(pair), "fits": not pair.reason} for pair in matrix]


def _datasets(data_dir: Path | None) -> tuple[list[str], Entries]:
    """(lines, entries) of the data sets of every task: their sizes, and whether their files are at hand."""
    from rearview.commands.benchmark_sets import collection
    from rearview.data.datasets import catalogue, detection_sets

    published = "Forecasting, rows x channels:"
    generated = "Forecasting, generated, of the width of the set they are named after; fewer rows: Traffic-standin:2000"
    detection = "Detection, training rows + labelled test rows x channels:"
    classification = (
        "Classification, the sets of the UEA archive that experiments ask for; others are found in the same way:"
    )
    sections: dict[str, dict[str, str]] = {heading: {} for heading in (published, generated, detection, classification)}
    entries: Entries = []
    for task in ("forecasting", "detection", "classification"):
        sets = collection(task)
        here = set(sets.available(data_dir))
        for name in sets.names():
            entry: dict[str, object] = {"name": name, "task": task, "found": name in here}
            mark = "found" if name in here else "missing"
            if task == "forecasting":
                one = catalogue.get(name)
                entry |= {"rows": one.rows, "channels": one.channels, "generated": one.make is not None}
                size = f"{one.rows:>6} x {one.channels:<4}"
                sections[generated if one.make else published][name] = size if one.make else f"{size} {mark}"
            elif task == "detection":
                other = detection_sets.get(name)
                entry |= {"rows": other.train_rows + other.test_rows, "channels": other.channels}
                size = f"{other.train_rows:>6} + {other.test_rows:>6} x {other.channels:<4}"
                sections[detection][name] = f"{size} {mark}"
            else:
                sections[classification][name] = mark
            entries.append(entry)
    width = max(len(str(entry["name"])) for entry in entries)
    lines: list[str] = []
    for heading, sizes in sections.items():
        lines += [*([""] if lines else []), heading, *(f"{name:<{width}}  {size}" for name, size in sizes.items())]
    kept = [entry["found"] for entry in entries if not entry.get("generated")]
    folder = data_dir or os.environ.get("REARVIEW_DATA") or "data"
    end = f"{sum(map(bool, kept))} of {len(kept)} found in {folder}; --data-dir or REARVIEW_DATA names another folder."
    return [*lines, "", end], entries


def _experiments(data_dir: Path | None, results: Sequence[str]) -> tuple[list[str], Entries]:
    """(lines, entries) of the experiments: how many of their runs can be made, and what they are."""
    from rearview.bench import synthetic
    from rearview.bench.papers import catalogue
    from rearview.commands.benchmark_sets import collection
    from rearview.commands.experiments import count_runs, missing_parts

    made, arms = _count_made(results) if results else ({}, {})
    entries: Entries = []
    rows = []
    for table in catalogue.every():
        state, missing = count_runs(table, data_dir, made.get(table.name)), missing_parts(table, data_dir)
        entry: dict[str, object] = {"name": table.name, "state": state, "title": table.title, "missing": missing}
        entries.append(entry | ({"made": made[table.name]} if results else {}))
        rows.append((table.name, state, f"{table.title}{_spell_missing(missing)}"))
    studies = {name: f"generated{arms.get(name, '')}" for name in synthetic.NAMES}
    runs = {name: state for name, state, _ in rows} | studies
    here = {name.casefold() for name in collection("forecasting").available(data_dir)}
    others = []
    for one in catalogue.exhibits():
        absent = [name for name in one.datasets if name.casefold() not in here]
        needs = f", which needs {' and '.join(absent)}; --dataset names another" if absent else ""
        made_by = "data missing" if absent else "by command" if one.command or one.draw else "not run"
        others.append((one.name, runs[one.of] if one.of else made_by, f"{one.title}: {one.source}{needs}"))
    others += [(name, state, f"Synthetic study: rearview reproduce {name}") for name, state in studies.items()]
    entries += [{"name": name, "state": state, "title": title} for name, state, title in others]
    return align([*rows, *others], right=(1,)), entries


def _spell_missing(names: Sequence[str]) -> str:
    """What some runs lack, as the end of a line: the first few names."""
    if not names:
        return ""
    rest = f" and {len(names) - MOST_MISSING} more" if len(names) > MOST_MISSING else ""
    return f"; missing here: {', '.join(names[:MOST_MISSING])}{rest}"


def _count_made(results: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
    """(runs of each experiment, arms of each synthetic study in words) that files of rows hold."""
    from rearview.bench import synthetic
    from rearview.bench.analysis.coverage import count_made
    from rearview.commands.experiments import count_arms
    from rearview.commands.report import list_files, read

    paths = list_files(results)
    studies = count_arms(paths)
    arms: dict[str, set[str]] = {name: set() for name in synthetic.NAMES}
    for name, done in studies.values():
        arms[name] |= done
    every = {name: len({*study.arms(False), *study.arms(True)}) for name in arms for study in (synthetic.get(name),)}
    others = [str(path) for path in paths if path not in studies]
    made = count_made(read(others).rows if others else {})
    return made, {name: f", {len(done)} of {every[name]} arms made" for name, done in arms.items()}

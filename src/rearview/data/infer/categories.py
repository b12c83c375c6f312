"""Columns of text as inputs: known categories become columns of 0 and 1, and what stays the same describes a series.

A column `promo` of the cells flyer, tv and none becomes `promo=flyer` and `promo=tv`: the most frequent of its cells,
or the missing ones, are what the others are compared with. A column that has one value in each series, text or number,
says what kind of series it is.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError, did_you_mean
from rearview.core.wording import listing, name_with_verb
from rearview.data.holidays import ANY, is_holiday
from rearview.data.infer.layout import Roles, is_text
from rearview.data.infer.number_text import MISSING_WORDS, cell_texts, read_numbers
from rearview.data.infer.problems import Problem, Problems
from rearview.data.io.table import Table
from rearview.data.panel import Finding, Layout
from rearview.data.read_options import ReadOptions
from rearview.data.statics import Statics

MOST_LEVELS = 40
IS = "="
"""The separator between a column and one of its categories."""


def name_origin(column: str, layout: Layout) -> str:
    """The column of the caller's data that a column of a panel was made from; of holidays `ANY`."""
    if is_holiday(column):
        return ANY
    return next((name for name, _ in layout.levels if column.startswith(f"{name}{IS}")), column)


def expand_known(table: Table, options: ReadOptions, problems: Problems) -> tuple[Table, ReadOptions, list[Finding]]:
    """The table with columns of 0 and 1 for known columns of text, whose categories the options hold then."""
    levels, known, findings = dict(options.levels), list[str](), list[Finding]()
    for name in options.known:
        if name not in levels and (table.fetch(name).dtype.is_numeric() or not is_text(table, name)):
            known.append(name)
            continue
        codes, words = _read_levels(table, name)
        if name in levels:
            codes = _match(table, name, codes, words, levels[name], problems)
        else:
            levels[name] = tuple(words)
            base = f"{words[0]!r} is what they are compared with" if words[0] else "empty cells are none of them"
            message = f"Column {name!r} has the categories {listing(words[1:])}, each an input of 0 and 1; {base}."
            findings.append(Finding("inferred", "categories", 0, message))
        if len(levels[name]) > MOST_LEVELS:
            message = (
                f"{table.source}, column {name!r} has {len(levels[name]):,} different texts, too many for categories "
                f"({MOST_LEVELS}); gather them into fewer, or leave the column out."
            )
            problems.add(Problem("categories", message, column=name))
            continue
        for place, word in enumerate(levels[name][1:], start=1):
            table = table.add_column(f"{name}{IS}{word}", (codes == place).astype(np.float64), last=True)
            known.append(f"{name}{IS}{word}")
    gone = tuple(name for name in options.known if name not in known)
    options = replace(options, known=tuple(known), drop=(*options.drop, *gone), levels=tuple(levels.items()))
    return table, options, findings


def describe_series(
    table: Table, roles: Roles, codes: NDArray[np.int64], ids: tuple[str, ...], options: ReadOptions
) -> tuple[Statics | None, Roles, ReadOptions, list[Finding]]:
    """What describes the series of a long table, and the roles without these columns.

    Columns are named, or those of a model's training, or all inputs that never change within a series, though they
    differ between series; a text that is another one for each series says nothing.
    """

    def one_each(name: str, cells: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """[series]: the value of a column in each series, NaN where it has none; None where one has two."""
        there = np.isfinite(cells)
        low, high = np.full(len(ids), np.inf), np.full(len(ids), -np.inf)
        np.minimum.at(low, codes[there], cells[there])
        np.maximum.at(high, codes[there], cells[there])
        differ = np.flatnonzero(low < high)
        if len(differ) and name in options.static:
            raise InputError(
                f"{table.source}: column {name!r}, which static (--static) names, changes within series "
                f"{ids[int(differ[0])]!r}; name it as known (--known) where it is known in the future, or leave it out."
            )
        return None if len(differ) else np.where(np.isfinite(low), low, np.nan)

    levels = dict(options.levels)
    names, values, taken = list[str](), list[NDArray[np.float64]](), list[str]()
    trained = bool(options.trained)
    for name in options.static or (() if trained or len(ids) < 2 else roles.inputs):
        if not table.fetch(name).dtype.is_numeric() and (name in levels or is_text(table, name)):
            places, words = _read_levels(table, name)
            kind = one_each(name, np.where(places < 0, np.nan, places))
            tells = 1 < len(words) <= MOST_LEVELS and len(words) < len(ids)
            if kind is None or not (options.static or tells):
                continue
            levels.setdefault(name, tuple(words))
            own = [words[int(place)] if np.isfinite(place) else "" for place in kind]
            for word in levels[name][1:]:
                names.append(f"{name}{IS}{word}")
                values.append(np.array([one == word for one in own], dtype=np.float64))
        else:
            if not options.static and not table.fetch(name).dtype.is_numeric():
                continue  # numbers in text are read, and judged, by the reader of columns
            kind = one_each(name, read_numbers(table, name))
            if kind is None or (not options.static and len(np.unique(kind[np.isfinite(kind)])) < 2):
                continue
            names.append(name)
            values.append(kind)
        taken.append(name)
    if not taken:
        return None, roles, options, []
    roles = replace(roles, inputs=tuple(name for name in roles.inputs if name not in taken))
    which = name_with_verb("Column", taken, "describes", "describe")
    findings = [] if trained else [Finding("inferred", "static", 0, f"{which} the series: one value in each.")]
    options = replace(options, static=tuple(taken), levels=tuple(levels.items()))
    return (
        Statics(tuple(names), np.stack(values, axis=1) if values else np.empty((len(ids), 0))),
        roles,
        options,
        findings,
    )


def _read_levels(table: Table, name: str) -> tuple[NDArray[np.int64], list[str]]:
    """[row] the number of each cell's text, -1 where it is missing, and the texts, the most frequent first.

    Missing cells count as the text "", which comes first where it is there.
    """
    missing = MISSING_WORDS | table.missing
    cells = ["" if cell.lower() in missing else cell for cell in cell_texts(table.fetch(name))]
    words, codes, counts = np.unique(np.array(cells), return_inverse=True, return_counts=True)
    order = np.lexsort((words, -counts, words != ""))
    texts = [str(words[place]) for place in order]
    numbers = np.argsort(order)[codes.reshape(-1)]
    return np.where((numbers == 0) & (texts[0] == ""), -1, numbers), texts


def _match(
    table: Table, name: str, codes: NDArray[np.int64], words: Sequence[str], levels: Sequence[str], problems: Problems
) -> NDArray[np.int64]:
    """[row]: the number of each cell's text among the categories of training; another text is a problem."""
    place = {word: number for number, word in enumerate(levels)}
    for number, word in enumerate(words):
        if word and word not in place:
            row = int(np.argmax(codes == number))
            message = (
                f"{table.at(row)}, column {name!r}: {word!r} did not occur in training, so its effect is not known."
                f"{did_you_mean(word, list(levels))} It knew {listing([one for one in levels if one])}."
            )
            problems.add(Problem("category", message, table.place(row), name, word))
    return np.array([place.get(words[code], -1) if code >= 0 else -1 for code in codes.tolist()])

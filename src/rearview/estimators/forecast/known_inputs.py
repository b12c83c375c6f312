"""The future of known inputs, read from the caller's frame by series and stamp."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rearview.core.errors import InputError, SettingsError, did_you_mean
from rearview.data.holidays import HolidayColumns, is_holiday
from rearview.data.infer.categories import IS, name_origin
from rearview.data.infer.column_reader import sentinel_cells
from rearview.data.infer.number_text import MISSING_WORDS
from rearview.data.infer.series_ids import JOIN
from rearview.data.infer.timestamps import show
from rearview.data.infer.wall_time import to_wall_time
from rearview.data.io.table import name_index
from rearview.data.panel import Layout, Panel
from rearview.data.panel_reader import read_panel, settle
from rearview.data.read_options import ReadOptions

Array = NDArray[np.float64]


def read_known(
    panel: Panel, stamps: NDArray[np.generic], future: object, options: ReadOptions
) -> NDArray[np.float64] | None:
    """[series, column, step]: the known inputs of a panel at the stamps [series, step] to forecast, original units."""
    own = tuple(name for name in panel.known_names if not is_holiday(name))
    dated = panel.known_names[len(own) :]
    out = np.empty((panel.series, panel.known, stamps.shape[1]))
    if dated:
        cells = HolidayColumns.of(options.holidays, stamps.ravel(), panel.step, panel.layout, dated).cells
        out[:, len(own) :] = cells.reshape(*stamps.shape, -1).transpose(0, 2, 1)
    if not own:
        if future is not None:
            raise SettingsError(
                "A future was given, but no column is named as known; name them with known=[...] (--known) in training."
            )
        return out if dated else None
    if future is None:
        raise InputError(
            f"The values of {', '.join(_columns(panel))} are known in the future; give their next "
            f"{stamps.shape[1]} steps as future=... (command line: --future FILE)."
        )
    layout = panel.layout
    long = layout.form == "long"
    # Nothing is inferred here: a few rows do not show which values stand for missing (see `_refuse_missing_marks`).
    given = read_panel(
        name_index(future, layout.time_col),
        replace(
            settle(options, layout),
            id_col=(settle(options, layout).id_col or (layout.id_col or "",)) if long else (),
            time_col=layout.time_col,
            target_col=None,
            target=(),
            known=_columns(panel),
            static=(),
            levels=layout.levels,
            holidays=(),
            drop=(),
            together=long and layout.together,
            freq=panel.step,
            every=None,
            agg=None,
            sentinels=(),
            fill="last",
        ),
    )
    for s, name in enumerate(panel.ids):
        out[s, : len(own)] = _series_ahead(given, name, own, stamps[s], layout)
        _refuse_missing_marks(panel, s, out[s, : len(own)], stamps[s], given.layout.source, options)
    return out


def _refuse_missing_marks(
    panel: Panel, series: int, ahead: Array, stamps: NDArray[np.generic], source: str, options: ReadOptions
) -> None:
    """Refuse inputs ahead [column, step] of which a cell stands for missing, by the rule of the rows before."""
    before = panel.original(slice(*panel.span(series)), series)[:, len(panel.columns) - panel.known :]
    whole = np.rint(ahead)
    ahead = np.where(np.abs(ahead - whole) <= 1e-6 * np.abs(whole), whole, ahead)  # as before single precision
    for column, cells in enumerate(ahead):
        both = np.concatenate([before[:, column], cells])
        marks = sentinel_cells(both, np.array([0, len(both)]), options.sentinels)
        if marks is None or not (there := marks[len(before) :]).any():
            continue
        place = int(there.argmax())
        of_series = "" if panel.series == 1 else f" of series {panel.ids[series]!r}"
        raise InputError(
            f"{source}: the known input {panel.known_names[column]!r} is {cells[place]:g} at "
            f"{_show(stamps[place], panel.layout)}"
            f"{of_series}, which stands for missing; fill it in, or train with sentinels=None (--sentinels none) if it "
            "is a real value."
        )


def change_known(panel: Panel, known: Array, changes: Mapping[str, object]) -> Array:
    """Known inputs with some of them set to one value at all steps, numbers or categories, by the caller's names."""
    changed, levels = known.copy(), dict(panel.layout.levels)
    for name, value in changes.items():
        places = [
            place
            for place, column in enumerate(panel.known_names)
            if not is_holiday(column) and _origin(column, panel) == name
        ]
        if not places:
            others = ", ".join(_columns(panel)) or "none"
            raise SettingsError(f"{name!r} is no input known in the future, and can't be changed; {others} can.")
        if name in levels:
            if str(value) not in levels[name] and str(value).casefold() not in MISSING_WORDS:
                raise SettingsError(
                    f"{name} has no category {value!r}.{did_you_mean(str(value), levels[name])} It has "
                    f"{', '.join(word for word in levels[name] if word)}."
                )
            for place in places:
                column = panel.known_names[place]
                changed[:, place] = column == f"{name}{IS}{value}" or column.startswith(f"{name}{IS}{value}{JOIN}")
            continue
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise SettingsError(f"{name} is set to {value!r}, which is no number.")
        changed[:, places] = number
    return changed


def _origin(column: str, panel: Panel) -> str:
    """The caller's name of a known column; taken together, a column has the name of its series at the end."""
    if panel.layout.together:
        series = next((one for one in panel.target_names if column.endswith(f"{JOIN}{one}")), "")
        column = column.removesuffix(f"{JOIN}{series}")
    return name_origin(column, panel.layout)


def _columns(panel: Panel) -> tuple[str, ...]:
    """The known columns by their names in the caller's frame."""
    return tuple(dict.fromkeys(_origin(name, panel) for name in panel.known_names if not is_holiday(name)))


def _show(stamp: np.generic, layout: Layout) -> str:
    """A stamp as the clock of the rows before shows it, with their time zone where they have one."""
    zone = f" {layout.timezone}" if layout.timezone and layout.stored == "utc" and not layout.bare else ""
    return f"{show(to_wall_time(np.array([stamp]), layout)[0])}{zone}"


def _series_ahead(
    given: Panel, name: str, names: tuple[str, ...], stamps: NDArray[np.generic], layout: Layout
) -> Array:
    source = given.layout.source
    of_series = "" if given.series == 1 else f" of series {name!r}"
    if name not in given.ids:
        raise InputError(f"{source} has no rows for series {name!r}; give its known inputs too.")
    missing = [column for column in names if column not in given.columns]
    if missing:
        raise InputError(f"{source} has no rows for {missing[0]!r}; give its known inputs too.")
    series = given.ids.index(name)
    a, b = given.span(series)
    rows = np.searchsorted(given.stamps[a:b], stamps)
    there = rows < b - a
    there[there] = given.stamps[a:b][rows[there]] == stamps[there]
    if not there.all():
        raise InputError(
            f"{source} has no row for {_show(stamps[~there][0], layout)}{of_series}; the known inputs are needed from "
            f"{_show(stamps[0], layout)} to {_show(stamps[-1], layout)}."
        )
    cells = given.original(slice(a, b), series)[rows][:, [given.columns.index(column) for column in names]]
    if np.isnan(cells).any():
        row, column = np.argwhere(np.isnan(cells))[0]
        raise InputError(
            f"{source}: the known input {names[column]!r} is missing at {_show(stamps[row], layout)}{of_series}; "
            "fill it in."
        )
    return np.asarray(cells.T)

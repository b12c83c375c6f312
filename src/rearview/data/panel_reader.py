"""From a file or frame to a panel, with everything inferred or repaired on the way told as findings.

The order is: open, give every column its role, read the stamps, put the rows in order, then one column after another.
"""

from dataclasses import replace
from typing import Unpack

import numpy as np

from rearview.core.errors import InputError
from rearview.data.infer.column_reader import Reading
from rearview.data.infer.layout import ID_NAME, LONG_TIME_NAME, TEXT_COLUMNS, Roles, assign
from rearview.data.infer.number_text import TextColumn
from rearview.data.infer.row_order import JOIN, Rows, Source, aligned, as_they_stand, regular, series_of
from rearview.data.infer.timestamps import Times, kind_of, read_times, unix_unit
from rearview.data.io.files import open_table
from rearview.data.io.table import Table, listing
from rearview.data.panel import Finding, Layout, Panel
from rearview.data.panel_array import ONE_SERIES, Columns
from rearview.data.read_options import Fill, ReadKeywords, ReadOptions


def load(source: object, **options: Unpack[ReadKeywords]) -> Panel:
    """The panel in a file (CSV, packed or not, or parquet), a pandas, polars or arrow frame, or an open `Table`.

    A table with the columns unique_id, ds and y, or with `id_col`, is long: one series for each id, which `together`
    aligns as columns of one series. Every other table is wide: one series, a column for each variable. Columns of text
    that no option names are left out with a finding. The options are those of `ReadOptions`.
    """
    return read_panel(source, ReadOptions.of(**options))


def open_source(source: object, options: ReadOptions) -> Table:
    """A file or frame opened once, so that several panels can be read from it without parsing it again."""
    named = (*options.id_col, *([options.time_col] if options.time_col else []))
    text = TEXT_COLUMNS | {name.casefold() for name in named}
    return open_table(source, text_columns=text, index_names=(*named, ID_NAME, LONG_TIME_NAME))


def read_panel(source: object, options: ReadOptions) -> Panel:
    """The panel of a file, a frame or an open `Table`."""
    table = open_source(source, options)
    roles, findings = assign(table, options)
    times = read_times(table, roles.time, options.freq)
    # Text beside stamps that repeat may tell series apart, so it is not left out there.
    repeats = roles.form == "wide" and len(np.unique(times.values)) < len(times.values)
    reading = Reading.of(table, roles, options, keep_text=repeats)
    codes, ids = series_of(table, roles.ids) if roles.ids else (None, (ONE_SERIES,))
    rows_source = Source(table, roles.time, times.values, codes, ids)
    layout = _layout(table, roles, times, together=options.together)
    try:
        if options.row_by_row:
            rows, repaired = as_they_stand(rows_source, options.freq)
        else:
            rows, repaired = regular(rows_source, options.freq, reading.difference)
        if layout.together:
            rows, unaligned = aligned(rows, rows_source)
            repaired += unaligned
        panel = _panel(reading, rows, layout, ids, options.fill)
    except TextColumn as problem:
        ids = _texts(reading) if repeats else ()
        if not ids:
            raise
        raise _looks_long(table.source, ids) from problem
    about = (*_encoding_findings(table), *findings, *_time_findings(times, roles.time))
    return replace(panel, findings=(*about, *repaired, *reading.findings()))


def _layout(table: Table, roles: Roles, times: Times, *, together: bool) -> Layout:
    long = roles.form == "long"
    return Layout(
        form=roles.form,
        time_col=roles.time,
        id_col=JOIN.join(roles.ids) if long else None,
        target_col=roles.targets[0] if long and roles.targets else None,
        together=long and together,
        backend=table.backend,
        timezone=times.timezone,
        stored=times.stored,
        time_kind=times.kind,
        time_format=times.format,
        time_index=table.time_index == roles.time,
        source=table.source if table.backend == "file" else "frame",
    )


def _texts(reading: Reading) -> tuple[str, ...]:
    """The columns of text; none where one of them holds stamps, which may be the better time column."""
    names = tuple(name for name in reading.roles.numeric if reading.is_text(name))
    return () if any(kind_of(reading.table.fetch(name)) == "stamps" for name in names) else names


def _looks_long(source: str, ids: tuple[str, ...]) -> InputError:
    """What to say of text in a wide table whose stamps repeat: it tells series apart, which --drop would mix."""
    return InputError(
        f"{source} has several rows for one stamp, and text in {listing(ids)}, which may tell its series apart; if so, "
        f"name {'it' if len(ids) == 1 else 'them'} with id_col (--id-col {','.join(ids)}), and what to forecast with "
        "target_col (--target-col)."
    )


def _encoding_findings(table: Table) -> list[Finding]:
    if table.guessed_encoding is None:
        return []
    words = (
        f"The file is not in UTF-8 and was read as {table.guessed_encoding}, which is a guess; save it in UTF-8 if a "
        "name looks wrong."
    )
    return [Finding("inferred", "encoding", 0, words)]


def _time_findings(times: Times, column: str) -> list[Finding]:
    """What the stamps say of their time zone, and whole numbers of what they may count."""
    counted = unix_unit(times.values)
    if counted is not None:
        unit, moment = counted
        words = (
            f"Column {column!r} counts in whole numbers, which have no season; {times.values[0]} may be {moment} in "
            f"{unit} since 1970: if so, write the stamps as dates."
        )
        return [Finding("warning", "unix time", len(times.values), words)]
    if times.offsets is not None:
        low, high = times.offsets
        kept = "stamps are counted in UTC and forecasts are given in it"
        if times.stored == "wall":
            kept = "days are kept as local time and forecasts are given without an offset"
        words = f"Stamps have offsets from {low} to {high}; {kept}."
        return [Finding("repaired", "timezone", len(times.values), words)]
    if times.timezone is None:
        return []
    kept = "are counted in UTC" if times.stored == "utc" else "are kept as local time"
    words = f"The time zone is {times.timezone}; stamps {kept} and forecasts are given in it."
    return [Finding("inferred", "timezone", 0, words)]


def _panel(reading: Reading, rows: Rows, layout: Layout, ids: tuple[str, ...], fill: Fill) -> Panel:
    """The panel of the columns that are read, without findings."""
    roles = reading.roles
    spread = len(ids) if layout.together else 1
    columns = Columns(rows.offsets, len(roles.numeric) * spread, fill)
    for number, name in enumerate(roles.numeric):
        column = reading.column(name, rows)
        for part in range(spread):
            taken = slice(rows.bounds[part], rows.bounds[part + 1]) if layout.together else slice(None)
            columns.put(number * spread + part, rows.placed(column, taken))
    names: tuple[str, ...] = roles.numeric
    if layout.together:
        inputs = [f"{name}{JOIN}{one}" for name in (*roles.inputs, *roles.known) for one in ids]
        names = (*(ids if roles.targets else ()), *inputs)
    return Panel(
        values=columns.values,
        centre=columns.centre,
        observed=columns.observed,
        offsets=np.asarray(rows.offsets, dtype=np.int64),
        first=columns.first,
        stamps=rows.stamps,
        ids=(ONE_SERIES,) if layout.together else ids,
        columns=names,
        targets=len(roles.targets) * spread,
        known=len(roles.known) * spread,
        step=rows.step,
        layout=layout,
    )

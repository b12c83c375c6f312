"""From a file or frame to a panel, with everything inferred or repaired on the way reported as findings.

The order is: open, give every column its role, read the stamps, put the rows in order, then one column after another.
"""

from typing import Unpack

import numpy as np

from rearview.core.errors import InputError
from rearview.core.wording import listing, plural
from rearview.data.infer.column_reader import ColumnReader
from rearview.data.infer.layout import ID_NAME, LONG_TIME_NAME, TEXT_COLUMNS, assign_roles
from rearview.data.infer.number_text import TextColumn
from rearview.data.infer.row_order import JOIN, RowOrder, TableRows, align, keep_order, read_series, regularise
from rearview.data.infer.timestamps import infer_kind, read_times
from rearview.data.io.files import open_table
from rearview.data.io.table import Table
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
    roles, findings = assign_roles(table, options)
    times = read_times(table, roles.time, options.freq)
    # Text beside stamps that repeat may tell series apart, so it is not left out there.
    repeats = roles.form == "wide" and len(np.unique(times.values)) < len(times.values)
    columns = ColumnReader.of(table, roles, options, keep_text=repeats)
    codes, ids = read_series(table, roles.ids) if roles.ids else (None, (ONE_SERIES,))
    rows = TableRows(table, roles.time, times.values, codes, ids)
    long = roles.form == "long"
    layout = Layout(
        form=roles.form,
        time_col=roles.time,
        id_col=JOIN.join(roles.ids) if long else None,
        target_col=roles.targets[0] if long and roles.targets else None,
        together=long and options.together,
        backend=table.backend,
        timezone=times.timezone,
        stored=times.stored,
        time_kind=times.kind,
        time_format=times.format,
        time_index=table.time_index == roles.time,
        source=table.source if table.backend == "file" else "frame",
    )
    if table.guessed_encoding is not None:
        message = (
            f"The file is not in UTF-8 and was read as {table.guessed_encoding}, which is a guess; save it in UTF-8 if "
            "a name looks wrong."
        )
        findings.insert(0, Finding("inferred", "encoding", 0, message))
    findings += times.findings(roles.time)
    try:
        if options.row_by_row:
            order, repairs = keep_order(rows, options.freq)
        else:
            order, repairs = regularise(rows, options.freq, columns.first_difference)
        findings += repairs
        if layout.together:
            order, repairs = align(order, rows)
            findings += repairs
        return _build(columns, order, layout, ids, options.fill, findings)
    except TextColumn as problem:
        texts = columns.text_columns() if repeats else ()
        # A column of stamps may be the better time column, which the refusal says.
        if not texts or any(infer_kind(table.fetch(name)) == "stamps" for name in texts):
            raise
        raise InputError(
            f"{table.source} has several rows for one stamp, and text in {listing(texts)}, which may tell its series "
            f"apart; if so, name {plural(len(texts), 'it', 'them')} with id_col (--id-col {','.join(texts)}), and what "
            "to forecast with target_col (--target-col)."
        ) from problem


def _build(
    reader: ColumnReader, order: RowOrder, layout: Layout, ids: tuple[str, ...], fill: Fill, findings: list[Finding]
) -> Panel:
    """The panel of the columns, read one after another; taken together, each series has a column of its own."""
    roles = reader.roles
    spread = len(ids) if layout.together else 1
    columns = Columns(order.offsets, len(roles.numeric) * spread, fill)
    for number, name in enumerate(roles.numeric):
        column = reader.read(name, order)
        for part in range(spread):
            taken = slice(order.bounds[part], order.bounds[part + 1]) if layout.together else slice(None)
            columns.put(number * spread + part, order.on_grid(column, taken))
    names: tuple[str, ...] = roles.numeric
    if layout.together:
        inputs = [f"{name}{JOIN}{one}" for name in (*roles.inputs, *roles.known) for one in ids]
        names = (*(ids if roles.targets else ()), *inputs)
    return Panel(
        values=columns.values,
        centre=columns.centre,
        observed=columns.observed,
        offsets=np.asarray(order.offsets, dtype=np.int64),
        first=columns.first,
        stamps=order.stamps,
        ids=(ONE_SERIES,) if layout.together else ids,
        columns=names,
        targets=len(roles.targets) * spread,
        known=len(roles.known) * spread,
        step=order.step,
        layout=layout,
        findings=(*findings, *reader.findings()),
    )

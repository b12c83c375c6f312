"""Seeded files with something wrong in them: faults that must be refused and faults that must be repaired, with counts.

A case carries its bytes, the command line arguments that go with it, the same as options of `load`, and what has to be
said about it. Faults come alone and in pairs, both of which have to be named.
"""

import gzip
import random
from collections.abc import Callable, Iterator
from datetime import timedelta

from drafts import START, Case, Draft, Fragments, draft_of


def _unparsable_stamp(draft: Draft) -> Fragments:
    row, bad = draft.row(), draft.random.choice(("yesterday", "2024-13-45 00:00:00", "12h30"))
    draft.rows[row][draft.time] = bad
    return draft.place(row), repr(draft.header[draft.time]), bad


def _duplicated_stamp(draft: Draft) -> Fragments:
    row = draft.row()
    copy = [*draft.rows[row]]
    copy[draft.first_value] = "77.125"
    draft.rows.append(copy)
    named = (repr(copy[0]),) if draft.long else ()
    return "stands twice", draft.place(row), draft.place(len(draft.rows) - 1), *named


def _text_in_numbers(draft: Draft) -> Fragments:
    row, bad = draft.row(), draft.random.choice(("broken", "12 kW", "1_000", "closed"))
    column = draft.random.randrange(draft.first_value, len(draft.header))
    draft.rows[row][column] = bad
    return draft.place(row), repr(draft.header[column]), repr(bad)


def _infinite_value(draft: Draft) -> Fragments:
    row, column = draft.row(), draft.random.randrange(draft.first_value, len(draft.header))
    draft.rows[row][column] = draft.random.choice(("inf", "-inf"))
    return "infinite", draft.place(row), repr(draft.header[column])


def _missing_stamp(draft: Draft) -> Fragments:
    row = draft.row()
    draft.rows[row][draft.time] = ""
    return "stamp is missing", draft.place(row)


def _missing_id(draft: Draft) -> Fragments:
    row = draft.row()
    draft.rows[row][0] = ""
    return "id of the series is missing", draft.place(row)


def _stamp_without_offset(draft: Draft) -> Fragments:
    odd = draft.row()
    for number, row in enumerate(draft.rows):
        if row[draft.time] and number != odd:
            row[draft.time] += "+02:00"
    return "time zones", draft.place(odd)


def _too_many_fields(draft: Draft) -> Fragments:
    row = draft.row()
    draft.rows[row].append("5")
    return draft.place(row), "fields"


def _unknown_column(draft: Draft) -> Fragments:
    flag = draft.random.choice(("known", "drop") if draft.long else ("target", "known", "time_col"))
    draft.option(flag, "humidty")
    return "no column 'humidty'", flag


def _two_columns_of_one_name(draft: Draft) -> Fragments:
    draft.header[-1] = draft.header[draft.first_value]
    return "two columns called", repr(draft.header[-1])


def _off_grid(draft: Draft) -> Fragments:
    row = draft.row()
    stamp = draft.rows[row][draft.time]
    draft.rows[row][draft.time] = f"{stamp[:14]}07:13{stamp[19:]}"
    return "off the grid", draft.place(row)


def _only_text(draft: Draft) -> Fragments:
    for row in draft.rows:
        row[draft.first_value :] = draft.random.choices(("sunny", "rain"), k=len(row) - draft.first_value)
    return "holds text", repr(draft.header[draft.first_value]), "--drop"


def _nothing_to_forecast(draft: Draft) -> Fragments:
    columns = [draft.first_value] if draft.long else range(draft.first_value, len(draft.header))
    for row in draft.rows:
        for column in columns:
            row[column] = ""
    return ("nothing to forecast",)


def _no_time_column(draft: Draft) -> Fragments:
    draft.header[draft.time] = "meter"
    for number, row in enumerate(draft.rows):
        row[draft.time] = f"{number * 0.37:.2f}"
    return ("no time column",)


def _irregular(draft: Draft) -> Fragments:
    moment = START
    for row in draft.rows:
        moment += timedelta(seconds=draft.random.randint(1, 4000))
        row[draft.time] = moment.isoformat(sep=" ")
    return "no regular step", "--freq"


def _either_day_or_month(draft: Draft) -> Fragments:
    for number, row in enumerate(draft.rows):
        row[draft.time] = f"{number % 11 + 1:02d}/{number % 7 + 1:02d}/2024"
    return ("can be read as",)


def _far_stamp(draft: Draft) -> Fragments:
    draft.rows[-1][draft.time] = "2094-01-01 00:00:00"
    return "steps, but", "rows"


def _no_header(draft: Draft) -> Fragments:
    draft.header, draft.rows = draft.rows[0], draft.rows[1:]
    draft.header[draft.first_value] = "closed"
    return "line 1", "column names are expected"


def _only_header(draft: Draft) -> Fragments:
    draft.rows.clear()
    return ("no rows",)


def _too_short(draft: Draft) -> Fragments:
    draft.lookback = 500
    return "long enough", str(500 + draft.horizon)


def _no_horizon(draft: Draft) -> Fragments:
    draft.horizon = 0
    return ("horizon is 0",)


Fault = Callable[[Draft], Fragments]
TEXTS = ("comma", "semicolon", "tab", "gz")
ANY = (*TEXTS, "parquet")

# Faults of single cells, which can stand beside one another, with the files they can stand in.
_CELLS: dict[Fault, tuple[str, ...]] = {
    _unparsable_stamp: ANY,
    _duplicated_stamp: ANY,
    _text_in_numbers: ANY,
    _infinite_value: ANY,
    _missing_stamp: ANY,
    _missing_id: ANY,
    _stamp_without_offset: ANY,
    _too_many_fields: TEXTS,
    _unknown_column: ANY,
    _off_grid: ANY,
}
_WHOLE: dict[Fault, tuple[str, ...]] = {
    _two_columns_of_one_name: TEXTS,
    _only_text: ANY,
    _nothing_to_forecast: ANY,
    _no_time_column: TEXTS,
    _irregular: ANY,
    _either_day_or_month: ANY,
    _far_stamp: ANY,
    _no_header: TEXTS,
    _only_header: TEXTS,
    _too_short: ANY,
    _no_horizon: ANY,
}
_LONG_ONLY = (_missing_id,)
_WIDE_ONLY = (_only_text, _no_time_column, _irregular, _either_day_or_month, _no_header)


def _word(fault: Callable[[Draft], object]) -> str:
    return fault.__name__.strip("_").replace("_", " ")


def _refused(rng: random.Random, number: int, faults: tuple[Fault, ...]) -> Case:
    known = {**_CELLS, **_WHOLE}
    styles = tuple(style for style in ANY if all(style in known[fault] for fault in faults))
    long = True if set(faults) & set(_LONG_ONLY) else False if set(faults) & set(_WIDE_ONLY) else None
    draft = draft_of(rng, styles=styles, long=long)
    # The row that is too wide comes last: the other faults count columns.
    expected = tuple(fault(draft) for fault in sorted(faults, key=lambda fault: fault is _too_many_fields))
    return Case(
        f"{number:03d} {' and '.join(map(_word, faults))} {draft.style} {'long' if draft.long else 'wide'}",
        draft.suffix,
        draft.content(),
        tuple(draft.arguments),
        draft.options,
        draft.lookback,
        draft.horizon,
        expected,
    )


def _no_tables(rng: random.Random) -> Iterator[Case]:
    """Files that are no table at all."""
    whole = draft_of(rng, styles=("comma",), long=False)
    junk = rng.randbytes(4000)
    files = {
        "no bytes": (".csv", b"", ("is empty",)),
        "blank lines": (".csv", b"\n\n\n", ("is empty",)),
        "no file": (".csv", None, ("does not exist",)),
        "junk": (".csv", b"\x00" + junk, ("not a text table",)),
        "workbook": (".csv", b"PK\x03\x04" + junk, ("Excel",)),
        "half a gzip": (".csv.gz", gzip.compress(whole.content(), mtime=0)[:-20], ("damaged gzip",)),
        "half a parquet": (".parquet", b"PAR1" + junk, ("damaged parquet",)),
        "empty gzip": (".csv.gz", gzip.compress(b"", mtime=0), ("is empty",)),
    }
    for name, (suffix, content, fragments) in files.items():
        yield Case(name, suffix, content, (), {}, expected=(fragments,))


def refused(n: int = 200, seed: int = 0) -> list[Case]:
    """`n` files that must be refused: no tables, then every fault alone, then every pair of faults in turn."""
    rng = random.Random(seed)
    cases = list(_no_tables(rng))
    alone: list[tuple[Fault, ...]] = [(fault,) for fault in (*_CELLS, *_WHOLE)]
    cells = list(_CELLS)
    pairs: list[tuple[Fault, ...]] = [(a, b) for i, a in enumerate(cells) for b in cells[i + 1 :]]
    rng.shuffle(pairs)
    rounds = [*alone, *pairs, *alone]
    while len(cases) < n:
        cases.append(_refused(rng, len(cases), rounds[(len(cases) - 8) % len(rounds)]))
    return cases[:n]


def _sentinels(draft: Draft) -> None:
    count, column = draft.random.randint(1, 3), draft.random.randrange(draft.first_value, len(draft.header))
    value = draft.random.choice(("-999", "-9999", "-99999"))
    for _ in range(count):
        draft.rows[draft.row()][column] = value
    draft.counts["sentinels"] = count


def _missing_cells(draft: Draft) -> None:
    count = draft.random.randint(1, 3)
    word = draft.random.choice(("", "NA", "nan", "null")) if draft.style != "parquet" else ""
    for _ in range(count):
        draft.rows[draft.row()][draft.first_value] = word
    draft.counts["missing"] = count


def _input_column(draft: Draft, cell: str, what: str) -> None:
    draft.header.append("extra")
    for row in draft.rows:
        row.append(cell)
    if not draft.long:
        draft.option("target", "load")
    draft.counts[what] = 1


def _constant_input(draft: Draft) -> None:
    _input_column(draft, "4.5", "constant")


def _empty_input(draft: Draft) -> None:
    _input_column(draft, "", "empty")


def _text_column(draft: Draft) -> None:
    draft.header.append("weather")
    for row in draft.rows:
        row.append(draft.random.choice(("sunny", "rain")))
    draft.counts["text"] = 1


def _gaps(draft: Draft) -> None:
    """Removes rows last of all but swaps and copies, so that `free` still counts rows."""
    gone = sorted((draft.row() for _ in range(draft.random.randint(1, 3))), reverse=True)
    for row in gone:
        del draft.rows[row]
        draft.free = [free - (free > row) for free in draft.free]
    draft.counts["gaps"] = len(gone)


def _copies(draft: Draft) -> None:
    copied = sorted((draft.row() for _ in range(draft.random.randint(1, 3))), reverse=True)
    for row in copied:
        draft.rows.insert(row + 1, [*draft.rows[row]])
        draft.free = [free + (free > row) for free in draft.free]
    draft.counts["duplicates"] = len(copied)


def _unsorted(draft: Draft) -> None:
    for _ in range(draft.random.randint(1, 3)):
        row = draft.row()
        draft.rows[row], draft.rows[row + 1] = draft.rows[row + 1], draft.rows[row]
    if draft.random.random() < 0.3:
        draft.random.shuffle(draft.rows)
    latest: dict[str, str] = {}
    late = 0
    for row in draft.rows:
        name, stamp = (row[0] if draft.long else ""), row[draft.time]
        late += stamp < latest.get(name, "")
        latest[name] = max(stamp, latest.get(name, ""))
    draft.counts["unsorted"] = late


# In the order in which they are put in: cells, columns, rows.
_REPAIRS = (_sentinels, _missing_cells, _constant_input, _empty_input, _text_column, _gaps, _copies, _unsorted)
_DRESSES = ("", "bom", "crlf", "quotes", "blank", "spaces", "bom crlf quotes blank spaces")


def repaired(n: int = 50, seed: int = 0) -> list[Case]:
    """`n` files that must be read, with the counts of what had to be repaired; some are only oddly dressed."""
    rng = random.Random(seed)
    alone = [(repair,) for repair in _REPAIRS]
    # Text beside stamps that repeat may tell series apart: that is refused.
    both = {_constant_input, _empty_input}, {_text_column, _copies}
    pairs = [(a, b) for i, a in enumerate(_REPAIRS) for b in _REPAIRS[i + 1 :] if {a, b} not in both]
    rounds: list[tuple[Callable[[Draft], None], ...]] = [*alone, *pairs, *[() for _ in _DRESSES], *alone, *alone]
    cases = []
    for number in range(n):
        repairs = rounds[number % len(rounds)]
        draft = draft_of(rng, styles=TEXTS if not repairs else ANY)
        draft.dress = _DRESSES[number % len(_DRESSES)]
        for repair in repairs:
            repair(draft)
        name = " and ".join(map(_word, repairs)) or f"dressed {draft.dress or 'plainly'}"
        cases.append(
            Case(
                f"{number:03d} {name} {draft.style} {'long' if draft.long else 'wide'}",
                draft.suffix,
                draft.content(),
                tuple(draft.arguments),
                draft.options,
                counts=dict(draft.counts),
            )
        )
    return cases

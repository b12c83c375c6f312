"""Tables without fault, and the cases made from them: what the generators of broken files start from and end with."""

import gzip
import io
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

LOOKBACK, HORIZON = 12, 3
START = datetime(2024, 1, 1)
CHANNELS = ("load", "wind", "price")
Fragments = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One file and what must be said about it."""

    name: str
    suffix: str
    content: bytes | None
    """None for a file that does not exist."""
    arguments: tuple[str, ...]
    options: dict[str, object]
    lookback: int = LOOKBACK
    horizon: int = HORIZON
    expected: tuple[Fragments, ...] = ()
    """Refused: the fragments of the message, for each fault."""
    counts: dict[str, int] = field(default_factory=dict)
    """Repaired: how often each kind of repair was due."""

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name.replace(' ', '_')}{self.suffix}"
        if self.content is not None:
            path.write_bytes(self.content)
        return path

    def command_line(self, path: Path) -> list[str]:
        lengths = ["--horizon", str(self.horizon), "--lookback", str(self.lookback)]
        return ["forecast", str(path), *lengths, *self.arguments]


@dataclass
class Draft:
    """A table of text cells that faults are put into before it is written."""

    random: random.Random
    long: bool
    style: str
    header: list[str]
    rows: list[list[str]]
    arguments: list[str] = field(default_factory=list)
    options: dict[str, object] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    lookback: int = LOOKBACK
    horizon: int = HORIZON
    counts: dict[str, int] = field(default_factory=dict)
    dress: str = ""

    @property
    def time(self) -> int:
        return 1 if self.long else 0

    @property
    def first_value(self) -> int:
        return self.time + 1

    def option(self, flag: str, value: str) -> None:
        self.arguments += [f"--{flag.replace('_', '-')}", value]
        self.options[flag] = value

    def row(self) -> int:
        """A row that no other fault has touched, inside its series."""
        return self.free.pop(self.random.randrange(len(self.free)))

    def place(self, row: int) -> str:
        return f"row {row}" if self.style == "parquet" else f"line {row + 2}"

    def content(self) -> bytes:
        if self.style == "parquet":
            return self._parquet()
        separator = {"semicolon": ";", "tab": "\t"}.get(self.style, ",")
        records = [self.header, *self.rows]
        if "spaces" in self.dress:
            records[0] = [f" {name} " for name in records[0]]
        if "quotes" in self.dress:
            records = [[f'"{cell}"' for cell in record] for record in records]
        end = "\r\n" if "crlf" in self.dress else "\n"
        text = "".join(separator.join(record) + end for record in records)
        if self.style == "semicolon":
            text = text.replace(".", ",")
        content = (text + end * ("blank" in self.dress) * 3).encode()
        content = b"\xef\xbb\xbf" * ("bom" in self.dress) + content
        return gzip.compress(content, mtime=0) if self.style == "gz" else content

    def _parquet(self) -> bytes:
        import polars as pl

        columns: dict[str, object] = {}
        for position, name in enumerate(self.header):
            cells = [row[position] or None for row in self.rows]
            try:
                # Python reads 1_000 as a number, which a file would not say of itself.
                columns[name] = [None if cell is None else float(cell.replace("_", "?")) for cell in cells]
            except ValueError:
                columns[name] = cells
        sink = io.BytesIO()
        pl.DataFrame(columns).write_parquet(sink)
        return sink.getvalue()

    @property
    def suffix(self) -> str:
        return {"parquet": ".parquet", "tab": ".tsv", "gz": ".csv.gz"}.get(self.style, ".csv")


def draft_of(rng: random.Random, *, styles: tuple[str, ...], long: bool | None = None) -> Draft:
    """A table without fault: hourly, wide with three columns, or long with three series and one input."""
    is_long = rng.random() < 0.4 if long is None else long
    length = rng.randint(60, 90)
    stamps = [(START + timedelta(hours=hour)).isoformat(sep=" ") for hour in range(length)]

    def cell() -> str:
        return f"{rng.gauss(20.0, 4.0):.3f}"

    if is_long:
        header = ["unique_id", "ds", "y", "heat"]
        rows = [[name, stamp, cell(), cell()] for name in ("north", "south", "west") for stamp in stamps]
        inside = [row for row in range(3 * length) if 2 <= row % length < length - 2]
    else:
        header = ["date", *CHANNELS]
        rows = [[stamp, cell(), cell(), cell()] for stamp in stamps]
        inside = list(range(2, length - 2))
    draft = Draft(rng, is_long, rng.choice(styles), header, rows)
    # No two faults stand side by side, so that gaps, swaps and copies don't run into one another.
    draft.free = inside[:: rng.choice((4, 5))]
    if is_long and rng.random() < 0.5:
        draft.header[:3] = ["shop", "day", "sold"]
        for flag, name in (("id_col", "shop"), ("time_col", "day"), ("target_col", "sold")):
            draft.option(flag, name)
    return draft

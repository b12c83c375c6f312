"""Seeded files with something wrong in them that nobody chose with care: bytes flipped, cells replaced, odd types."""

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 60
CELLS = (
    "", "nan", "inf", "-inf", "1e-320", "1e308", "1e400", "9.969209968386869e36", "1e20", "-9999",
    "9223372036854775808",
    "18446744073709551616", "1" * 400, "0x1F", "1,5", "1.234,5", "1_000", "=1+1", "<script>", "\x00", "\u202e", "é",
    "x" * 140_000, "1e", "--", "+", "٣", "½", "true", "None", "2024-01-01", '"', "'", "\\", "5%", "$5", "(5)",
)  # fmt: skip
STAMPS = (
    "", "0000-01-01", "9999-12-31", "9999-12-30 23:59:59", "10000-01-01", "-0001-01-01", "2024-02-30",
    "2024-01-01T00:00:00+24:00",
    "2024-01-01T00:00:00+23:59", "2024-01-01T00:00:00+99:99", "2024-01-01 25:00", "1e18", "99999999999999999999", "-1",
    "0", "1.5", "01/02/2024", "31/12/99", "yesterday", "2024-W53-7", "2024-366", "2024-01-01T00:00:00.123456789Z",
    "NaT",
)  # fmt: skip
OPTIONS = (
    ("--freq", "999999999999D"), ("--freq", "0D"), ("--freq", "-1h"), ("--freq", "1e9s"), ("--freq", "D" * 100),
    ("--horizon", "1000000000"), ("--horizon", "100000"), ("--lookback", "1000000000"), ("--season", "99999999999"),
    ("--level", "0"), ("--level", "99.9999999999"), ("--sentinels", "nan,inf"), ("--time-col", "nothing"),
    ("--id-col", "a"), ("--target", "a,a"), ("--drop", "a"), ("--known", "b"), ("--seed", "99999999999999999999"),
    ("--seed", "-1"), ("--transform", "log1p"), ("--windows", "100000000"),
)  # fmt: skip
SIZES = ("width=1000000000", "width=9000000", "depth=100000", "width=-1", "heads=0", "dropout=nan", "width=1e400",
         "patch=0", "patch=100000000", "feed_forward=99999999", "width=[1]", "depth=1001")  # fmt: skip


def _date(row: int) -> str:
    return str(np.datetime64("2024-01-01") + np.timedelta64(row, "D"))


def wide_rows(random_: random.Random) -> list[list[str]]:
    """A header and rows of a wide table."""
    rows = [["date", "a", "b"]]
    return rows + [
        [_date(row), f"{10 + random_.random():.4f}", f"{row % 7 + random_.random():.3f}"] for row in range(ROWS)
    ]


def long_rows(random_: random.Random) -> list[list[str]]:
    """A header and rows of a long table of two series."""
    rows = [["unique_id", "ds", "y"]]
    return rows + [[name, _date(row), f"{random_.random():.4f}"] for name in ("n", "s") for row in range(ROWS // 2)]


def to_csv(rows: list[list[str]], separator: str = ",", end: str = "\n") -> bytes:
    """Rows as the content of a CSV file, unquoted."""
    return (end.join(separator.join(row) for row in rows) + end).encode("utf-8", errors="surrogatepass")


def damage_bytes(random_: random.Random, content: bytes) -> bytes:
    """Content with some bytes flipped, cut out, doubled or put in."""
    data = bytearray(content)
    for _ in range(random_.choice((1, 1, 2, 5, 30))):
        if not data:
            break
        place, length = random_.randrange(len(data)), random_.choice((1, 2, 8, 64))
        match random_.randrange(6):
            case 0:
                data[place] ^= 1 << random_.randrange(8)
            case 1:
                del data[place : place + length]
            case 2:
                data[place:place] = data[place : place + length]
            case 3:
                data[place:place] = random_.randbytes(length)
            case 4:
                data[place : place + length] = random_.randbytes(length)
            case _:
                del data[place:]
    return bytes(data)


def damage_cells(random_: random.Random, rows: list[list[str]]) -> list[list[str]]:
    """Rows of which some cells, stamps or names are replaced, and some rows cut, doubled or out of order."""
    rows = [[*row] for row in rows]
    time = 1 if rows[0][0] == "unique_id" else 0
    for _ in range(random_.choice((1, 1, 2, 4))):
        row = random_.randrange(1, len(rows)) if len(rows) > 1 else 0
        match random_.randrange(9):
            case 0 | 1:
                rows[row][random_.randrange(len(rows[row]))] = random_.choice(CELLS)
            case 2 | 3:
                rows[row][min(time, len(rows[row]) - 1)] = random_.choice(STAMPS)
            case 4:
                rows[0][random_.randrange(len(rows[0]))] = random_.choice((*CELLS, "h" * 300_000, "date", "a"))
            case 5:
                rows[row] = rows[row][: random_.randrange(len(rows[row]) + 1)] or [""]
            case 6:
                column, cell = random_.randrange(len(rows[0])), random_.choice((*CELLS, *STAMPS))
                for one in rows[1:]:
                    if column < len(one):
                        one[column] = cell
            case 7:
                rows = rows[: random_.choice((0, 1, 2, 3, 10))] or [[""]]
            case _:
                random_.shuffle(rows)
    return rows


def damage_rows(random_: random.Random, path: Path) -> None:
    """Damage the cells of a CSV file in place."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    path.write_bytes(to_csv(damage_cells(random_, rows)))


def csv_file(random_: random.Random, folder: Path) -> Path:
    """A damaged CSV file, plain or gz."""
    rows = random_.choice((wide_rows, long_rows))(random_)
    content = b""
    match random_.randrange(5):
        case 0:
            content = damage_bytes(random_, to_csv(rows))
        case 1:
            content = damage_bytes(random_, to_csv(damage_cells(random_, rows)))
        case 2:
            start = random_.choice(
                (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00", b"PK\x03\x04", b"PAR1", b"\x1f\x8b")
            )
            content = start + random_.choice((b"", to_csv(rows), to_csv(rows).decode().encode("utf-16-le")))
        case _:
            content = to_csv(damage_cells(random_, rows), random_.choice(",;\t|"), random_.choice(("\n", "\r\n", "\r")))
    if random_.random() < 0.2:
        packed = gzip.compress(content, mtime=0)
        content = damage_bytes(random_, packed) if random_.random() < 0.6 else packed
        return _put(folder / "x.csv.gz", content)
    return _put(folder / random_.choice(("x.csv", "x.csv", "x.tsv", "x.txt")), content)


def gz_file(random_: random.Random, folder: Path) -> Path:
    """A gz file that expands to much more than it is, or is damaged."""
    if random_.random() < 0.15:
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as file:
            block = b"2024-01-01,0,0\n" * 100_000
            file.write(b"date,a,b\n")
            for _ in range(random_.choice((50, 400))):
                file.write(block)
        return _put(folder / "x.csv.gz", buffer.getvalue())
    packed = gzip.compress(to_csv(random_.choice((wide_rows, long_rows))(random_)), mtime=0)
    return _put(folder / "x.csv.gz", damage_bytes(random_, packed) if random_.random() < 0.8 else packed * 3)


def parquet_file(random_: random.Random, folder: Path) -> Path:
    """A parquet file of odd types, or with damaged pages."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    dates = np.datetime64("2024-01-01", "us") + np.arange(ROWS).astype("timedelta64[D]")
    zone = random_.choice((None, "UTC", "+05:30", "-11:00", "Europe/Berlin", "Mars/Olympus", "+24:00", "", "EST5EDT"))
    numbers = np.arange(ROWS) % 7 + 0.5
    stamps: list[Any] = [
        pa.array(dates, type=pa.timestamp(random_.choice(("s", "ms", "us", "ns")), tz=zone or None)),
        pa.array(dates.astype("datetime64[D]")),
        pa.array([str(one) for one in dates]),
        pa.array(np.arange(ROWS, dtype=np.uint64) + np.uint64(random_.choice((0, 2**63, 2**64 - 100)))),
        pa.array(np.arange(ROWS) * random_.choice((1, 86_400, 10**15))),
        pa.array(np.arange(ROWS), type=pa.time64("us")),
        pa.array(np.arange(ROWS), type=pa.duration("s")),
        pa.array([None] * ROWS),
    ]
    cells: list[Any] = [
        pa.array(numbers),
        pa.array(numbers.astype(np.float16)),
        pa.array(np.full(ROWS, 2**64 - 1, dtype=np.uint64)),
        pa.array([round(float(one), 2) for one in numbers]).cast(pa.decimal128(20, 4)),
        pa.array([b"\xff\x00"] * ROWS),
        pa.array([[1.0, 2.0]] * ROWS),
        pa.array([{"x": 1}] * ROWS),
        pa.array([True, False] * (ROWS // 2)),
        pa.array([str(one) for one in numbers]).dictionary_encode(),
        pa.array(np.where(numbers > 5, np.nan, numbers)),
        pa.array(np.full(ROWS, 1e-320)),
        pa.array(np.where(np.arange(ROWS) == 9, 1e300, numbers)),
        pa.array([None] * ROWS),
        pa.nulls(ROWS, pa.float64()),
    ]
    table = {"date": random_.choice(stamps), "a": random_.choice(cells), "b": random_.choice(cells[:3])}
    if random_.random() < 0.4:
        ids: list[Any] = [
            pa.array([b"\xff\xfe", b"\x00"] * (ROWS // 2)),
            pa.array([[1], [2]] * (ROWS // 2)),
            pa.array(["n", "s"] * (ROWS // 2)),
            pa.array([None, "s"] * (ROWS // 2)),
            pa.array(np.arange(ROWS, dtype=np.uint64) % 2 + np.uint64(2**63)),
            pa.array([{"x": 1}, {"x": 2}] * (ROWS // 2)),
            pa.array([1.5, float("nan")] * (ROWS // 2)),
        ]
        table = {"unique_id": random_.choice(ids), "ds": table["date"], "y": table["a"]}
    buffer = io.BytesIO()
    pq.write_table(pa.table(table), buffer, compression=random_.choice(("none", "snappy", "gzip")))
    content = buffer.getvalue()
    return _put(folder / "x.parquet", damage_bytes(random_, content) if random_.random() < 0.5 else content)


def npz_file(random_: random.Random, folder: Path) -> Path:
    """An archive of arrays for detection of odd kinds and shapes, or damaged."""
    good = {
        "train": np.sin(np.arange(120.0))[:, None],
        "test": np.cos(np.arange(90.0))[:, None],
        "test_label": np.zeros(90),
    }
    odd: list[Any] = [
        np.array(5.0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((4, 4, 4)), np.array(["a", "b"]),
        np.array([1 + 2j]),
        np.full((90, 1), np.nan), np.full((90, 1), 1e300), np.array([{"a": 1}], dtype=object), np.zeros(90, dtype="V4"),
        np.zeros((90, 2)), np.zeros(90, dtype="datetime64[s]"), np.full(90, 2), np.zeros((90, 1), dtype=np.float16),
        np.arange(90, dtype=np.uint64)[:, None] + np.uint64(2**63), np.zeros((90, 1), dtype=">f8"), np.full((90, 1),
        1e-320),
    ]  # fmt: skip
    arrays = {name: random_.choice(odd) if random_.random() < 0.4 else array for name, array in good.items()}
    if random_.random() < 0.3:
        arrays.pop(random_.choice([*arrays]))
    if random_.random() < 0.2:
        arrays["entity"], arrays["entity_lengths"] = (
            np.array(["a", "b"]),
            random_.choice((np.ones((2, 2)), np.full((2, 2), 50))),
        )
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content = buffer.getvalue()
    return _put(folder / "x.npz", damage_bytes(random_, content) if random_.random() < 0.5 else content)


def ts_file(random_: random.Random, folder: Path) -> Path:
    """A damaged file of labelled series."""
    head = ["@problemName x", "@timeStamps false", "@missing false", "@univariate false", "@dimensions 2",
    "@equalLength true",
            "@seriesLength 12", "@classLabel true a b", "@data"]  # fmt: skip
    rows = [
        ":".join([",".join(f"{random_.random():.3f}" for _ in range(12)) for _ in range(2)] + ["ab"[case % 2]])
        for case in range(24)
    ]
    for _ in range(random_.choice((1, 2, 4))):
        if random_.random() < 0.5:
            head[random_.randrange(len(head))] = random_.choice(
                ("", "@dimensions 999999999", "@seriesLength -1", "@timeStamps true", "@classLabel false",
                "@targetLabel true",
                 "@classLabel true", "@data", "@univariate true", "@missing maybe", "@" + "x" * 100_000, "# comment")
            )  # fmt: skip
        else:
            row = random_.randrange(len(rows))
            words = rows[row].split(random_.choice(",:"))
            words[random_.randrange(len(words))] = random_.choice(
                ("", "?", "nan", "1e-320", "1e400", "x", "(0,1)", ":", "\x00")
            )
            rows[row] = ",".join(words)
    content = "\n".join([*head, *rows]).encode()
    return _put(folder / "x.ts", damage_bytes(random_, content) if random_.random() < 0.4 else content)


def case_rows(random_: random.Random) -> list[list[str]]:
    """A header and rows of a long table of labelled cases."""
    rows = [["unique_id", "ds", "x", "label"]]
    cells = ((case, step) for case in range(16) for step in range(9))
    return rows + [[f"{case}", f"{step}", f"{case % 2 + random_.random():.3f}", "ab"[case % 2]] for case, step in cells]


def cases_command(random_: random.Random, folder: Path, out: list[str]) -> list[str]:
    """Classification of a damaged long table of cases."""
    good = _put(folder / "good.csv", to_csv(case_rows(random_)))
    bad = _put(folder / "bad.csv", to_csv(damage_cells(random_, case_rows(random_))))
    pair = random_.choice(([bad, good], [good, bad], [bad, bad]))
    small = ["--train", "epochs=1", "--set", "width=8,heads=1,depth=1"]
    return ["classify", *map(str, pair), *out, *small]


def future_command(random_: random.Random, folder: Path, out: list[str]) -> list[str]:
    """A forecast with a damaged future of a known input."""
    past = [[*row, "promo" if not number else f"{number % 3}"] for number, row in enumerate(wide_rows(random_))]
    ahead = [["date", "promo"], *([_date(ROWS + step), f"{step % 3}"] for step in range(3))]
    if random_.random() < 0.5:
        ahead[random_.randrange(1, 4)][1] = random_.choice(CELLS)
    else:
        ahead = damage_cells(random_, ahead)
    files = [_put(folder / "x.csv", to_csv(past)), _put(folder / "ahead.csv", to_csv(ahead))]
    options = ["--known", "promo", "--horizon", "3", "--model", random_.choice(("ridge", "ets")), "--windows", "0"]
    return ["forecast", str(files[0]), "--future", str(files[1]), *out, *options]


def results_command(random_: random.Random, folder: Path, out: list[str]) -> list[str]:
    """The page of a results file that is cut off or damaged, as a full disk or an editor leaves it."""
    kept = Path(__file__).parents[1] / "tests" / "compatibility" / "saved_by_0_1_0"
    content = random_.choice(sorted(kept.glob("*_[12].csv"))).read_bytes()
    cut = content[: random_.randrange(len(content))]
    return ["report", str(_put(folder / "rows.csv", random_.choice((cut, damage_bytes(random_, content))))), *out[:2]]


def folder_command(random_: random.Random, folder: Path, out: list[str]) -> list[str]:
    """A forecast into a folder that has a damaged mark of a run, and a file of somebody else's."""
    place = folder / "out"
    place.mkdir()
    _put(place / MINE, b"mine")
    mark = {
        "command": "rearview forecast", "files": ["forecast.csv", "run.json"], "moves": ["forecast.csv"],
        "staging": ".rearview-staging-0123456789abcdef", "stale": ["report.html"], "foreign": [],
    }  # fmt: skip
    text = json.dumps(damage_json(random_, mark, random_.choice((1, 2, 4)))).encode()
    names = ("../x.csv", str(folder / "x.csv"), "model/../../x.csv")
    if random_.random() < 0.4:
        text = json.dumps({**mark, random_.choice(("files", "stale", "moves")): [random_.choice(names)]}).encode()
    _put(place / random_.choice((".rearview.json", "run.json")), text)
    file = _put(folder / "x.csv", to_csv(wide_rows(random_)))
    return ["forecast", str(file), *out, "--horizon", "3", "--model", "seasonal_naive", "--windows", "0"]


MINE = "mine.csv"
"""A file of somebody else's in the folder of a run."""
SITUATIONS = (cases_command, future_command, results_command, folder_command)


def input_command(random_: random.Random, folder: Path) -> list[str]:
    """A command line with a damaged file, or with a sound one and an odd option; the file lies in the folder."""
    out = ["--out", str(folder / "out"), "--device", "cpu"]
    quick = ["--model", "seasonal_naive", "--windows", "0"]
    trained = ["--model", "dlinear", "--windows", "1", "--train", "epochs=1"]
    kind = random_.choices(("csv", "gz", "parquet", "npz", "ts", "options", "situation"), (6, 1, 4, 2, 2, 2, 4))[0]
    if kind == "situation":
        return random_.choice(SITUATIONS)(random_, folder, out)
    if kind == "ts":
        good = _put(folder / "good.ts", ts_file(random.Random(0), folder).read_bytes())
        bad = ts_file(random_, folder)
        both = [str(bad), str(good)] if random_.random() < 0.5 else [str(bad), str(bad)]
        return ["classify", *both, *out, "--train", "epochs=1", "--set", "width=8,heads=1,depth=1"]
    if kind == "npz":
        return ["detect", str(npz_file(random_, folder)), *out, "--lookback", "8", "--train", "epochs=1"]
    if kind == "options":
        rows = random_.choice((wide_rows, long_rows))(random_)
        file = _put(folder / "x.csv", to_csv(rows))
        if random_.random() < 0.4:
            given = ["--set", random_.choice(SIZES), "--model", "patchtst", "--windows", "0", "--train", "epochs=1"]
            return ["forecast", str(file), *out, "--horizon", "3", *given]
        flag, value = random_.choice(OPTIONS)
        given = {"--horizon": "3", **dict(zip(quick[::2], quick[1::2], strict=True)), flag: value}
        return ["forecast", str(file), *out, *(word for pair in given.items() for word in pair)]
    make: Callable[[random.Random, Path], Path] = {"csv": csv_file, "gz": gz_file, "parquet": parquet_file}[kind]
    file = make(random_, folder)
    if random_.random() < 0.2:
        return ["detect", str(file), *out, "--lookback", "8", "--train", "epochs=1"]
    return ["forecast", str(file), *out, "--horizon", "3", *(trained if random_.random() < 0.15 else quick)]


JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 10**6, 10**9, 10**30, 1e400, float("nan"), "", "x" * 1000, "../../etc/passwd", [], {}, [[[]]],
    "patchtst",
    0.5, -0.5, [1, 2, 3], {"value": 1}, "2024-01-01", "W", "999999999999D",
)  # fmt: skip


def damage_json(random_: random.Random, facts: Any, edits: int) -> Any:
    """Facts of which some values, wherever they stand, are replaced, doubled or taken out."""
    for _ in range(edits):
        places = _places(facts)
        if not places:
            return random_.choice(JUNK)
        owner, key = random_.choice(places)
        match random_.randrange(4):
            case 0 | 1:
                owner[key] = random_.choice(JUNK)
            case 2 if isinstance(owner[key], int | float):
                owner[key] = owner[key] * random_.choice((-1, 0, 2, 1000, 10**8))
            case _:
                del owner[key]
    return facts


def _places(facts: Any) -> list[tuple[Any, Any]]:
    keys = facts.keys() if isinstance(facts, dict) else range(len(facts)) if isinstance(facts, list) else ()
    return [(facts, key) for key in keys] + [place for key in keys for place in _places(facts[key])]


def damage_model(random_: random.Random, folder: Path) -> None:
    """Damage a saved model in place: bytes, or facts and tensors with their checksums in order."""
    import hashlib

    import torch
    from safetensors.numpy import save
    from safetensors.torch import load

    from rearview.core.model_folder import checksum

    [manifest] = folder.glob("*.json")
    [weights] = folder.glob("weights-*")
    match random_.randrange(5):
        case 0:
            chosen = random_.choice((manifest, weights))
            chosen.write_bytes(damage_bytes(random_, chosen.read_bytes()))
        case 1:
            manifest.write_bytes(
                random_.choice((b"", b"[" * 100_000, b'{"a":' * 50_000, b"\xff" * 100, b"null", b"{}"))
            )
        case choice:
            facts = json.loads(manifest.read_text())
            facts.pop("checksum", None)
            if choice != 2:
                facts = damage_json(random_, facts, random_.choice((1, 1, 2, 5)))
            if choice in (2, 4) and isinstance(facts, dict):
                # numpy has no bfloat16, and loading takes the like in single precision.
                stored = load(weights.read_bytes()).items()
                tensors = {name: (one.float() if one.dtype == torch.bfloat16 else one).numpy() for name, one in stored}
                for _ in range(random_.choice((1, 1, 3))):
                    _damage_tensor(random_, tensors)
                content = save(tensors)
                if random_.random() < 0.2:
                    content = damage_bytes(random_, content)
                weights.write_bytes(content)
                facts["sha256"] = hashlib.sha256(content).hexdigest()
            if isinstance(facts, dict):
                facts["checksum"] = checksum(facts)
            manifest.write_text(json.dumps(facts))


def _damage_tensor(random_: random.Random, tensors: dict[str, Any]) -> None:
    if not tensors:
        return
    name = random_.choice(sorted(tensors))  # in what order a file of tensors is read differs from time to time
    array = tensors[name]
    match random_.randrange(6):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = np.zeros((3, *array.shape), array.dtype)
        case 2:
            tensors[name] = array.reshape(-1)[: random_.randrange(array.size + 1)].copy()
        case 3:
            tensors[name] = array.astype(random_.choice((np.int8, np.float64, np.int64, np.bool_)))
        case 4 if array.size and array.dtype.kind == "f":
            array = array.copy()
            array.reshape(-1)[random_.randrange(array.size)] = random_.choice((np.nan, np.inf, 1e38, 0, -1))
            tensors[name] = array
        case _:
            array = array.copy()
            if array.size:
                array.reshape(-1)[:] = random_.choice((0, 1, -1, 127))
            tensors[name] = array


def _put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
